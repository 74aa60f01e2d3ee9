"""Store of LD components: public integer maps from the coded genotypes of each LD block.

It is a Zarr group of kind ``ld components``. The components replace the codes of a block before
rows are clipped and summed, so that noise falls on directions that matter
(docs/maths/ld-components.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.coding import LARGEST_CODE
from primo_scale.kernels.rows import FRACTION_BITS, LinearMap
from primo_scale.storage import groups
from primo_scale.storage.chunks import read_block, write_array
from primo_scale.storage.locations import Location

KIND = "ld components"
LARGEST_STANDARD_DEVIATION = 28.0
"""Standard deviation, in lattice units, of the component of largest variance: 127 are 4.5 of it."""

Float64 = npt.NDArray[np.float64]


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
        multipliers = read_block(groups.array_of(self._group, f"multipliers/{block}"))
        return LinearMap(matrix, multipliers)

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
