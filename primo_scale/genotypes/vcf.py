"""VCF and BCF files that are indexed, read by cyvcf2, and VCF-Zarr stores of bio2zarr.

Files are compressed by bgzip. A VCF-Zarr store (https://github.com/sgkit-dev/vcf-zarr-spec) has the
same rules. The ALT allele is counted. Phase is ignored, one copy of a haploid person counts as two,
as plink2 imports it, and a genotype with one missing allele is missing (``--vcf-half-call
missing``). The dosage of a person is DS, or else the mean of GP, or else the called genotype. An
interrupted file or one that its index does not describe is found by the number of records that the
index states.
"""

from __future__ import annotations

import queue
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes import source, tables
from primo_scale.genotypes.store import DOSAGES, PackedBytes
from primo_scale.kernels import compiling, dosage_bytes, packed
from primo_scale.ranges import runs_of
from primo_scale.storage.files import refuse_missing_file
from primo_scale.storage.groups import Array, foreign_errors_explained, open_foreign_arrays

if TYPE_CHECKING:
    from cyvcf2 import VCF, Variant

_INDICES = (".csi", ".tbi")
_DOSAGE_FIELDS = ("DS", "GP")
# The fixed bytes of a block, and the header of the empty one.
_BGZF, _BGZF_FIELD, _BLOCK_HEADER = b"\x1f\x8b\x08\x04", b"\x06\0BC\x02\0", 18
_LAST_BLOCK = _BGZF + bytes(5) + b"\xff" + _BGZF_FIELD + b"\x1b\0"
_MOST_SKIPPED = 2_000  # records, before the index is used
_FIRST = np.zeros(1, dtype=np.intp)
# What cyvcf2 raises where an index cannot be loaded, a file is not opened or of another format, and
# a name is not UTF-8.
_OF_DAMAGE = (AssertionError, OSError, ValueError)


class _Cursor:
    """Reader of a file that remembers its position, and uses the index only to move far or back."""

    def __init__(self, path: Path, variants: tables.VariantTable) -> None:
        self._path, self._variants, self._reader = path, variants, _open_reader(path)
        self._records: Iterator[Variant] = iter(())
        # Row of the next record of the table, and the row after the last record of its chromosome.
        self._next = self._stop = 0

    def record(self, row: int) -> Variant:
        """Return the record of a row of the table; refuse a file without it at its position."""
        if not self._next <= row < min(self._stop, self._next + _MOST_SKIPPED):
            self._seek(row)
        record = next(islice(self._records, row - self._next, None), None)
        position = self._variants.position[row]
        if record is None or position != record.POS:
            where = f"{self._variants.chromosome[row]}:{position}"
            raise ValueError(f"no record of variant {row + 1} at {where}")
        self._next = row + 1
        return record

    def _seek(self, row: int) -> None:
        """Go to the first record with the chromosome and the position of a row."""
        name, position = self._variants.chromosome[row], self._variants.position[row]
        rows = np.flatnonzero(self._variants.chromosome == name)
        positions = self._variants.position[rows]
        self._next, self._stop = int(rows[np.searchsorted(positions, position)]), rows[-1] + 1
        overlapping = self._reader(f"{name}:{position}-{positions[-1]}")
        # Without the deletions that reach into the region
        self._records = (record for record in overlapping if position <= record.POS)


@dataclass(frozen=True, eq=False)
class VcfFile(source.GenotypeSource):
    """Hard calls or dosages of a VCF or BCF file."""

    index: Path
    dosage_field: str | None  # DS or GP, or None if the header has neither
    # A cursor belongs to one thread at a time, and opening one reads the header.
    _idle: queue.SimpleQueue[_Cursor] = field(default_factory=queue.SimpleQueue)

    def files(self) -> list[Path]:
        """Return the file and its index."""
        return [self.where, self.index]

    def read_into(self, result: PackedBytes, variants: tables.Index, samples: tables.Index) -> None:
        """Read one record after the other."""
        copies = np.empty((1, len(samples)), dtype=np.int8)
        try:
            cursor = self._idle.get_nowait()
        except queue.Empty:
            cursor = _Cursor(self.where, self.variants)
        for place, row in enumerate(variants.tolist()):
            with _damage_explained(self.where):
                record = cursor.record(row)
            alleles, target = self._alleles(record), result[place : place + 1]
            fields = self._fields(record)[None] if self.packing is DOSAGES else None
            _decode(alleles, fields, _FIRST, samples, copies, target, self.where)
            if self.packing is not DOSAGES:
                packed.pack_copies(copies, target)
        self._idle.put(cursor)

    def _alleles(self, record: Variant) -> npt.NDArray[np.int16]:
        """Return the alleles of everybody, shape (1, n, ploidy)."""
        called = None if "GT" not in record.FORMAT else record.genotype.array()
        if called is None or called.shape[1] > MOST_PLOIDY + 1:
            raise InputError(
                "has no genotypes (GT) of one or two copies",
                where=f"{self.where}, {record.CHROM}:{record.POS}",
                remedy="Leave the variant out (bcftools view)",
            )
        return np.ascontiguousarray(called[None, :, :-1])

    def _fields(self, record: Variant) -> npt.NDArray[np.float32]:
        """Return DS or GP of everybody, shape (n, numbers of a genotype)."""
        found = record.format(self.dosage_field)
        if found is None:  # this variant has called genotypes alone
            return np.full((len(self.samples), 1), np.nan, dtype=np.float32)
        return np.asarray(found, dtype=np.float32)


def open_vcf(path: Path, files: source.SourceFiles) -> VcfFile:
    """Read the people and variants of a file.

    A file that is missing, damaged or has no index, a variant with more than two alleles, and a
    file without dosages that are to be read, are refused.
    """
    refuse_missing_file(path)
    indices = [path.with_name(path.name + suffix) for suffix in _INDICES]
    index = next(filter(Path.exists, indices), None)
    if index is None:
        value = " and ".join(f"no {each.name}" for each in indices)
        remedy = "Compress it with bgzip if it is not, and run bcftools index"
        raise InputError("has no index", where=path, value=value, remedy=remedy)
    _check_blocks(path)
    reader, rows = _open_reader(path), list[tuple[Any, ...]]()
    people, header = reader.samples, reader.raw_header.splitlines()
    if not people:
        raise InputError("has no people", where=path)
    described = [line for line in header if line.startswith("##FORMAT")]
    dosages = next((n for n in _DOSAGE_FIELDS if any(f"ID={n}," in d for d in described)), None)
    if dosages is None and files.packing is DOSAGES:
        what = "has no dosages: its header describes neither DS nor GP"
        raise InputError(what, where=path, remedy="Leave --dosages out")
    with _damage_explained(path), warnings.catch_warnings():
        # The header may describe chromosomes that have no records.
        warnings.filterwarnings("ignore", "no intervals found", UserWarning)
        reader.set_samples(people[:1])  # so that htslib parses the genotypes of one person alone
        for name in reader.seqnames:
            rows += (
                (name, each.ID or ".", each.POS, ",".join(each.ALT) or ".", each.REF)
                for each in reader(name)
            )
        if not rows or len(rows) != reader.num_records:
            raise ValueError(f"{len(rows)} of {reader.num_records} records can be read")
    variants = tables.VariantTable.of(*zip(*rows, strict=True))
    tables.refuse_multiallelic(variants, path, "Split them (bcftools norm -m -any)")
    samples = tables.people_with_ids(tables.string_column(people))
    return VcfFile(path, samples, variants, index, dosages, packing=files.packing)


def _check_blocks(path: Path) -> None:
    """Refuse a file that is not a sequence of whole bgzip blocks with the empty one at its end.

    Source: the SAM specification, section 4.1. cyvcf2 crashes for some of such files.
    """
    with path.open("rb") as file:
        size, start, block = path.stat().st_size, 0, b""
        while start < size:
            file.seek(start)
            block = file.read(_BLOCK_HEADER)
            if block[:4] != _BGZF or block[10:16] != _BGZF_FIELD:
                break
            start += int.from_bytes(block[16:], "little") + 1
        if start != size or block != _LAST_BLOCK:
            raise InputError(
                "is not compressed by bgzip, or is truncated or damaged",
                where=path,
                value=f"no block at byte {start}",
                limit=f"{size} bytes",
                remedy="Compress the VCF with bgzip, and index it with bcftools index",
            )


def _open_reader(path: Path) -> VCF:
    library = source.import_library("cyvcf2", "cyvcf2", "--vcf", "plink2 --make-pgen")
    with _damage_explained(path):
        return library.VCF(str(path))


@contextmanager
def _damage_explained(path: Path) -> Iterator[None]:
    """Turn what cyvcf2 raises for damaged files into an error that names the file.

    Where htslib cannot parse a header or a record, that is an `Exception` of no narrower type.
    """
    try:
        yield
    except Exception as error:
        if not (type(error) is Exception or isinstance(error, _OF_DAMAGE)):
            raise
        raise InputError(
            "is damaged, or its index is that of another file: " + " ".join(str(error).split()),
            where=path,
            remedy="Index it again (bcftools index -f), or make it anew",
        ) from error


def _decode(
    alleles: Any, fields: Any, rows: Any, columns: Any, called: Any, result: Any, where: Path
) -> None:
    """Write called genotypes and, where there are `fields`, dosages; refuse impossible ones."""
    if not count_copies(alleles, rows, columns, called):
        raise InputError("a genotype has an allele that its variant lacks", where=where)
    if fields is not None and not read_dosages(fields, alleles, rows, columns, called, result):
        raise InputError("a dosage is not between 0 and 2", where=where)


MOST_PLOIDY = 2
_NO_ALLELE = -2  # fills up a haploid genotype


@compiling.compiled
def read_dosages(
    fields: Any, alleles: Any, rows: Any, columns: Any, called: Any, result: Any
) -> Any:
    """Write dosages of rows and columns of (v, n, numbers) as bytes; False: one is impossible."""
    last_allele = alleles.shape[2] - 1
    for i in range(len(rows)):
        for j in range(len(columns)):
            numbers = fields[rows[i], columns[j]]
            haploid = last_allele == 0 or alleles[rows[i], columns[j], last_allele] == _NO_ALLELE
            copies: Any = np.float64(numbers[0])
            if len(numbers) > 1:
                two = np.float64(0) if haploid else np.float64(numbers[2])
                total = copies + np.float64(numbers[1]) + two
                copies = (np.float64(numbers[1]) + 2 * two) / total if total > 0 else np.nan
            copies = 2 * copies if haploid else copies
            if np.isnan(copies):
                copies = np.float64(called[i, j])
            elif not 0 <= copies <= 3:  # int64 has no infinity
                return False
            units = np.int64(copies * dosage_bytes.UNITS + 0.5) if copies >= 0 else np.int64(-1)
            if units > 2 * dosage_bytes.UNITS:
                return False
            result[i, j] = dosage_bytes.byte_of_units(units)
    return True


@compiling.compiled
def count_copies(alleles: Any, rows: Any, columns: Any, copies: Any) -> Any:
    """Count allele 1 in rows and columns of (v, n, ploidy), -1 where missing; False: allele 2."""
    last_allele = alleles.shape[2] - 1
    for i in range(len(rows)):
        for j in range(len(columns)):
            first = alleles[rows[i], columns[j], 0]
            last = alleles[rows[i], columns[j], last_allele]
            if first > 1 or last > 1:
                return False
            if last == _NO_ALLELE:
                last = first
            copies[i, j] = first + last if first >= 0 and last >= 0 else -1
    return True


_GENOTYPES = "call_genotype"
_REQUIRED = (
    _GENOTYPES, "contig_id", "sample_id", "variant_allele", "variant_contig", "variant_position",
)  # fmt: skip
_USED = (*_REQUIRED, "variant_id")
_DOSAGE_ARRAY, _PROBABILITIES = "call_DS", "call_GP"


@dataclass(frozen=True, eq=False)
class VcfZarr(source.GenotypeSource):
    """Hard calls or dosages of a VCF-Zarr store, whose chunks are all hashed before the copy.

    They are not in the order of the variants.
    """

    genotypes: Array  # shape (v, n, ploidy)
    dosages: Array | None  # DS, shape (v, n) or (v, n, 1), or GP, shape (v, n, ploidy + 1)
    # The chunks of bio2zarr have 1,000 variants of 10,000 people.
    variant_major: bool = field(default=False, kw_only=True)

    def files(self) -> list[Path]:
        """Return the metadata and all chunks of the arrays that are read."""
        top = [path for path in self.where.iterdir() if path.is_file()]
        used = _USED if self.dosages is None else (*_USED, self.dosages.basename)
        chunks = (path for name in used for path in (self.where / name).rglob("*"))
        return sorted([*top, *(path for path in chunks if path.is_file())])

    def read_into(self, result: PackedBytes, variants: tables.Index, samples: tables.Index) -> None:
        """Read one chunk of the store after the other."""
        height, width, _ = self.genotypes.chunks
        copies = np.empty((len(variants), len(samples)), dtype=np.int8)
        for rows in starmap(slice, runs_of(variants // height)):
            for columns in starmap(slice, runs_of(samples // width)):
                v, s, called = variants[rows], samples[columns], copies[rows, columns]
                box = slice(v[0], v[-1] + 1), slice(s[0], s[-1] + 1)
                alleles = _values(self.genotypes, self.where, box)
                fields = None if self.dosages is None else _fields(self.dosages, self.where, box)
                v, s, target = v - v[0], s - s[0], result[rows, columns]
                _decode(alleles, fields, v, s, called, target, self.where)
        if self.dosages is None:
            packed.pack_copies(copies, result)


def open_vcz(path: Path, files: source.SourceFiles) -> VcfZarr:
    """Read the tables of a VCF-Zarr store.

    A store that is missing or lacks an array, arrays whose shapes disagree, variants with more than
    two alleles, people of higher ploidy, and a store without dosages that are to be read, are
    refused.
    """
    arrays = open_foreign_arrays(path)
    absent = [name for name in _REQUIRED if name not in arrays]
    if absent:
        what = f"is no VCF-Zarr store: it lacks {', '.join(absent)}"
        raise InputError(what, where=path, remedy="Write it with bio2zarr (vcf2zarr convert)")
    genotypes = arrays[_GENOTYPES]
    if genotypes.ndim != 3 or genotypes.shape[2] > MOST_PLOIDY:
        what = "call_genotype has a wrong shape"
        expected = "(variants, people, ploidy 1 or 2)"
        raise InputError(what, where=path, value=genotypes.shape, expected=expected)
    _check_shapes(arrays, path)
    variants = _table_of(arrays, path)
    tables.refuse_multiallelic(variants, path, "Split them in the VCF (bcftools norm -m -any)")
    people = tables.people_with_ids(_texts(arrays["sample_id"], path))
    dosages = _dosages(arrays, path) if files.packing is DOSAGES else None
    return VcfZarr(path, people, variants, genotypes, dosages, packing=files.packing)


def _check_shapes(arrays: Mapping[str, Array], path: Path) -> None:
    """Refuse tables of another number of variants or people than the genotypes."""
    n_variants, n_people, _ = arrays[_GENOTYPES].shape
    shapes = {
        "contig_id": arrays["contig_id"].shape[:1],
        "sample_id": (n_people,),
        "variant_allele": (n_variants, *arrays["variant_allele"].shape[-1:]),
        **dict.fromkeys(("variant_contig", "variant_id", "variant_position"), (n_variants,)),
    }
    for name, shape in shapes.items():
        if name in arrays and arrays[name].shape != shape:
            raise InputError(
                f"{name} has a wrong shape", where=path, value=arrays[name].shape, expected=shape
            )


def _dosages(arrays: Mapping[str, Array], path: Path) -> Array:
    """Return the array of the dosages or, without one, that of the probabilities."""
    name = _DOSAGE_ARRAY if _DOSAGE_ARRAY in arrays else _PROBABILITIES
    if name not in arrays:
        what = f"has no dosages: it lacks {_DOSAGE_ARRAY} and {_PROBABILITIES}"
        raise InputError(what, where=path, remedy="Leave --dosages out")
    n_variants, n_people, ploidy = arrays[_GENOTYPES].shape
    allowed = ((), (1,)) if name == _DOSAGE_ARRAY else ((ploidy + 1,),)
    if arrays[name].shape not in [(n_variants, n_people, *last) for last in allowed]:
        raise InputError(f"{name} has a wrong shape", where=path, value=arrays[name].shape)
    return arrays[name]


def _table_of(arrays: Mapping[str, Array], path: Path) -> tables.VariantTable:
    position = _values(arrays["variant_position"], path)
    alleles = _values(arrays["variant_allele"], path).astype(object)
    alternates = [",".join(filter(None, row)) or "." for row in alleles[:, 1:].tolist()]
    contigs = _texts(arrays["contig_id"], path)
    contig = _values(arrays["variant_contig"], path).astype(np.intp)
    if (contig < 0).any() or (contig >= len(contigs)).any():
        raise InputError("variant_contig has an index without a contig_id", where=path)
    chromosomes = contigs[contig]
    names = ["."] * len(position)
    if "variant_id" in arrays:
        names = _texts(arrays["variant_id"], path).tolist()
    return tables.VariantTable.of(chromosomes.tolist(), names, position, alternates, alleles[:, 0])


def _values(array: Array, path: Path, box: Any = ...) -> npt.NDArray[Any]:
    with foreign_errors_explained(path):
        return np.asarray(array[box])


def _fields(dosages: Array, path: Path, box: tuple[slice, slice]) -> npt.NDArray[np.floating]:
    """Return DS or GP of a box of genotypes, shape (v, n, numbers of a genotype)."""
    found = _values(dosages, path, box)
    return found.reshape(*found.shape[:2], -1)


def _texts(array: Array, path: Path) -> tables.StringColumn:
    return _values(array, path).astype(object)
