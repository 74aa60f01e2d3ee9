"""LD components of a public panel, and stores of public integer maps from the codes of a block.

It is a Zarr group of kind ``ld components``. The components replace the codes of a block before
rows are clipped and summed, so that noise falls on directions that matter
(docs/maths/weights.md). A store of kind ``own directions`` is that of a second round: each
window of neighbouring variants has a map from the codes to the directions of all phenotypes, a map
to the phenotypes' scores by the first round, and the covariance of the codes in the panel
(docs/maths/rounds.md).

In a block of v coded variants, the panel's covariance matrix has eigenvectors, the components, and
eigenvalues. Those of few people are too large where they are largest, because the vectors follow
chance. The variance of each component is therefore measured by cross-validation: in people from
whom the vectors were not computed. Few people define few eigenvectors. The directions that are left
share the variance that is left equally.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise, starmap
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from primo_scale.genotypes.coding import LARGEST_CODE, GenotypeCoding
from primo_scale.genotypes.tables import Index
from primo_scale.kernels.products import FRACTION_BITS, Float64, Int64, LinearMap
from primo_scale.machine import read_ahead, usable_cpus
from primo_scale.panel.ld import LdPanel
from primo_scale.storage import groups
from primo_scale.storage.groups import read_block, write_array
from primo_scale.storage.locations import Location

KIND = "ld components"
LARGEST_STANDARD_DEVIATION = 28.0
"""Standard deviation, in lattice units, of the component of largest variance: 127 are 4.5 of it."""


@dataclass(frozen=True, eq=False)
class LdComponents:
    """Finished store of LD components. Public."""

    path: Location
    digest: str  # SHA-256 of the maps
    sizes: tuple[int, ...]  # number of components of each LD block
    boundaries: tuple[int, ...]  # of the LD blocks among the variants: 0, ..., d

    def variants(self, block: int) -> slice:
        """Return the indices of the variants of one LD block."""
        return slice(self.boundaries[block], self.boundaries[block + 1])

    def map_of(self, block: int) -> LinearMap:
        """Return the map of one LD block."""
        matrix = read_block(groups.array_of(self._group, f"matrix/{block}"))
        return LinearMap(matrix, read_block(groups.array_of(self._group, f"multipliers/{block}")))

    @cached_property
    def _group(self) -> groups.Group:
        return groups.open_group(self.path, KIND)


def open_components(path: Location) -> LdComponents:
    """Open a finished store, or refuse what `open_group` refuses."""
    attributes = groups.attributes_of(groups.open_group(path, KIND))
    sizes, boundaries = tuple(attributes["sizes"]), tuple(attributes["boundaries"])
    return LdComponents(path, str(attributes["digest"]), sizes, boundaries)


def write_components(path: Location, request: str, maps: Iterable[LinearMap]) -> LdComponents:
    """Write the maps of all LD blocks, unless a store of the same request is there.

    `request` is a digest of everything that determines the maps. They are then not computed again,
    because the last bits of an eigenvector may differ between machines.
    """
    if (
        groups.is_complete(path, KIND)
        and groups.attributes_of(groups.open_group(path, KIND))["request"] == request
    ):
        return open_components(path)
    group, content, shapes = groups.create_group(path, KIND, {}), hashlib.sha256(), []
    for block, each in enumerate(maps):
        shape = each.matrix.shape
        write_array(group, f"matrix/{block}", each.matrix, shape)
        write_array(group, f"multipliers/{block}", each.multipliers, shape[:1])
        content.update(f"{shape} ".encode())
        content.update(np.ascontiguousarray(each.matrix).tobytes())
        content.update(each.multipliers.astype("<i8").tobytes())
        shapes.append(shape)
    groups.flush(group)
    sizes, widths = np.array(shapes).T.tolist()
    groups.mark_complete(
        group,
        {
            "request": request,
            "digest": content.hexdigest(),
            "sizes": sizes,
            "boundaries": [0, *accumulate(widths)],
        },
    )
    return open_components(path)


def component_map(vectors: Float64, scales: Float64) -> LinearMap:
    """Return the integer map of components ``scales[i] vectors[i] @ codes``.

    The m directions, of shape (m, k), are not zero. Every row of the matrix is rounded with its
    largest entry at 127, and the multiplier brings the component to its scale.
    """
    steps = LARGEST_CODE / np.abs(vectors).max(axis=1)
    matrix = np.rint(vectors * steps[:, None]).astype(np.int8)
    multipliers = np.rint(np.ldexp(scales / steps, FRACTION_BITS))
    return LinearMap(matrix, np.clip(multipliers, 1, 2**31 - 1).astype(np.int64))


_OWN_KIND = "own directions"
_CHUNK = 1 << 20
_READ_WHOLE = ("maps", "multipliers", "owners", "scores", "score_multipliers")


@dataclass(frozen=True, eq=False)
class OwnWindow:
    """One window of w variants, with k directions for l phenotypes."""

    directions: LinearMap  # from w codes to k directions
    owners: Int64  # phenotype of each direction, ascending, shape (k,)
    scores: LinearMap  # from w codes to what the first round predicts, l outputs
    covariance: npt.NDArray[np.float32]  # of the codes in the panel, shape (w, w)


@dataclass(frozen=True, eq=False)
class OwnDirections(LdComponents):
    """Finished store of directions, whose blocks are windows. Public."""

    row_norm: int  # bound on the squared norm of a row of one phenotype that is not scaled down
    n_phenotypes: int
    residuals: tuple[float, ...]  # share of each phenotype's variance that the scores leave
    degrees: float  # mean degrees of freedom of the squared norm of a phenotype's row

    def rows(self, window: int) -> slice:
        """Return the positions of the directions of one window among all."""
        return slice(*self._rows[window : window + 2])

    def map_of(self, block: int) -> LinearMap:
        """Return the map from the codes of one window to its directions."""
        rows, size = self.rows(block), self.sizes[block]
        entries = self._whole["maps"][slice(*self._entries[block : block + 2])]
        return LinearMap(entries.reshape(size, -1), self._whole["multipliers"][rows])

    def owners_of(self, window: int) -> Int64:
        """Return the phenotype of each direction of one window."""
        return self.owners[self.rows(window)]

    def scores_of(self, window: int) -> LinearMap:
        """Return the map from the codes of one window to the scores of the phenotypes."""
        columns = self._whole["scores"][:, self.variants(window)]
        return LinearMap(np.ascontiguousarray(columns), self._whole["score_multipliers"][window])

    def covariance_of(self, window: int) -> Float64:
        """Return the covariance of the codes of one window in the panel."""
        squares = [0, *accumulate((np.diff(self.boundaries) ** 2).tolist())]
        entries = read_block(self._array("covariances"), (slice(*squares[window : window + 2]),))
        return entries.reshape(int(len(entries) ** 0.5 + 0.5), -1).astype(np.float64)

    @cached_property
    def owners(self) -> Int64:
        """Phenotype of each direction, shape (m,)."""
        return np.asarray(self._whole["owners"], dtype=np.int64)

    @cached_property
    def _rows(self) -> list[int]:
        return [0, *accumulate(self.sizes)]

    @cached_property
    def _entries(self) -> list[int]:
        return [0, *accumulate((np.array(self.sizes) * np.diff(self.boundaries)).tolist())]

    @cached_property
    def _whole(self) -> dict[str, npt.NDArray[Any]]:
        return {name: read_block(self._array(name)) for name in _READ_WHOLE}

    def _array(self, name: str) -> groups.Array:
        return groups.array_of(groups.open_group(self.path, _OWN_KIND), name)


def find_directions(path: Location, request: str | None = None) -> OwnDirections | None:
    """Return the finished store of a request, or of any, or None.

    `request` is a digest of everything that determines the directions. They are not computed again,
    because the last bits of an eigenvector may differ between machines.
    """
    if not groups.is_complete(path, _OWN_KIND):
        return None
    attributes = groups.attributes_of(groups.open_group(path, _OWN_KIND))
    return open_directions(path) if request in (None, attributes["request"]) else None


def open_directions(path: Location) -> OwnDirections:
    """Open a finished store, or refuse what `open_group` refuses."""
    stored = groups.attributes_of(groups.open_group(path, _OWN_KIND))
    return OwnDirections(
        path,
        str(stored["digest"]),
        tuple(stored["sizes"]),
        tuple(stored["boundaries"]),
        int(stored["row_norm"]),
        int(stored["n_phenotypes"]),
        tuple(stored["residuals"]),
        float(stored["degrees"]),
    )


def write_directions(
    path: Location,
    request: str,
    windows: Sequence[OwnWindow],
    row_norm: int,
    residuals: Sequence[float],
    degrees: float,
) -> OwnDirections:
    """Write the windows of a request in the place of any others."""
    arrays = {
        "maps": np.concatenate([each.directions.matrix.ravel() for each in windows]),
        "multipliers": np.concatenate([each.directions.multipliers for each in windows]),
        "owners": np.concatenate([each.owners for each in windows]).astype(np.int32),
        "scores": np.hstack([each.scores.matrix for each in windows]),
        "score_multipliers": np.stack([each.scores.multipliers for each in windows]),
        "covariances": np.concatenate([each.covariance.ravel() for each in windows]),
    }
    sizes = [len(each.owners) for each in windows]
    boundaries = [0, *accumulate(len(each.covariance) for each in windows)]
    attributes = {
        "sizes": sizes,
        "boundaries": boundaries,
        "row_norm": row_norm,
        "n_phenotypes": len(residuals),
        "residuals": list(residuals),
        "degrees": degrees,
    }
    content = hashlib.sha256(repr(sorted(attributes.items())).encode())
    group = groups.create_group(path, _OWN_KIND, {})
    for name, values in arrays.items():
        content.update(np.ascontiguousarray(values).tobytes())
        chunks = tuple(min(side, _CHUNK) for side in values.shape)
        write_array(group, name, values, chunks)
    groups.flush(group)
    attributes |= {"request": request, "digest": content.hexdigest()}
    groups.mark_complete(group, attributes)
    return open_directions(path)


_FOLDS = 5

_Block = TypeVar("_Block")
_Result = TypeVar("_Result")


@lru_cache(maxsize=1)
def variances_outside(
    panel: LdPanel, coding: GenotypeCoding, boundaries: tuple[int, ...]
) -> tuple[Float64, ...]:
    """Return the variances of all components of every LD block in people outside the panel.

    They are in squared lattice units and in the order of `components`, shape (v,), and kept for the
    next design of the same panel.
    """
    return tuple(_side_by_side(partial(_measured, panel, coding), _blocks(boundaries)))


def components(
    panel: LdPanel, coding: GenotypeCoding, boundaries: tuple[int, ...], chosen: Iterable[Index]
) -> Iterator[Float64]:
    """Yield the chosen components of every LD block, orthonormal rows of shape (chosen, v).

    `chosen` has their positions in each block. The leading eigenvectors of the covariance of the
    variants that the panel has come first, as many as cross-validation can measure. One unit vector
    for each of the other variants follows. Directions that complete the eigenvectors come last; the
    panel shows no difference between them.
    """
    blocks = zip(_blocks(boundaries), chosen, strict=True)
    yield from _side_by_side(partial(_vectors, panel, coding), blocks)


def _blocks(boundaries: tuple[int, ...]) -> Iterator[slice]:
    return starmap(slice, pairwise(boundaries))


def _side_by_side(
    of_block: Callable[[_Block], _Result], blocks: Iterable[_Block]
) -> Iterator[_Result]:
    """Yield the result of every block, computed on one thread each."""
    with threadpool_limits(1, user_api="blas"):
        yield from read_ahead(of_block, blocks, usable_cpus())


def _coded(panel: LdPanel, coding: GenotypeCoding, variants: slice) -> tuple[Index, Index, Float64]:
    """Return the variants that vary in the panel, all others, and centred codes of the former.

    Variants are positions in the slice `variants`; codes have the shape (varying, people).
    """
    here, dosages = panel.centred_dosages(variants)
    varying = dosages.any(axis=1)
    here, dosages = here[varying], dosages[varying]
    others = np.setdiff1d(np.arange(variants.stop - variants.start), here)
    coded = dosages * coding.multiplier[variants][here, None]
    return here, others, np.asarray(coded, dtype=np.float64)


def _measured(panel: LdPanel, coding: GenotypeCoding, variants: slice) -> Float64:
    _, others, coded = _coded(panel, coding, variants)
    measured = _cross_validated(coded)
    total = float((coded**2).sum() / coded.shape[1])
    n_alike = len(coded) - len(measured)
    left = max(total - measured.sum(), 0.0) / max(n_alike, 1)
    return np.concatenate([measured, coding.variances[variants][others], np.full(n_alike, left)])


def _vectors(panel: LdPanel, coding: GenotypeCoding, block: tuple[slice, Index]) -> Float64:
    variants, chosen = block
    here, others, coded = _coded(panel, coding, variants)
    found = _eigenvectors(coded)[: _n_measured(coded)]
    leading, rest = len(found), len(found) + len(others)
    vectors = np.zeros((len(here) + len(others),) * 2)
    vectors[:leading, here] = found
    vectors[np.arange(leading, rest), others] = 1.0
    if chosen.max(initial=0) >= rest:
        basis, _ = np.linalg.qr(found.T, mode="complete")
        vectors[rest:, here] = basis[:, leading:].T
    return np.asarray(vectors[chosen])


def _n_measured(coded: Float64) -> int:
    """Return the number of components that the people outside of any fold can define."""
    v, people = coded.shape
    return int(min(v, people - math.ceil(people / _FOLDS) - 1))


def _cross_validated(coded: Float64) -> Float64:
    """Return the variances of the leading components in people who did not define them.

    Codes have the mean 0. In every fold they are centred again, at the mean of the people who
    define its components. The mean of everybody depends on the others, who would seem to vary along
    the difference.
    """
    v, people = coded.shape
    sums, fold_of = np.zeros(_n_measured(coded)), np.arange(people) % _FOLDS
    few = v == len(sums)  # few variants: their products are a smaller matrix than the people's
    products = coded @ coded.T if few else coded.T @ coded
    for fold in range(_FOLDS):
        here = fold_of == fold
        if few:
            others, defining = coded[:, here], people - int(here.sum())
            mean = -others.sum(axis=1) / defining
            covariance = products - others @ others.T - defining * np.outer(mean, mean)
            projected = _leading(covariance)[1].T @ (others - mean[:, None])
        else:
            kept, across = products[~here][:, ~here], products[~here][:, here]
            mean = kept.mean(axis=1)
            values, vectors = _leading(kept - mean - mean[:, None] + mean.mean())
            projected = (vectors * _inverse_roots(values)).T @ (across - mean[:, None])
        sums += (projected[: len(sums)] ** 2).sum(axis=1)
    return np.asarray(sums / people)


def _eigenvectors(coded: Float64) -> Float64:
    """Return the eigenvectors of ``coded coded'`` as rows, by descending eigenvalue.

    There are as many as the smaller side of `coded`. Those that the people do not span are zero.
    """
    v, people = coded.shape
    if v <= people:
        return np.asarray(_leading(coded @ coded.T)[1].T)
    values, vectors = _leading(coded.T @ coded)
    return np.asarray((coded @ (vectors * _inverse_roots(values))).T)


def _leading(products: Float64) -> tuple[Float64, Float64]:
    """Return the eigenvalues of a matrix, and the eigenvectors in columns, the largest first."""
    values, vectors = np.linalg.eigh(products)
    return values[::-1], vectors[:, ::-1]


def _inverse_roots(values: Float64) -> Float64:
    """Return ``values ** -0.5`` of the eigenvalues of a matrix, 0 where they are negligible."""
    negligible = len(values) * np.finfo(np.float64).eps * values.max(initial=0.0)
    spanned = values > negligible
    return np.where(spanned, np.where(spanned, values, 1.0) ** -0.5, 0.0)
