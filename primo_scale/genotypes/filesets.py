"""Joining of PLINK 1 filesets, usually one per chromosome, into one table of variants."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.bed import BedFile, open_bed
from primo_scale.genotypes.tables import (
    Index,
    SampleTable,
    VariantTable,
    canonical_chromosome,
    read_bim,
    read_fam,
)
from primo_scale.kernels.packed import PackedGenotypes
from primo_scale.storage.files import refuse_special_file, sha256_of_file

EXTENSIONS = (".bed", ".bim", ".fam")

# Options of plink2 that read a file of another format, by file name ending.
_CONVERSIONS = {
    ".pgen": "--pfile {prefix}",
    ".pvar": "--pfile {prefix}",
    ".psam": "--pfile {prefix}",
    ".bgen": "--bgen {file} ref-first --sample {prefix}.sample",
    ".vcf": "--vcf {file}",
    ".vcf.gz": "--vcf {file}",
    ".bcf": "--bcf {file}",
}
_SAME_PEOPLE = "All filesets must hold the same people in the same order"


@dataclass(frozen=True)
class JoinedFilesets:
    """Filesets of the same people, with their variants concatenated: a `GenotypeSource`."""

    prefixes: tuple[Path, ...]
    beds: tuple[BedFile, ...]  # of each fileset
    samples: SampleTable
    variants: VariantTable
    odd_positions: int

    @property
    def variant_major(self) -> bool:
        """Whether all .bed files are variant-major."""
        return all(bed.variant_major for bed in self.beds)

    def read_ahead(self, variants: Index) -> None:
        """Start to read the variants into the page cache, see `BedFile.read_ahead`."""
        for bed, _, within in self._parts(variants):
            bed.read_ahead(within)

    def read_into(self, result: PackedGenotypes, variants: Index, samples: Index) -> None:
        """Read genotypes as `BedFile.read_into` does, by positions in the joined tables."""
        for bed, rows, within in self._parts(variants):
            bed.read_into(result[rows], within, samples)

    def raw_value(self, variant: int, sample: int) -> int:
        """Read one genotype as the format defines it (`BedFile.raw_value`)."""
        starts = self._starts()
        which = int(np.searchsorted(starts, variant, side="right")) - 1
        return self.beds[which].raw_value(variant - int(starts[which]), sample)

    @property
    def where(self) -> Path:
        """Prefix of the first fileset."""
        return self.prefixes[0]

    def leading_bytes(self, n_variants: int) -> Iterator[tuple[Path, int]]:
        """Yield each .bed file and its number of bytes that hold the first `n_variants` variants.

        See `BedFile.bytes_through`.
        """
        for bed in self.beds:
            if n_variants <= 0:
                break
            yield bed.path, bed.bytes_through(min(n_variants, bed.n_variants))
            n_variants -= bed.n_variants

    def files(self) -> list[Path]:
        """Return all files of the filesets, in order."""
        return [fileset_path(prefix, kind) for prefix in self.prefixes for kind in EXTENSIONS]

    def _parts(self, variants: Index) -> Iterator[tuple[BedFile, slice, Index]]:
        """Yield (file, slice of `variants` in this file, positions in this file)."""
        starts = self._starts()
        parts = pairwise(np.searchsorted(variants, starts).tolist())
        for bed, first, (begin, end) in zip(self.beds, starts[:-1], parts, strict=True):
            if begin < end:
                yield bed, slice(begin, end), variants[begin:end] - first

    def _starts(self) -> Index:
        """Return the first variant of each file, and then the number of variants."""
        return np.cumsum([0, *(bed.n_variants for bed in self.beds)], dtype=np.intp)


@dataclass(frozen=True)
class SourceFile:
    """Content hash of a file, and its path and file-system attributes at that time."""

    path: str
    sha256: str
    size: int
    modified_ns: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path, sha256: str) -> SourceFile:
        """Return the fingerprint of a file whose hash is known."""
        found = path.stat()
        times = found.st_mtime_ns, found.st_ctime_ns
        return cls(str(path.resolve()), sha256, found.st_size, *times, found.st_ino)


def fileset_path(prefix: Path, extension: str) -> Path:
    """Return a file of a fileset; unlike `Path.with_suffix`, this allows dots in the prefix."""
    return prefix.parent / (prefix.name + extension)


def open_filesets(prefixes: Sequence[Path]) -> JoinedFilesets:
    """Read the tables of the filesets, check the .bed files against them, and join the filesets.

    The filesets hold the same people in the same order. In the joined table, the variants of a
    chromosome are contiguous.

    Raises
    ------
    UsageError
        A prefix is given twice.
    InputError
        A file is malformed or of another format, a file is given instead of a prefix, or the
        filesets cannot be joined.
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
    """Hash files, except for those that are unchanged since an earlier fingerprint.

    A file with equal times, size and inode is taken as unchanged, because programs cannot set back
    the inode change time.
    """
    sources = []
    for path in paths:
        before = known.get(str(path.resolve()))
        now = SourceFile.of(path, before.sha256 if before is not None else "")
        sources.append(now if now == before else replace(now, sha256=sha256_of_file(path)))
    return tuple(sources)


def digest_of_people(samples: SampleTable) -> str:
    """Return the SHA-256 digest of the sorted (FID, IID) pairs, which is private.

    It does not depend on the order, the format or the variants of the files, so that releases of
    different chromosomes are charged to the same account.
    """
    # Sorting comes before removing duplicates, because people are mostly sorted already.
    people = sorted(zip(samples.family.tolist(), samples.individual.tolist(), strict=True))
    rows = dict.fromkeys(f"{family}\t{individual}\n" for family, individual in people)
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def _check_prefixes(prefixes: Sequence[Path]) -> None:
    """Refuse repeated prefixes, and prefixes that are not of a PLINK 1 fileset."""
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
    """Refuse files of other formats, with the command that converts them to a PLINK 1 fileset."""
    if prefix.suffix in EXTENSIONS:
        raise InputError(
            f"is a file, but --bfile takes the prefix of three files (without {prefix.suffix})",
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
                "is not a PLINK 1 fileset, the only supported format",
                where=file,
                remedy=f"Convert it: plink2 {command} --make-bed --out {bare}, "
                f"then give --bfile {bare}",
            )


def _check_same_people(expected: SampleTable, found: SampleTable, path: Path) -> None:
    if len(expected) != len(found):
        raise InputError(
            "the number of people differs from that of the first fileset",
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
        what, remedy = "the people or their order differ from those of the first fileset", ""
    else:
        row = int(np.argmax(differs))
        what = "the family identifiers (FID) differ from those of the first fileset"
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
