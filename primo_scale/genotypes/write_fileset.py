"""Writing of PLINK 1 filesets. A file gets its final name only when it is complete."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from primo_scale.genotypes.tables import SampleTable, VariantTable
from primo_scale.kernels.packed import PackedGenotypes, packed_width
from primo_scale.machine import refuse_full_disk
from primo_scale.storage.files import (
    disk_errors_explained,
    file_published_at_end,
    text_published_at_end,
)

_BED_HEADER = b"\x6c\x1b\x01"  # magic, variant-major
_PRIVATE = 0o600


class GenotypeSlab(NamedTuple):
    """Packed genotypes of consecutive people, the first a multiple of 4, at consecutive variants.

    `packed` has shape (variants, ceil(people / 4)), with padding bits zero.
    """

    first_variant: int
    first_person: int
    packed: PackedGenotypes


def write_bed(
    path: Path, slabs: Iterable[GenotypeSlab], shape: tuple[int, int], *, mode: int = _PRIVATE
) -> None:
    """Write genotypes from slabs, in any order, that together cover every variant of every person.

    `shape` are the numbers of variants and of people, and `mode` the permissions of the file. A
    disk with too little free space is refused before the first write.
    """
    n_variants, width = shape[0], packed_width(shape[1])
    with disk_errors_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    refuse_full_disk(
        path,
        len(_BED_HEADER) + n_variants * width,
        what="the genotypes",
        remedy="Take fewer people or variants, or choose another disk",
    )
    with file_published_at_end(path, mode=mode) as file:
        file.write(_BED_HEADER)
        for slab in slabs:
            of_person = packed_width(slab.first_person)
            start = len(_BED_HEADER) + slab.first_variant * width + of_person
            whole_rows = slab.packed.shape[1] == width
            for number, part in enumerate([slab.packed] if whole_rows else slab.packed):
                file.seek(start + number * width)
                file.write(part.data)


def write_bim(path: Path, variants: VariantTable, *, mode: int = _PRIVATE) -> None:
    """Write the variant table."""
    columns = (
        variants.chromosome,
        variants.identifier,
        [0] * len(variants),  # genetic distance
        variants.position,
        variants.allele1,
        variants.allele2,
    )
    write_rows(path, zip(*columns, strict=True), mode=mode)


def write_fam(path: Path, samples: SampleTable) -> None:
    """Write the sample table, without parents, sexes and phenotypes."""
    people = zip(samples.family, samples.individual, strict=True)
    write_rows(path, ((fid, iid, 0, 0, 0, -9) for fid, iid in people))


def write_rows(path: Path, rows: Iterable[Iterable[object]], *, mode: int = _PRIVATE) -> None:
    """Write a table with tabs between the cells."""
    with text_published_at_end(path, mode=mode) as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in rows)
