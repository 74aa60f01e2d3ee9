"""BGEN 1.2 and 1.3 files (layout 2), whose probabilities become hard calls or dosages.

The rules are those of plink2. The format
(https://www.chg.ox.ac.uk/~gav/bgen_format) is read here, and not by a library, so that the rules
are of integers and several threads decode at the same time.

Hard calls and dosages begin with the expected number of copies of the first allele, rounded to a
multiple of 1/16384 as plink2 does. It is called as with ``plink2 --hard-call-threshold 0.1`` if it
is within 0.1 of 0, 1 or 2, and is missing otherwise; or it is the dosage. Phase is ignored, and one
copy of a haploid person counts as two.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numcodecs import Zstd

from primo_scale.errors import InputError
from primo_scale.genotypes import bed, source, tables
from primo_scale.genotypes.store import DOSAGES, PackedBytes
from primo_scale.kernels import compiling, packed
from primo_scale.kernels.dosage_bytes import UNITS, byte_of_units
from primo_scale.storage.files import refuse_missing_file

_MAGICS = (b"bgen", bytes(4))
_DECOMPRESS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: zlib.decompress,
    2: lambda content: bytes(Zstd().decode(content)),
}
_LAYOUT, _HAS_SAMPLES = 2, 1 << 31
_SCANNED_BYTES = 1 << 10  # first read of a variant's description, which may be longer
_SAMPLE_NAMES = {"ID_1": "FID", "ID_2": "IID", "ID": "IID"}

_MOST_BITS = 32  # of one probability


@dataclass(frozen=True, eq=False)
class BgenFile(source.GenotypeSource):
    """Hard calls or dosages of a BGEN file."""

    sample_table: Path | None
    starts: npt.NDArray[np.int64]  # of the genotypes of each variant in the file, shape (v,)
    stops: npt.NDArray[np.int64]
    compression: int
    counts_first: bool  # whether the first allele is the counted one

    def files(self) -> list[Path]:
        """Return the file and its .sample file."""
        return [self.where] if self.sample_table is None else [self.where, self.sample_table]

    def read_into(self, result: PackedBytes, variants: tables.Index, samples: tables.Index) -> None:
        """Decode in slabs of at most `RAW_SLAB_BYTES`, with one byte for each genotype."""
        of_dosages = self.packing is DOSAGES
        rows = max(1, bed.RAW_SLAB_BYTES // len(self.samples))
        dtype = np.uint8 if of_dosages else np.int8
        copies = np.empty((min(rows, len(variants)), len(self.samples)), dtype=dtype)
        everybody = len(samples) == len(self.samples)
        decode = read_dosages if of_dosages else call_genotypes
        with self.where.open("rb", buffering=0) as file:
            for start in range(0, len(variants), rows):
                part = variants[start : start + rows]
                for row, variant in zip(copies, part.tolist(), strict=False):
                    wrong = decode(self._block(file.fileno(), variant), self.counts_first, row)
                    if wrong >= 0:
                        name = self.variants.identifier[variant]
                        raise InputError(
                            f"the genotype of person {wrong + 1} at variant {name} is incomplete, "
                            "or has a ploidy above 2 or probabilities above 1",
                            where=self.where,
                        )
                found = copies[: len(part)] if everybody else copies[: len(part), samples]
                if of_dosages:
                    result[start : start + rows] = found
                else:
                    packed.pack_copies(found, result[start : start + rows])

    def _block(
        self, descriptor: int, variant: int
    ) -> tuple[npt.NDArray[np.uint8], bool, int, npt.NDArray[np.uint8]]:
        """Return the decompressed genotypes of a variant, as `call_genotypes` takes them.

        They are the ploidy of each person, with the flag of a missing genotype, whether they are
        phased, the bits of one probability, and the bytes of all.
        """
        start, stop = int(self.starts[variant]), int(self.stops[variant])
        content = os.pread(descriptor, stop - start, start)
        try:
            if self.compression:
                content = _DECOMPRESS[self.compression](content[4:])
            n_samples, n_alleles = struct.unpack_from("<IH", content)
            ploidy = np.frombuffer(content, np.uint8, n_samples, 8)
            phased, bits = content[8 + n_samples], content[9 + n_samples]
            probabilities = np.frombuffer(content, np.uint8, offset=10 + n_samples)
            if n_samples != len(self.samples) or n_alleles != 2 or not 1 <= bits <= _MOST_BITS:
                raise ValueError(f"{n_samples} people, {n_alleles} alleles, {bits} bits")
        except (zlib.error, RuntimeError, ValueError, IndexError, struct.error) as error:
            raise InputError(
                f"the genotypes of variant {self.variants.identifier[variant]} are malformed: "
                f"{error}",
                where=self.where,
                remedy="Check that the file is complete",
            ) from error
        return ploidy, bool(phased), bits, probabilities


def open_bgen(path: Path, files: source.SourceFiles) -> BgenFile:
    """Read the descriptions of the people and variants of a BGEN file.

    A malformed file, another version, missing sample IDs without a .sample file, and a variant with
    more than two alleles are refused.
    """
    for each in (path, *([] if files.sample is None else [files.sample])):
        refuse_missing_file(each)
    counts_first = files.allele_order != source.REF_FIRST
    with path.open("rb", buffering=0) as file:
        try:
            sizes, compression, people = _read_header(file.fileno(), path)
            variants, starts, stops = _scan(file.fileno(), *sizes, counts_first=counts_first)
        except (struct.error, ValueError) as error:
            raise InputError(f"is truncated or malformed: {error}", where=path) from error
    tables.refuse_multiallelic(
        variants, path, "Split them (bcftools norm -m -any), or leave them out"
    )
    people = people if files.sample is None else read_sample(files.sample)
    if people is None or len(people) != sizes[2]:
        raise InputError(
            "has no sample IDs" if people is None else "the .sample file has other people",
            where=path,
            value=None if people is None else f"{len(people)} people",
            expected=None if people is None else sizes[2],
            remedy="Give its .sample file with --sample",
        )
    members = files.sample, starts, stops, compression, counts_first
    return BgenFile(path, people, variants, *members, packing=files.packing)


def read_sample(path: Path) -> tables.SampleTable:
    """Read a .sample file of Oxford, where ID_1 is the FID and ID_2 the IID.

    The refusals are those of `primo_scale.genotypes.tables.read_fam`, and a header without ID_2 or
    ID.
    """
    with tables.open_lines(path) as lines:
        _, header = next(lines, (1, b""))
        columns = [_SAMPLE_NAMES.get(name, name) for name in header.decode("latin-1").split()]
        next(lines, None)  # types of the columns
        if "IID" not in columns:
            what = "has no header of a .sample file"
            remedy = "The first line is: ID_1 ID_2 missing ..., the second 0 0 0 ..."
            raise InputError(what, where=path, value=" ".join(columns)[:80], remedy=remedy)
        return tables.read_people_table(lines, path, columns)


def _read_header(
    descriptor: int, path: Path
) -> tuple[tuple[int, int, int], int, tables.SampleTable | None]:
    """Read the header and the sample IDs, or refuse a file of another format or version.

    The result has the position of the first variant and the numbers of variants and people, the
    compression, and the people.
    """
    start = os.pread(descriptor, 24, 0)
    if len(start) < 24 or start[16:20] not in _MAGICS:
        raise InputError("is not a BGEN file", where=path)
    offset, length, n_variants, n_samples = struct.unpack_from("<4I", start)
    if not len(start) - 4 <= length <= offset < os.fstat(descriptor).st_size:
        raise ValueError(f"a header of {length} bytes before variants at {offset}")
    (flags,) = struct.unpack("<I", os.pread(descriptor, 4, length))
    layout, compression = flags >> 2 & 15, flags & 3
    if layout != _LAYOUT or compression not in _DECOMPRESS:
        raise InputError(
            "is of another version of BGEN",
            where=path,
            value=f"layout {layout}, compression {compression}",
            expected="1.2 or 1.3 (layout 2)",
            remedy="Convert it: plink2 --bgen FILE ref-first --make-pgen, then give --pfile",
        )
    samples = None
    if flags & _HAS_SAMPLES:
        content = os.pread(descriptor, offset - length, 4 + length)
        place, names = 8, []
        for _ in range(n_samples):
            name, place = _text(content, place, "<H")
            names.append(name)
        samples = tables.people_with_ids(tables.string_column(names))
    return (4 + offset, n_variants, n_samples), compression, samples


def _scan(
    descriptor: int, place: int, n_variants: int, n_samples: int, *, counts_first: bool
) -> tuple[tables.VariantTable, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the variants, and where the genotypes of each start and stop in the file."""
    rows, size = [], os.fstat(descriptor).st_size
    if not n_samples or not 0 < n_variants < size:
        raise ValueError(f"{n_variants} variants of {n_samples} people")
    bounds = np.empty((n_variants, 2), dtype=np.int64)
    for number in range(n_variants):
        wanted = _SCANNED_BYTES
        while True:
            content = os.pread(descriptor, wanted, place)
            try:
                row, length, content_size = _description(content)
                break
            except struct.error:
                if len(content) < wanted:  # the end of the file
                    raise
                wanted *= 16
        bounds[number] = place + length, place + length + content_size
        rows.append(row)
        place = int(bounds[number, 1])
    if size < place:
        raise struct.error("the last variant is incomplete")
    names, chromosomes, positions, alleles = zip(*rows, strict=True)
    ordered = [each if counts_first else each[::-1] for each in alleles]
    counted, others = [",".join(each[:-1]) for each in ordered], [each[-1] for each in ordered]
    variants = tables.VariantTable.of(chromosomes, names, positions, counted, others)
    return variants, bounds[:, 0], bounds[:, 1]


def _description(content: bytes) -> tuple[tuple[str, str, int, list[str]], int, int]:
    """Return the identifier, chromosome, position and alleles of a variant, and two lengths.

    They are the lengths of the description and of the genotypes after it, in bytes. A description
    that is longer than `content` raises `struct.error`.
    """
    _, place = _text(content, 0, "<H")
    identifier, place = _text(content, place, "<H")
    chromosome, place = _text(content, place, "<H")
    position, n_alleles = struct.unpack_from("<IH", content, place)
    place, alleles = place + 6, []
    for _ in range(n_alleles):
        allele, place = _text(content, place, "<I")
        alleles.append(allele)
    (length,) = struct.unpack_from("<I", content, place)
    return (identifier or ".", chromosome, position, alleles), place + 4, length


def _text(content: bytes, place: int, length_format: str) -> tuple[str, int]:
    """Return a text that follows its length, and the place after it."""
    (length,) = struct.unpack_from(length_format, content, place)
    start = place + struct.calcsize(length_format)
    if start + length > len(content):
        raise struct.error("a text is incomplete")
    return content[start : start + length].decode(), start + length


_THRESHOLD = UNITS // 10


@compiling.compiled
def call_genotypes(block: Any, counts_first: Any, copies: Any) -> Any:
    """Write hard calls, and return -1, or the number of a malformed genotype.

    `counts_first` tells whether the first allele is counted, or the second.
    """
    ploidy, phased, bits, probabilities = block
    bits, place = np.int64(bits), np.int64(0)
    # The last sum of 0 copies, the first and last of 1, and the first of 2.
    cuts = (
        _largest_sum(bits, _THRESHOLD),
        _largest_sum(bits, UNITS - _THRESHOLD - 1) + 1,
        _largest_sum(bits, UNITS + _THRESHOLD),
        _largest_sum(bits, 2 * UNITS - _THRESHOLD - 1) + 1,
    )
    for i in range(ploidy.shape[0]):
        count = np.int64(ploidy[i] & 63)
        total = _expected_sum(probabilities, place, bits, count, phased)
        if total < 0:
            return i
        place += count * bits
        # Without branches, because the processor would predict most of them wrongly.
        called = np.int8(total >= cuts[1]) + np.int8(total >= cuts[3])
        known = (total <= cuts[0]) | ((total >= cuts[1]) & (total <= cuts[2])) | (total >= cuts[3])
        known &= (count > 0) & (ploidy[i] < 128)
        copies[i] = known * ((called if counts_first else 2 - called) + 1) - 1
    return -1


@compiling.compiled
def read_dosages(block: Any, counts_first: Any, dosages: Any) -> Any:
    """Write dosages as bytes, and return -1, or the number of a malformed genotype."""
    ploidy, phased, bits, probabilities = block
    bits, place = np.int64(bits), np.int64(0)
    most = (np.int64(1) << bits) - np.int64(1)
    for i in range(ploidy.shape[0]):
        count = np.int64(ploidy[i] & 63)
        total = _expected_sum(probabilities, place, bits, count, phased)
        if total < 0:
            return i
        place += count * bits
        units = (2 * total * UNITS + most) // (2 * most)
        units = units if counts_first else 2 * UNITS - units
        dosages[i] = byte_of_units(units if count > 0 and ploidy[i] < 128 else np.int64(-1))
    return -1


@compiling.inlined
def _largest_sum(bits: Any, units: Any) -> Any:
    """Return the largest `_expected_sum` that is rounded to at most this multiple of 1/16384."""
    most = (np.int64(1) << bits) - np.int64(1)
    return (most * (2 * units + 1) - 1) // (2 * UNITS)


@compiling.inlined
def _expected_sum(probabilities: Any, place: Any, bits: Any, count: Any, phased: Any) -> Any:
    """Return the expected copies times 2^bits - 1, where one copy counts as two.

    The probabilities of `count` copies begin at bit `place`. The result is -1 if they are
    impossible or incomplete, or the ploidy is above 2.
    """
    if count > 2 or place + count * bits > 8 * probabilities.shape[0]:
        return np.int64(-1)
    most = (np.int64(1) << bits) - np.int64(1)
    one = _value(probabilities, place, bits, most) if count > 0 else np.int64(0)
    two = _value(probabilities, place + bits, bits, most) if count > 1 else np.int64(0)
    if not phased and one + two > most:
        return np.int64(-1)
    return one + two if phased and count > 1 else 2 * one + two


@compiling.inlined
def _value(probabilities: Any, place: Any, bits: Any, most: Any) -> Any:
    """Return the number of `bits` bits that begins at bit `place`."""
    first = place >> 3
    if bits == 8:
        return np.int64(probabilities[first])
    number = np.int64(0)
    for k in range(((place & 7) + bits + 7) >> 3):
        number |= np.int64(probabilities[first + k]) << np.int64(8 * k)
    return (number >> (place & 7)) & most
