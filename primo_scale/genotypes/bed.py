"""PLINK 1 filesets: a .bed file with its tables of variants (.bim) and people (.fam).

A .bed file is three header bytes, then packed genotypes. Both layouts are read: variant-major
(third byte 1, which PLINK writes) and sample-major (0). Files are not memory-mapped. A read needs
the memory of its result and at most `RAW_SLAB_BYTES` more.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from primo_scale.errors import InputError
from primo_scale.genotypes.source import GenotypeSource, SourceFiles
from primo_scale.genotypes.tables import Index, read_bim, read_fam
from primo_scale.kernels.compiling import (
    I8,
    I32,
    I64,
    Builder,
    Value,
    compiled,
    emitted,
    function,
    pointer,
)
from primo_scale.kernels.packed import PackedGenotypes, packed_width, repack, transpose
from primo_scale.ranges import runs_of
from primo_scale.storage.files import refuse_missing_file, refuse_special_file

EXTENSIONS = (".bed", ".bim", ".fam")

RAW_SLAB_BYTES = 4 << 20
"""Size of the buffer that a read holds in addition to its result, in bytes."""

# A chunk-row of 2,048 variants of a million people. A longer range has few selected variants.
_READ_AHEAD_BYTES = 512 << 20

_MAGIC = b"\x6c\x1b"
_HEADER_BYTES = 3
_SAMPLE_MAJOR, _VARIANT_MAJOR = 0, 1

# Option that reads a file of another format, by file name ending.
_OTHER_FORMATS = {
    **dict.fromkeys((".pgen", ".pvar", ".psam"), "--pfile {prefix}"),
    ".bgen": "--bgen {file}",
    **dict.fromkeys((".vcf", ".vcf.gz", ".bcf"), "--vcf {file}"),
}


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
        self.read_ahead(variants)
        self.read_into(result, variants, samples)
        return result

    def read_ahead(self, variants: Index) -> None:
        """Ask the operating system to read these variants into its page cache in one pass.

        Without it, reading 2,048 scattered pieces of 2 KiB has a third of the speed of one slab.
        For a sample-major file, `read_into` does this.
        """
        if self.variant_major:
            with self._bed.open("rb", buffering=0) as file:
                self._read_rows_ahead(file.fileno(), variants)

    def read_into(self, result: PackedGenotypes, variants: Index, samples: Index) -> None:
        """Read as `read` does, into a C-contiguous array of the result's shape."""
        with self._bed.open("rb", buffering=0) as file:
            descriptor = file.fileno()
            if self.variant_major and _is_whole_bytes(samples):
                self._read_rows(descriptor, variants, int(samples[0]) // 4, result)
                if len(samples) % 4:
                    result[:, -1] &= (1 << 2 * (len(samples) % 4)) - 1
            elif self.variant_major:
                for start, stop, raw, origin in self._slabs(descriptor, variants, samples):
                    result[start:stop] = repack(raw, samples - origin)
            else:
                self._read_rows_ahead(descriptor, samples)
                for start, stop, raw, origin in self._slabs(descriptor, samples, variants):
                    result[:, start // 4 : packed_width(stop)] = transpose(raw, variants - origin)

    def raw_values(self, variant: int, samples: Index) -> list[int]:
        """Read genotypes as the format defines them, slowly, as an independent check of `read`."""
        values = []
        with self._bed.open("rb") as file:
            for sample in samples.tolist():
                row, column = (variant, sample) if self.variant_major else (sample, variant)
                file.seek(_HEADER_BYTES + row * self._row_bytes + column // 4)
                values.append((file.read(1)[0] >> 2 * (column % 4)) & 3)
        return values

    @property
    def _bed(self) -> Path:
        return fileset_path(self.where, ".bed")

    @property
    def _row_bytes(self) -> int:
        return packed_width(len(self.samples if self.variant_major else self.variants))

    def _slabs(
        self, descriptor: int, rows: Index, columns: Index
    ) -> Iterator[tuple[int, int, PackedGenotypes, int]]:
        """Yield (start, stop, bytes of rows[start:stop], column of their first genotype).

        The next iteration overwrites the bytes.
        """
        first = int(columns[0]) // 4
        span = packed_width(int(columns[-1]) + 1) - first
        step = max(4, RAW_SLAB_BYTES // span // 4 * 4)  # whole bytes after transposing
        buffer = np.empty((min(step, len(rows)), span), dtype=np.uint8)
        for start in range(0, len(rows), step):
            stop = min(start + step, len(rows))
            raw = buffer[: stop - start]
            self._read_rows(descriptor, rows[start:stop], first, raw)
            yield start, stop, raw, 4 * first

    def _read_rows_ahead(self, descriptor: int, rows: Index) -> None:
        start = _HEADER_BYTES + int(rows[0]) * self._row_bytes
        length = (int(rows[-1]) - int(rows[0]) + 1) * self._row_bytes
        if length <= _READ_AHEAD_BYTES:
            os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)

    def _read_rows(self, descriptor: int, rows: Index, first: int, out: PackedGenotypes) -> None:
        """Fill `out` with the bytes of `rows`, starting at byte `first` of each row."""
        offsets = _HEADER_BYTES + rows.astype(np.int64) * self._row_bytes + first
        if out.shape[1] == self._row_bytes:  # read neighbouring whole rows together
            for start, stop in runs_of(rows - np.arange(len(rows))):
                self._read_into(descriptor, out[start:stop].data.cast("B"), int(offsets[start]))
            return
        done = 0
        while done < len(rows):
            done += _read_pieces(descriptor, offsets[done:], out[done:])
            if done < len(rows):  # repeat a failed or short read, with Python's error handling
                self._read_into(descriptor, out[done].data, int(offsets[done]))
                done += 1

    def _read_into(self, descriptor: int, target: memoryview, offset: int) -> None:
        while target:
            count = os.preadv(descriptor, [target], offset)
            if not count:
                raise InputError(
                    "became shorter while it was read",
                    where=self._bed,
                    remedy="Do not change input files during a run; start the run again",
                )
            target, offset = target[count:], offset + count


@emitted("int64")
def _pread(builder: Builder, descriptor: Value, target: Value, size: Value, offset: Value) -> Value:
    kinds = [I32, I8.as_pointer(), I64, I64]
    arguments = [builder.trunc(descriptor, I32), pointer(builder, target, I8), size, offset]
    return builder.call(function(builder, "pread", kinds, I64), arguments)


@compiled
def _read_pieces(descriptor: Any, offsets: Any, out: Any) -> Any:
    """Fill the rows of `out` from the file up to the first failure, and return their number.

    This calls ``pread`` of libc without the interpreter lock. With ``os.preadv``, threads that read
    2 KiB at a time spend most of their time waiting for the lock.
    """
    for row in range(out.shape[0]):
        if _pread(descriptor, out[row].ctypes.data, out.shape[1], offsets[row]) != out.shape[1]:
            return row
    return out.shape[0]


def _is_whole_bytes(samples: Index) -> bool:
    """Return whether the samples are neighbours that begin at a byte boundary."""
    return bool(samples[0] % 4 == 0 and samples[-1] - samples[0] + 1 == len(samples))


def fileset_path(prefix: Path, extension: str) -> Path:
    """Return a file of a fileset; unlike `Path.with_suffix`, this allows dots in the prefix."""
    return prefix.parent / (prefix.name + extension)


def open_fileset(prefix: Path, _files: SourceFiles) -> Fileset:
    """Read the tables of a fileset and check the .bed file against them.

    Malformed files, files of other formats, and a file in place of a prefix are refused.
    """
    bed, bim, fam = (fileset_path(prefix, extension) for extension in EXTENSIONS)
    if not bed.exists():
        _check_format(prefix)
    for path in (bed, bim, fam):
        refuse_special_file(path)
    table, people = read_bim(bim), read_fam(fam)
    return Fileset(
        prefix,
        people,
        table.variants,
        odd_positions=table.odd_positions,
        variant_major=_is_variant_major(bed, len(people), len(table.variants)),
    )


def _is_variant_major(path: Path, n_samples: int, n_variants: int) -> bool:
    """Check the header and the exact size of a .bed file, and return its layout."""
    refuse_missing_file(path)
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        size = os.fstat(file.fileno()).st_size
    if header[:2] != _MAGIC:
        raise InputError(
            "is not a PLINK 1 .bed file: wrong first two bytes",
            where=path,
            value=header[:2].hex() or "an empty file",
            expected=_MAGIC.hex(),
        )
    mode = header[2] if len(header) == _HEADER_BYTES else None
    if mode not in (_SAMPLE_MAJOR, _VARIANT_MAJOR):
        raise InputError(
            "has an unknown layout byte",
            where=path,
            value=mode,
            expected="1 variant-major or 0 sample-major",
        )
    variant_major = mode == _VARIANT_MAJOR
    rows, columns = (n_variants, n_samples) if variant_major else (n_samples, n_variants)
    expected = _HEADER_BYTES + rows * packed_width(columns)
    if size != expected:
        raise InputError(
            f"has the wrong size for {n_samples} samples and {n_variants} variants",
            where=path,
            value=f"{size} bytes",
            expected=f"{expected} bytes",
            remedy="Check that .bed, .bim and .fam belong together and are complete",
        )
    return variant_major


def refuse_file_of_fileset(prefix: Path, extensions: Collection[str]) -> None:
    """Refuse a file of a fileset in place of the prefix."""
    if prefix.suffix in extensions:
        raise InputError(
            f"is a file, but a fileset is given by its prefix (without {prefix.suffix})",
            where=prefix,
            remedy=f"Give {prefix.with_suffix('')}",
        )


def _check_format(prefix: Path) -> None:
    """Refuse files of other formats, with the option that reads them."""
    refuse_file_of_fileset(prefix, EXTENSIONS)
    for ending, option in _OTHER_FORMATS.items():
        if prefix.name.endswith(ending):
            file, bare = prefix, prefix.with_name(prefix.name.removesuffix(ending))
        else:
            file, bare = fileset_path(prefix, ending), prefix
        if file.exists() or file == prefix:
            raise InputError(
                "is not a PLINK 1 fileset",
                where=file,
                remedy=f"Give {option.format(file=file, prefix=bare)}",
            )
