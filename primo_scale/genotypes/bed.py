"""The PLINK 1 .bed file: three header bytes, then packed genotypes, read by position.

Either layout is read: variant-major (third byte 1, what PLINK writes) and sample-major (0).
Nothing is mapped into memory; a read costs its result plus at most `READ_BUDGET_BYTES`, whatever
the size of the file.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.kernels.packed import PackedGenotypes, packed_width, repack, transpose

READ_BUDGET_BYTES = 4 << 20

# A chunk-row of 2,048 variants of a million people; more is a sparse selection of variants.
_READ_AHEAD_BYTES = 512 << 20

_MAGIC = b"\x6c\x1b"
_HEADER_BYTES = 3
_SAMPLE_MAJOR, _VARIANT_MAJOR = 0, 1

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class BedFile:
    """A .bed file whose header and size have been checked.

    Attributes
    ----------
    path : Path
    n_samples, n_variants : int
        Rows of the .fam and .bim files.
    variant_major : bool
    """

    path: Path
    n_samples: int
    n_variants: int
    variant_major: bool

    def read(self, variants: Index, samples: Index) -> PackedGenotypes:
        """Read some genotypes, packed and variant-major.

        Parameters
        ----------
        variants, samples : ndarray of intp, shapes (v,) and (k,)
            Increasing positions in the file; neither empty.

        Returns
        -------
        ndarray of uint8, shape (v, ceil(k / 4))
            Padding bits zero, whatever they are in the file.

        Raises
        ------
        InputError
            The file became shorter since it was opened.
        """
        result = np.empty((len(variants), packed_width(len(samples))), dtype=np.uint8)
        if self.variant_major:
            for start, stop, raw, origin in self._slabs(variants, samples):
                result[start:stop] = repack(raw, samples - origin)
        else:
            for start, stop, raw, origin in self._slabs(samples, variants):
                result[:, start // 4 : packed_width(stop)] = transpose(raw, variants - origin)
        return result

    def raw_value(self, variant: int, sample: int) -> int:
        """Read one genotype by the format's definition: the slow witness of `read`."""
        row, column = (variant, sample) if self.variant_major else (sample, variant)
        offset = _HEADER_BYTES + row * self._row_bytes + column // 4
        with self.path.open("rb") as file:
            file.seek(offset)
            byte = file.read(1)[0]
        return (byte >> 2 * (column % 4)) & 3

    @property
    def _row_bytes(self) -> int:
        return packed_width(self.n_samples if self.variant_major else self.n_variants)

    def _slabs(
        self, rows: Index, columns: Index
    ) -> Iterator[tuple[int, int, PackedGenotypes, int]]:
        """Yield (start, stop, bytes of rows[start:stop], column of the first genotype in them)."""
        first = int(columns[0]) // 4
        span = packed_width(int(columns[-1]) + 1) - first
        step = max(4, READ_BUDGET_BYTES // span // 4 * 4)  # whole bytes once transposed
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            self._announce(descriptor, rows)
            for start in range(0, len(rows), step):
                stop = min(start + step, len(rows))
                raw = self._read_rows(descriptor, rows[start:stop], first, span)
                yield start, stop, raw, 4 * first
        finally:
            os.close(descriptor)

    def _announce(self, descriptor: int, rows: Index) -> None:
        """Ask the kernel to read the rows ahead, in one sequential pass into its page cache.

        The parts of rows that follow then come from memory: read cold, 2,048 pieces of 2 KiB
        far apart run at a third of the speed of one slab.
        """
        start = _HEADER_BYTES + int(rows[0]) * self._row_bytes
        length = (int(rows[-1]) - int(rows[0]) + 1) * self._row_bytes
        if length <= _READ_AHEAD_BYTES:
            os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)

    def _read_rows(self, descriptor: int, rows: Index, first: int, span: int) -> PackedGenotypes:
        raw = np.empty((len(rows), span), dtype=np.uint8)
        whole_rows = span == self._row_bytes
        # Neighbouring whole rows are one read; parts of rows are one read each.
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1 if whole_rows else np.arange(1, len(rows))
        bounds = [0, *breaks.tolist(), len(rows)]
        for start, stop in itertools.pairwise(bounds):
            offset = _HEADER_BYTES + int(rows[start]) * self._row_bytes + first
            self._read_into(descriptor, raw[start:stop].data.cast("B"), offset)
        return raw

    def _read_into(self, descriptor: int, target: memoryview, offset: int) -> None:
        while target:
            count = os.preadv(descriptor, [target], offset)
            if not count:
                raise InputError(
                    "became shorter while it was read",
                    where=self.path,
                    remedy="Leave input files alone during a run, then start it again",
                )
            target, offset = target[count:], offset + count


def open_bed(path: Path, n_samples: int, n_variants: int) -> BedFile:
    """Check the header and the exact size of a .bed file against its .fam and .bim.

    Raises
    ------
    InputError
        No file, not a .bed file, an unknown layout, or a size other than the two tables imply.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, remedy="Check the prefix") from error
    if header[:2] != _MAGIC:
        raise InputError(
            "is not a PLINK 1 .bed file: wrong first two bytes",
            where=path,
            value=header[:2].hex() or "an empty file",
            limit=_MAGIC.hex(),
        )
    mode = header[2] if len(header) == _HEADER_BYTES else None
    if mode not in (_SAMPLE_MAJOR, _VARIANT_MAJOR):
        raise InputError(
            "has an unknown layout byte",
            where=path,
            value=mode,
            limit="1 variant-major or 0 sample-major",
        )
    variant_major = mode == _VARIANT_MAJOR
    rows, columns = (n_variants, n_samples) if variant_major else (n_samples, n_variants)
    expected = _HEADER_BYTES + rows * packed_width(columns)
    if size != expected:
        raise InputError(
            f"has the wrong size for {n_samples} samples and {n_variants} variants",
            where=path,
            value=f"{size} bytes",
            limit=f"{expected} bytes",
            remedy="Check that .bed, .bim and .fam belong together and are whole",
        )
    return BedFile(path, n_samples, n_variants, variant_major)
