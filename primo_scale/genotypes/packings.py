"""Packings of genotypes in a store: two bits of a hard call, or one byte of a dosage.

A packing is a module of `kernels` and one entry of `PACKINGS`. Whatever reads a store takes its
functions from the store's packing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.kernels import dosage_bytes, packed

MISSING_DOSAGE = -1
# Copies of A1 (.bim column 5) of the raw values 0 hom A1, 1 missing, 2 het, 3 hom A2.
COPIES_OF_A1 = np.array([2, MISSING_DOSAGE, 1, 0], dtype=np.int8)

PackedBytes = npt.NDArray[np.uint8]
"""Genotypes of v variants, shape (v, width of the packing), of hard calls or dosages."""
_Codes = npt.NDArray[np.int8]
_Table = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Packing:
    """Encoding of a store's genotypes as bytes, and the functions that read them.

    A code table has the codes of 2 copies, of a missing genotype, of 1 copy and of 0 copies of A1
    for each variant, shape (v, 4).
    """

    kind: str  # of the store, a key of `storage.groups.FORMAT_VERSIONS`
    samples_per_byte: int
    missing: int  # byte of samples whose genotypes are missing
    steps: int  # number of steps in one copy, see `steps_or_missing`
    # Default numbers of variants and samples in a chunk, which has 4 MiB.
    chunk_shape: tuple[int, int]
    # Decode (v, width) into the memory of codes, and return the part written, (v, samples).
    decode_into: Callable[[_Codes, PackedBytes, _Table], _Codes]
    # Add the squared norm of each sample's codes over the variants to int64 norms, shape (n,).
    add_squared_norms: Callable[[npt.NDArray[np.int64], PackedBytes, _Table], None]
    # Count, of so many samples, those with 2 copies, missing, in between, and with 0, shape (v, 4).
    count: Callable[[PackedBytes, int], npt.NDArray[np.int64]]
    # Return the genotypes of the samples at these positions.
    select: Callable[[PackedBytes, npt.NDArray[np.intp]], PackedBytes]
    # Return copies of A1 of so many samples in steps, -1 where missing, shape (v, samples).
    steps_or_missing: Callable[[PackedBytes, int], npt.NDArray[np.signedinteger[Any]]]

    def width(self, n_samples: int) -> int:
        """Return the number of bytes of one variant of these samples."""
        return -(-n_samples // self.samples_per_byte)


def copies_of_hard_calls(genotypes: PackedBytes, n_samples: int) -> npt.NDArray[np.int8]:
    """Decode hard calls (v, ceil(n / 4)) to copies of A1, int8 (v, n); -1 where missing."""
    return packed.decode(genotypes, np.tile(COPIES_OF_A1, (len(genotypes), 1)), n_samples)


HARD_CALLS = Packing(
    kind="genotypes",
    samples_per_byte=packed.GENOTYPES_PER_BYTE,
    missing=0x55,
    steps=1,
    chunk_shape=(2048, 8192),
    decode_into=packed.decode_into,
    add_squared_norms=packed.add_squared_norms,
    count=packed.count_genotypes,
    select=packed.repack,
    steps_or_missing=copies_of_hard_calls,
)
DOSAGES = Packing(
    kind="dosages",
    samples_per_byte=1,
    missing=dosage_bytes.MISSING_BYTE,
    steps=dosage_bytes.STEPS,
    chunk_shape=(512, 8192),
    decode_into=dosage_bytes.decode_into,
    add_squared_norms=dosage_bytes.add_squared_norms,
    count=dosage_bytes.count_dosages,
    select=dosage_bytes.select,
    steps_or_missing=dosage_bytes.steps_or_missing,
)
PACKINGS = {packing.kind: packing for packing in (HARD_CALLS, DOSAGES)}
"""Packing by the kind of a store."""
