"""PLINK 1 filesets, read and written: a .bed file with its tables (.bim and .fam).

A .bed file is three header bytes, then packed genotypes, one row for each variant. Files are not
memory-mapped. A read needs the memory of its result and at most `RAW_SLAB_BYTES` more.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from primo_scale.errors import InputError
from primo_scale.genotypes.source import GenotypeSource, SourceFiles
from primo_scale.genotypes.tables import Index, SampleTable, VariantTable, read_bim, read_fam
from primo_scale.kernels.packed import PackedGenotypes, packed_width, repack
from primo_scale.machine import refuse_full_disk
from primo_scale.ranges import runs_of
from primo_scale.storage import files

EXTENSIONS = (".bed", ".bim", ".fam")

RAW_SLAB_BYTES = 4 << 20
"""Size of the buffer that a read holds in addition to its result, in bytes."""

_HEADER = b"\x6c\x1b\x01"  # two bytes of magic, then 1: a row for each variant


@dataclass(frozen=True, eq=False)
class Fileset(GenotypeSource):
    """A .bed file with its tables, where `where` is the prefix."""

    def files(self) -> list[Path]:
        """Return the three files."""
        return [fileset_path(self.where, kind) for kind in EXTENSIONS]

    def copied_files(self) -> list[Path]:
        """Return the .bed file."""
        return [self._bed]

    def read(self, variants: Index, samples: Index) -> PackedGenotypes:
        """Read a selection of genotypes, packed and variant-major: uint8, shape (v, ceil(k / 4)).

        `variants` and `samples` are increasing positions in the file, at least one each; padding
        bits are zero. A file that became shorter after it was opened is refused.
        """
        result = np.empty((len(variants), packed_width(len(samples))), dtype=np.uint8)
        self.read_into(result, variants, samples)
        return result

    def read_into(self, result: PackedGenotypes, variants: Index, samples: Index) -> None:
        """Read as `read` does, into a C-contiguous array of the result's shape."""
        with self._bed.open("rb", buffering=0) as file:
            descriptor = file.fileno()
            if samples[0] % 4 == 0 and samples[-1] - samples[0] + 1 == len(samples):
                self._read_rows(descriptor, variants, int(samples[0]) // 4, result)
                if len(samples) % 4:
                    result[:, -1] &= (1 << 2 * (len(samples) % 4)) - 1
                return
            first = int(samples[0]) // 4
            span = packed_width(int(samples[-1]) + 1) - first
            step = max(1, RAW_SLAB_BYTES // span)
            buffer = np.empty((min(step, len(variants)), span), dtype=np.uint8)
            for start in range(0, len(variants), step):
                rows = variants[start : start + step]
                self._read_rows(descriptor, rows, first, buffer[: len(rows)])
                result[start : start + step] = repack(buffer[: len(rows)], samples - 4 * first)

    @property
    def _bed(self) -> Path:
        return fileset_path(self.where, ".bed")

    def _read_rows(self, descriptor: int, rows: Index, first: int, out: PackedGenotypes) -> None:
        """Fill `out` with the bytes of `rows`, starting at byte `first` of each row."""
        row_bytes = packed_width(len(self.samples))
        offsets = len(_HEADER) + rows.astype(np.int64) * row_bytes + first
        if out.shape[1] == row_bytes:  # read neighbouring whole rows together
            for start, stop in runs_of(rows - np.arange(len(rows))):
                self._read_into(descriptor, out[start:stop].data.cast("B"), int(offsets[start]))
            return
        for row, offset in zip(out, offsets.tolist(), strict=True):
            self._read_into(descriptor, row.data, offset)

    def _read_into(self, descriptor: int, target: memoryview, offset: int) -> None:
        while target:
            count = os.preadv(descriptor, [target], offset)
            if not count:
                remedy = "Do not change input files during a run; start the run again"
                raise InputError("became shorter while it was read", where=self._bed, remedy=remedy)
            target, offset = target[count:], offset + count


def fileset_path(prefix: Path, extension: str) -> Path:
    """Return a file of a fileset; unlike `Path.with_suffix`, this allows dots in the prefix."""
    return prefix.parent / (prefix.name + extension)


def open_fileset(prefix: Path, _files: SourceFiles) -> Fileset:
    """Read the tables of a fileset and check the .bed file against them.

    Malformed files, and a file in place of a prefix, are refused.
    """
    bed, bim, fam = (fileset_path(prefix, extension) for extension in EXTENSIONS)
    if not bed.exists():
        refuse_file_of_fileset(prefix, EXTENSIONS)
    for path in (bed, bim, fam):
        files.refuse_special_file(path)
    variants, people = read_bim(bim), read_fam(fam)
    _check_bed(bed, len(people), len(variants))
    return Fileset(prefix, people, variants)


def _check_bed(path: Path, n_samples: int, n_variants: int) -> None:
    """Check the header and the exact size of a .bed file."""
    files.refuse_missing_file(path)
    with path.open("rb") as file:
        header = file.read(len(_HEADER))
        size = os.fstat(file.fileno()).st_size
    if header != _HEADER:
        raise InputError(
            "is not a PLINK 1 .bed file with a row for each variant: wrong first three bytes",
            where=path,
            value=header.hex() or "an empty file",
            expected=_HEADER.hex(),
            remedy="Convert it (plink2 --make-bed)",
        )
    expected = len(_HEADER) + n_variants * packed_width(n_samples)
    if size != expected:
        raise InputError(
            f"has the wrong size for {n_samples} samples and {n_variants} variants",
            where=path,
            value=f"{size} bytes",
            expected=f"{expected} bytes",
            remedy="Check that .bed, .bim and .fam belong together and are complete",
        )


def refuse_file_of_fileset(prefix: Path, extensions: Collection[str]) -> None:
    """Refuse a file of a fileset in place of the prefix."""
    if prefix.suffix in extensions:
        what = f"is a file, but a fileset is given by its prefix (without {prefix.suffix})"
        raise InputError(what, where=prefix, remedy=f"Give {prefix.with_suffix('')}")


_PRIVATE = 0o600


GenotypeSlab = tuple[int, int, PackedGenotypes]
"""First variant, first person, which is a multiple of 4, and their packed genotypes, with padding
bits zero, shape (variants, ceil(people / 4))."""


def write_bed(
    path: Path, slabs: Iterable[GenotypeSlab], shape: tuple[int, int], *, mode: int = _PRIVATE
) -> None:
    """Write genotypes from slabs, in any order, that together cover every variant of every person.

    `shape` are the numbers of variants and of people, and `mode` the permissions of the file. A
    disk with too little free space is refused before the first write.
    """
    n_variants, width = shape[0], packed_width(shape[1])
    with files.disk_errors_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    needed = len(_HEADER) + n_variants * width
    remedy = "Take fewer people or variants, or choose another disk"
    refuse_full_disk(path, needed, what="the genotypes", remedy=remedy)
    with files.file_published_at_end(path, mode=mode) as file:
        file.write(_HEADER)
        for first_variant, first_person, packed in slabs:
            start = len(_HEADER) + first_variant * width + packed_width(first_person)
            for number, part in enumerate([packed] if packed.shape[1] == width else packed):
                file.seek(start + number * width)
                file.write(part.data)


def write_bim(path: Path, variants: VariantTable, *, mode: int = _PRIVATE) -> None:
    """Write the variant table."""
    chromosome, identifier, *others = vars(variants).values()
    distance = [0] * len(variants)
    write_rows(path, zip(chromosome, identifier, distance, *others, strict=True), mode=mode)


def write_fam(path: Path, samples: SampleTable) -> None:
    """Write the sample table, without parents, sexes and phenotypes."""
    people = zip(samples.family, samples.individual, strict=True)
    write_rows(path, ((fid, iid, 0, 0, 0, -9) for fid, iid in people))


def write_rows(path: Path, rows: Iterable[Iterable[object]], *, mode: int = _PRIVATE) -> None:
    """Write a table with tabs between the cells."""
    with files.text_published_at_end(path, mode=mode) as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in rows)
