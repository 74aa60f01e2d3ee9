"""Self-test of an ingest: the store counts copies of the correct allele."""

from __future__ import annotations

import numpy as np

from primo_scale.errors import InputError
from primo_scale.genotypes.packings import DOSAGES, HARD_CALLS, Packing
from primo_scale.genotypes.source import GenotypeSource
from primo_scale.genotypes.tables import Index
from primo_scale.storage.chunks import read_block
from primo_scale.storage.groups import Array

# Copies of A1 by raw value, https://www.cog-genomics.org/plink/1.9/formats#bed, and steps of 1/127
# of a copy by byte. They are repeated here so that the self-test does not depend on the kernels it
# tests.
_DEFINITIONS: dict[str, dict[int, int]] = {
    HARD_CALLS.kind: {0b00: 2, 0b01: -1, 0b10: 1, 0b11: 0},
    DOSAGES.kind: {**{step: step for step in range(255)}, 255: -1},
}
_TESTED_VARIANTS = 16
_TESTED_SAMPLES = 64


def check_orientation(
    source: GenotypeSource, array: Array, packing: Packing, *, variants: Index, samples: Index
) -> dict[str, int]:
    """Compare stored dosages with source genotypes, which are read as the format defines them.

    `variants` and `samples` are positions in the source, of the rows of the packed `array` and of
    its columns. A genotype that differs is refused. The result has the numbers of variants and
    genotypes that agreed.
    """
    rows = np.unique(np.linspace(0, len(variants) - 1, _TESTED_VARIANTS).astype(np.intp))
    half = _TESTED_SAMPLES // 2
    blocks = [(0, min(half, len(samples)))]
    if len(samples) > half:
        blocks.append((max(half, (len(samples) - half) // 4 * 4), len(samples)))
    genotypes, definition = 0, _DEFINITIONS[packing.kind]
    for row in rows.tolist():
        for start, stop in blocks:
            columns = slice(packing.width(start), packing.width(stop))
            packed = read_block(array, (slice(row, row + 1), columns))
            stored = packing.steps_or_missing(packed, stop - start)[0].tolist()
            raw = source.raw_values(int(variants[row]), samples[start:stop])
            expected = [definition[value] for value in raw]
            if stored != expected:
                raise InputError(
                    f"the stored genotypes of variant {row + 1} differ from the source",
                    where=source.where,
                    remedy="Remove the partial store and start again",
                )
            genotypes += len(expected)
    return {"variants": len(rows), "genotypes": genotypes}
