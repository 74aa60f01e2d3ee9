"""The arrays that raw and private statistics are made of, one LD block at a time.

For genotypes X (n x d) in diagonal blocks b, and outcome-side columns Z (n x q: the constant, the
covariates, the phenotypes)::

    gram/b         int64 (d_b, d_b)   X_b' X_b; noisy copies beyond the first are gram/b-1, ...
    cross/b        int64 (d_b, q)     X_b' Z
    outcome_gram   int64 (q, q)       Z' Z
    observed       int64 (l,)         people with each phenotype
    eigenvalue     int64 (1,)         noisy smallest eigenvalue of X'X, where it was measured
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.storage.files import sync_tree
from primo_scale.storage.groups import (
    array_of,
    create_array,
    create_group,
    mark_complete,
    open_group,
    read_block,
    write_block,
)

Int64 = npt.NDArray[np.int64]
_CHUNK_SIDE = 2048  # 2048 x 2048 int64 is 32 MiB: large for sequential reading, small in memory


@dataclass(frozen=True)
class BlockLayout:
    """Shapes of a set of block statistics; everything here is public.

    Attributes
    ----------
    boundaries
        Variant index at which each block starts, then the number of variants d.
    n_fixed
        Outcome-side columns that are not phenotypes: the constant and the covariates.
    n_phenotypes
        Number of phenotypes l.
    """

    boundaries: tuple[int, ...]
    n_fixed: int
    n_phenotypes: int

    @property
    def n_blocks(self) -> int:
        """Number of diagonal blocks."""
        return len(self.boundaries) - 1

    @property
    def n_variants(self) -> int:
        """Number of variants d."""
        return self.boundaries[-1]

    @property
    def n_outcomes(self) -> int:
        """Number of outcome-side columns q."""
        return self.n_fixed + self.n_phenotypes

    @property
    def sizes(self) -> tuple[int, ...]:
        """Variants in each block."""
        return tuple(self.boundaries[b + 1] - self.boundaries[b] for b in range(self.n_blocks))

    def variants(self, block: int) -> slice:
        """Variants of one block."""
        return slice(self.boundaries[block], self.boundaries[block + 1])


@dataclass(frozen=True)
class BlockMatrices:
    """Reads a store of block statistics; blocks are loaded when asked for.

    Whoever opens one checks first that the store is complete (`primo_scale.storage.groups`).
    """

    path: Path
    kind: str
    layout: BlockLayout

    @property
    def gram_copies(self) -> int:
        """Copies of X'X, each with noise of its own."""
        attributes = dict(open_group(self.path, self.kind, complete=False).attrs)
        return int(str(attributes["gram_copies"]))

    def gram(self, block: int, copy: int = 0) -> Int64:
        """X_b' X_b, shape (d_b, d_b)."""
        return self._whole(_gram_name(block, copy))

    def cross(self, block: int) -> Int64:
        """X_b' Z, shape (d_b, q)."""
        return self._whole(f"cross/{block}")

    def outcome_gram(self) -> Int64:
        """Z' Z, shape (q, q)."""
        return self._whole("outcome_gram")

    def observed(self) -> Int64:
        """Number of people with each phenotype, shape (l,)."""
        return self._whole("observed")

    def smallest_eigenvalue(self) -> int | None:
        """Smallest eigenvalue of X'X, noisy and rounded, or None where it was not measured."""
        if "eigenvalue" not in open_group(self.path, self.kind, complete=False):
            return None
        return int(self._whole("eigenvalue")[0])

    def sha256(self) -> str:
        """Digest of the integers and their shapes, whatever their chunks or history."""
        digest = hashlib.sha256(
            np.array(
                [self.layout.n_fixed, self.layout.n_phenotypes, *self.layout.boundaries], "<i8"
            ).tobytes()
        )
        for block in range(self.layout.n_blocks):
            for copy in range(self.gram_copies):
                digest.update(_bytes(self.gram(block, copy)))
            digest.update(_bytes(self.cross(block)))
        digest.update(_bytes(self.outcome_gram()))
        digest.update(_bytes(self.observed()))
        eigenvalue = self.smallest_eigenvalue()
        if eigenvalue is not None:
            digest.update(_bytes(np.array([eigenvalue])))
        return digest.hexdigest()

    def _whole(self, name: str) -> Int64:
        array = array_of(open_group(self.path, self.kind, complete=False), name)
        return read_block(array, (slice(None),) * array.ndim)


def _gram_name(block: int, copy: int) -> str:
    return f"gram/{block}" if copy == 0 else f"gram/{block}-{copy}"


def _bytes(values: Int64) -> memoryview:
    return np.ascontiguousarray(values, "<i8").data.cast("B")


class BlockMatricesWriter:
    """Writes a store of block statistics; it counts only after `finish`."""

    def __init__(self, path: Path, kind: str, layout: BlockLayout, *, gram_copies: int = 1) -> None:
        self._path, self._kind, self._layout = path, kind, layout
        attributes = {"boundaries": list(layout.boundaries), "gram_copies": gram_copies}
        self._group = create_group(path, kind, attributes)

    def write_gram(self, block: int, values: Int64, copy: int = 0) -> None:
        """Store X_b' X_b."""
        self._write(_gram_name(block, copy), values)

    def write_cross(self, block: int, values: Int64) -> None:
        """Store X_b' Z."""
        self._write(f"cross/{block}", values)

    def write_outcome_gram(self, values: Int64) -> None:
        """Store Z' Z."""
        self._write("outcome_gram", values)

    def write_observed(self, values: Int64) -> None:
        """Store the number of people with each phenotype."""
        self._write("observed", values)

    def write_smallest_eigenvalue(self, value: int) -> None:
        """Store the noisy smallest eigenvalue of X'X."""
        self._write("eigenvalue", np.array([value], dtype=np.int64))

    def finish(self, attributes: Mapping[str, Any]) -> BlockMatrices:
        """Flush the store to the disk, declare it complete and give a reader of it."""
        sync_tree(self._path)
        mark_complete(self._group, attributes)
        return BlockMatrices(self._path, self._kind, self._layout)

    def _write(self, name: str, values: Int64) -> None:
        array = create_array(
            self._group,
            name,
            shape=values.shape,
            chunks=tuple(min(size, _CHUNK_SIDE) for size in values.shape),
            dtype=np.int64,
        )
        write_block(array, (slice(None),) * values.ndim, values)
