"""PLINK 1 filesets, usually one per chromosome, joined into one table of variants."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.bed import BedFile, open_bed
from primo_scale.genotypes.tables import (
    SampleTable,
    VariantTable,
    canonical_chromosome,
    read_bim,
    read_fam,
)
from primo_scale.kernels.packed import PackedGenotypes
from primo_scale.storage.files import refuse_special_file, sha256_of_file

Index = npt.NDArray[np.intp]

EXTENSIONS = (".bed", ".bim", ".fam")

# Options of plink2 that read a file of another format, by the end of its name.
_CONVERSIONS = {
    ".pgen": "--pfile {prefix}",
    ".pvar": "--pfile {prefix}",
    ".psam": "--pfile {prefix}",
    ".bgen": "--bgen {file} ref-first --sample {prefix}.sample",
    ".vcf": "--vcf {file}",
    ".vcf.gz": "--vcf {file}",
    ".bcf": "--bcf {file}",
}
_SAME_PEOPLE = "Filesets that are joined must hold the same people in the same order"


@dataclass(frozen=True)
class JoinedFilesets:
    """Filesets of the same people, their variants one after the other.

    Attributes
    ----------
    prefixes : tuple of Path
    beds : tuple of BedFile
        One per prefix.
    samples : SampleTable
        Everybody in the .fam files.
    variants : VariantTable
        Every line of the .bim files.
    odd_positions : int
        Positions that were not plain integers.
    """

    prefixes: tuple[Path, ...]
    beds: tuple[BedFile, ...]
    samples: SampleTable
    variants: VariantTable
    odd_positions: int

    @property
    def variant_major(self) -> bool:
        """Whether all .bed files are."""
        return all(bed.variant_major for bed in self.beds)

    def read_ahead(self, variants: Index) -> None:
        """Ask for what `read_into` will read, see `BedFile.read_ahead`."""
        for bed, _, within in self._parts(variants):
            bed.read_ahead(within)

    def read_into(self, result: PackedGenotypes, variants: Index, samples: Index) -> None:
        """Read genotypes as `BedFile.read_into` does, by positions in the joined tables."""
        for bed, rows, within in self._parts(variants):
            bed.read_into(result[rows], within, samples)

    def raw_value(self, variant: int, sample: int) -> int:
        """Read one genotype by the format's definition (`BedFile.raw_value`)."""
        starts, _ = self._bounds()
        which = int(np.searchsorted(starts, variant, side="right")) - 1
        return self.beds[which].raw_value(variant - int(starts[which]), sample)

    def files(self) -> list[Path]:
        """Every file of the filesets, in order."""
        return [fileset_path(prefix, kind) for prefix in self.prefixes for kind in EXTENSIONS]

    def _parts(self, variants: Index) -> Iterator[tuple[BedFile, slice, Index]]:
        """Yield (file, which of `variants` lie in it, their positions there)."""
        for bed, first, stop in zip(self.beds, *self._bounds(), strict=True):
            begin, end = np.searchsorted(variants, [first, stop])
            if begin < end:
                yield bed, slice(begin, end), variants[begin:end] - first

    def _bounds(self) -> tuple[Index, Index]:
        stops = np.cumsum([bed.n_variants for bed in self.beds], dtype=np.intp)
        return np.concatenate([[0], stops[:-1]]).astype(np.intp), stops


@dataclass(frozen=True)
class SourceFile:
    """A file as it was when its content was hashed."""

    path: str
    sha256: str
    size: int
    modified_ns: int
    changed_ns: int
    inode: int


def fileset_path(prefix: Path, extension: str) -> Path:
    """File of a fileset; the prefix may hold dots, so this is not `Path.with_suffix`."""
    return prefix.parent / (prefix.name + extension)


def open_filesets(prefixes: Sequence[Path]) -> JoinedFilesets:
    """Read the tables of the filesets, check the .bed files against them and join.

    Raises
    ------
    UsageError
        One prefix twice.
    InputError
        Anything `read_bim`, `read_fam` or `open_bed` refuses; a file of another format, or one
        file of a fileset in place of its prefix; filesets whose people differ or are ordered
        differently; a chromosome that is not contiguous in the joined table.
    """
    _check_prefixes(prefixes)
    beds, tables = [], []
    samples: SampleTable | None = None
    odd_positions = 0
    for prefix in prefixes:
        for extension in EXTENSIONS:
            refuse_special_file(fileset_path(prefix, extension))
        bim = read_bim(fileset_path(prefix, ".bim"))
        people = read_fam(fileset_path(prefix, ".fam"))
        beds.append(open_bed(fileset_path(prefix, ".bed"), len(people), len(bim.variants)))
        tables.append(bim.variants)
        odd_positions += bim.odd_positions
        if samples is None:
            samples = people
        else:
            _check_same_people(samples, people, fileset_path(prefix, ".fam"))
    if samples is None:
        raise InputError("no fileset given", where="--bfile")
    variants = VariantTable.concatenate(tables)
    _check_contiguous_chromosomes(variants, prefixes)
    return JoinedFilesets(tuple(prefixes), tuple(beds), samples, variants, odd_positions)


def fingerprint(paths: Iterable[Path], known: Mapping[str, SourceFile]) -> tuple[SourceFile, ...]:
    """Hash files, sparing those that the file system says are untouched since `known`.

    Parameters
    ----------
    paths
        Files to hash.
    known
        Earlier fingerprints by path. The inode change time cannot be set back by a program, so
        equal times, size and inode mean an equal file.
    """
    sources = []
    for path in paths:
        status = path.stat()
        before = known.get(str(path.resolve()))
        now = SourceFile(
            path=str(path.resolve()),
            sha256=before.sha256 if before is not None else "",
            size=status.st_size,
            modified_ns=status.st_mtime_ns,
            changed_ns=status.st_ctime_ns,
            inode=status.st_ino,
        )
        sources.append(now if now == before else replace(now, sha256=sha256_of_file(path)))
    return tuple(sources)


def digest_of_people(samples: SampleTable) -> str:
    """SHA-256 of the (FID, IID) pairs in sorted order. Private.

    It does not depend on the order of the files, on their variants or on how they were written:
    one person's budget is one budget, whichever chromosome is released.
    """
    # Sorted before repeated rows go: people mostly are in order already, and a set would lose it.
    people = sorted(zip(samples.family.tolist(), samples.individual.tolist(), strict=True))
    rows = dict.fromkeys(f"{family}\t{individual}\n" for family, individual in people)
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def _check_prefixes(prefixes: Sequence[Path]) -> None:
    """Refuse what is not the prefix of a PLINK 1 fileset, or one prefix twice.

    Raises
    ------
    UsageError
        One prefix twice.
    InputError
        A file of a fileset in place of its prefix, or a file of another format.
    """
    seen: set[Path] = set()
    for prefix in prefixes:
        if prefix.resolve() in seen:
            raise UsageError(
                "the same fileset is given twice",
                where="--bfile",
                value=prefix,
                remedy="Give each prefix once",
            )
        seen.add(prefix.resolve())
        if not fileset_path(prefix, ".bed").exists():
            _check_format(prefix)


def _check_format(prefix: Path) -> None:
    """Name the way from a file or prefix of another kind to a PLINK 1 fileset."""
    if prefix.suffix in EXTENSIONS:
        raise InputError(
            f"is a file, and --bfile takes the prefix of three (leave off {prefix.suffix})",
            where=prefix,
            remedy=f"Give --bfile {prefix.with_suffix('')}",
        )
    for ending, convert in _CONVERSIONS.items():
        if prefix.name.endswith(ending):
            file, bare = prefix, prefix.with_name(prefix.name.removesuffix(ending))
        else:
            file, bare = fileset_path(prefix, ending), prefix
        if file.exists() or file == prefix:
            command = convert.format(file=file, prefix=bare)
            raise InputError(
                "is not a PLINK 1 fileset, the only format that is read",
                where=file,
                remedy=f"Convert it: plink2 {command} --make-bed --out {bare}, "
                f"then give --bfile {bare}",
            )


def _check_same_people(expected: SampleTable, found: SampleTable, path: Path) -> None:
    if len(expected) != len(found):
        raise InputError(
            "lists another number of people than the first fileset",
            where=path,
            value=len(found),
            expected=len(expected),
            remedy=_SAME_PEOPLE,
        )
    other_individual = expected.individual != found.individual
    differs = (expected.family != found.family) | other_individual
    if not differs.any():
        return
    if other_individual.any():
        row = int(np.argmax(other_individual))
        what, remedy = "lists other people, or in another order, than the first fileset", ""
    else:
        row = int(np.argmax(differs))
        what = "gives the same people (IID) other family identifiers (FID) than the first fileset"
        remedy = ". Rewrite the FIDs of one fileset with plink2 --update-ids"
    raise InputError(
        what,
        where=f"{path}:{row + 1}",
        value=f"{found.family[row]} {found.individual[row]}",
        expected=f"{expected.family[row]} {expected.individual[row]}",
        remedy=_SAME_PEOPLE + remedy,
    )


def _check_contiguous_chromosomes(variants: VariantTable, prefixes: Sequence[Path]) -> None:
    codes = variants.chromosome
    starts = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1])
    seen: set[str] = set()
    previous = None
    for start in starts.tolist():
        chromosome = canonical_chromosome(codes[start])
        if chromosome in seen and chromosome != previous:
            raise InputError(
                f"chromosome {codes[start]} is split: its variants are not next to each other",
                where=", ".join(str(fileset_path(prefix, ".bim")) for prefix in prefixes),
                value=f"variant {variants.identifier[start]} comes after another chromosome",
                remedy="Sort the variants first (plink2 --make-pgen --sort-vars, or --make-bed)",
            )
        seen.add(chromosome)
        previous = chromosome
