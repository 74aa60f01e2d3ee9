"""Store of a second round: public integer directions of every phenotype's own, in windows.

It is a Zarr group of kind ``own directions``. In each window of neighbouring variants it has a map
from the codes to the directions of all phenotypes, a map to the phenotypes' scores by the first
round, and the covariance of the codes in a public panel (docs/maths/rounds.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.ld_components import LdComponents
from primo_scale.kernels.products import Float64, Int64
from primo_scale.kernels.rows import LinearMap
from primo_scale.storage import groups
from primo_scale.storage.chunks import read_block, write_array
from primo_scale.storage.locations import Location

KIND = "own directions"
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
        return groups.array_of(groups.open_group(self.path, KIND), name)


def find_directions(path: Location, request: str | None = None) -> OwnDirections | None:
    """Return the finished store of a request, or of any, or None.

    `request` is a digest of everything that determines the directions. They are not computed again,
    because the last bits of an eigenvector may differ between machines.
    """
    if not groups.is_complete(path, KIND):
        return None
    attributes = groups.attributes_of(groups.open_group(path, KIND))
    return open_directions(path) if request in (None, attributes["request"]) else None


def open_directions(path: Location) -> OwnDirections:
    """Open a finished store, or refuse what `open_group` refuses."""
    stored = groups.attributes_of(groups.open_group(path, KIND))
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
    group = groups.create_group(path, KIND, {})
    for name, values in arrays.items():
        content.update(np.ascontiguousarray(values).tobytes())
        chunks = tuple(min(side, _CHUNK) for side in values.shape)
        write_array(group, name, values, chunks)
    groups.flush(group)
    attributes |= {"request": request, "digest": content.hexdigest()}
    groups.mark_complete(group, attributes)
    return open_directions(path)
