"""Tables of variants and people: their text, their chromosomes, and the genome build of positions.

Text tables are plain or gzipped, with cells separated by blanks, tabs or commas. A table is CSV if
the first word of its first line, ``##`` comments aside, contains a comma. Blanks and double quotes
around CSV cells are removed, and an empty cell is missing. A comma or a line end inside quotes is
not supported and gives a row of another length. A UTF-8 byte-order mark is skipped.

A genotype counts the copies of an allele as 0, 1 or 2. PLINK 2 counts autosomes, the
pseudo-autosomal regions and, with its default ``--xchr-model 2``, X in the same way; men have 0 or
2 copies on X. PLINK 2 counts one copy on Y and MT, so that weights for them would give other
scores.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from primo_scale.errors import CHECK_PERMISSIONS, InputError, UsageError
from primo_scale.verify import chromosomes
from primo_scale.verify.chromosomes import canonical_chromosome

StringColumn = npt.NDArray[np.object_]
Strings = Sequence[str] | StringColumn
Index = npt.NDArray[np.intp]

BIM_COLUMNS = ("chromosome", "ID", "cM", "position", "A1", "A2")
FAM_COLUMNS = ("FID", "IID", "father", "mother", "sex", "phenotype")
NO_FAMILY = "0"
LARGEST_POSITION = 2**31 - 2  # as in plink2


@dataclass(frozen=True)
class VariantTable:
    """Variants: the columns of a .bim file but the genetic distance, each of length m."""

    chromosome: StringColumn  # as written in the file (``chr1`` stays ``chr1``)
    identifier: StringColumn  # as written in the file
    position: npt.NDArray[np.int64]  # in base pairs
    allele1: StringColumn  # allele A1 (column 5), whose copies are counted
    allele2: StringColumn  # allele A2 (column 6)

    @classmethod
    def of(
        cls, chromosome: Strings, identifier: Strings, position: npt.ArrayLike, allele1: Strings,
        allele2: Strings,
    ) -> Self:  # fmt: skip
        """Return the table with these columns."""
        return cls(
            string_column(chromosome),
            string_column(identifier),
            np.asarray(position, dtype=np.int64),
            string_column(allele1),
            string_column(allele2),
        )

    @classmethod
    def concatenate(cls, tables: Sequence[Self]) -> Self:
        """Return one table with the rows of all `tables`."""
        columns = zip(*(vars(table).values() for table in tables), strict=True)
        return cls(*map(np.concatenate, columns))

    def __len__(self) -> int:
        return len(self.identifier)

    def select(self, index: Index) -> VariantTable:
        """Return the rows at the positions `index`."""
        return VariantTable(*(column[index] for column in vars(self).values()))


@dataclass(frozen=True)
class SampleTable:
    """People: the identity columns of a .fam file."""

    family: StringColumn  # FID; ``0`` means none, shape (n,)
    individual: StringColumn  # IID, shape (n,)

    def __len__(self) -> int:
        return len(self.individual)

    def select(self, index: Index) -> SampleTable:
        """Return the rows at the positions `index`."""
        return SampleTable(self.family[index], self.individual[index])

    def people(self) -> Iterator[str]:
        """Yield the FID and the IID of each person, separated by a blank, which no ID contains."""
        return map("{} {}".format, self.family, self.individual)

    def refuse_shared_people(self, public: Iterable[str], where: Path | str) -> None:
        """Refuse a public file that holds people of this table, by their IID.

        Numbers that are computed from the file are published, and would tell about these people.
        """
        both = len(set(self.individual) & set(public))
        if both:
            what = "has people with the IID of somebody in the cohort, who is private"
            remedy = "Leave them out, or rename the file's people if they are others"
            raise InputError(what, where=where, value=both, remedy=remedy)


def read_bim(path: Path) -> VariantTable:
    """Read a .bim file: chromosome, identifier, centimorgans, position, A1, A2.

    Columns are separated by blanks or tabs, lines may end with CR LF, and columns after the sixth
    are ignored. A missing or empty file is refused, and so are a line with fewer columns and a
    position that is no integer or is beyond 2**31 - 2. Variants of negative position are left out
    later, as in plink2, because the .bed file holds their genotypes.
    """
    with open_lines(path) as lines:
        return read_variants(lines, path, BIM_COLUMNS)


def read_variants(
    lines: Iterator[tuple[int, bytes]], path: Path, columns: Sequence[str]
) -> VariantTable:
    """Read a table of variants whose columns have the names of `BIM_COLUMNS`, in any order.

    `cM` may be absent. The refusals are those of `read_bim`.
    """
    chromosome, identifier, position, allele1, allele2 = (
        columns.index(name) for name in ("chromosome", "ID", "position", "A1", "A2")
    )
    names, identifiers, positions, alleles1, alleles2 = [], [], [], [], []
    for line, tokens in table_rows(lines, path, columns):
        positions.append(_position(tokens[position], path, line))
        names.append(sys.intern(tokens[chromosome]))
        identifiers.append(tokens[identifier])
        alleles1.append(sys.intern(tokens[allele1]))
        alleles2.append(sys.intern(tokens[allele2]))
    if not identifiers:
        raise InputError("has no variants", where=path, remedy="Check that the file is complete")
    return VariantTable.of(names, identifiers, positions, alleles1, alleles2)


def read_fam(path: Path) -> SampleTable:
    """Read the identity columns of a .fam file, FID and IID.

    The other columns must exist, but are not used. A missing or empty file is refused, and so is
    the IID ``0``, which PLINK reserves for absent people.
    """
    with open_lines(path) as lines:
        return read_people_table(lines, path, FAM_COLUMNS)


def read_people_table(
    lines: Iterator[tuple[int, bytes]], path: Path, columns: Sequence[str]
) -> SampleTable:
    """Read a table of people whose columns have the names of `FAM_COLUMNS`, in any order.

    `FID` may be absent. The refusals are those of `read_fam`.
    """
    individual_at = columns.index("IID")
    family_at = columns.index("FID") if "FID" in columns else None
    families, individuals = [], []
    for line, tokens in table_rows(lines, path, columns):
        individual = tokens[individual_at]
        family = NO_FAMILY if family_at is None else tokens[family_at]
        if individual == "0":
            what = "the IID is '0', which PLINK reserves for an absent person"
            raise InputError(what, where=f"{path}:{line}", remedy="Give this person another IID")
        # FID and IID are often equal and then share one string in memory.
        families.append(individual if family == individual else sys.intern(family))
        individuals.append(individual)
    if not individuals:
        raise InputError("has no samples", where=path, remedy="Check that the file is complete")
    return SampleTable(string_column(families), string_column(individuals))


def refuse_multiallelic(variants: VariantTable, where: Path, remedy: str) -> None:
    """Refuse variants with several alternate alleles, of which two bits hold no code."""
    found = np.flatnonzero(["," in allele for allele in variants.allele1])
    if len(found):
        what = f"variant {variants.identifier[found[0]]} has more than two alleles"
        value = f"{len(found)} such variants"
        raise InputError(what, where=where, value=value, limit="2 alleles", remedy=remedy)


def string_column(values: Strings) -> StringColumn:
    """Return strings as an array of objects."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def people_with_ids(individual: StringColumn) -> SampleTable:
    """Return the table of people of whom a file has the sample IDs alone."""
    return SampleTable(string_column([NO_FAMILY] * len(individual)), individual)


def is_one_of(column: StringColumn, values: Collection[str]) -> npt.NDArray[np.bool_]:
    """Return the mask of the strings that are among `values`."""
    inside = map(frozenset(values).__contains__, column.tolist())
    return np.fromiter(inside, dtype=bool, count=len(column))


def table_rows(
    lines: Iterator[tuple[int, bytes]], path: Path, columns: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, tokens) of every line; blank lines are allowed only at the end."""
    blank = 0
    for line, content in lines:
        # bytes.split() splits only at ASCII whitespace, which includes CR.
        tokens = content.split(None, len(columns))
        if not tokens:
            blank = line
            continue
        if blank:
            raise InputError(
                "an empty line inside the table",
                where=f"{path}:{blank}",
                remedy="Rows must match the genotypes; check whether a row was lost",
            )
        if len(tokens) < len(columns):
            raise InputError(
                "fewer columns than expected",
                where=f"{path}:{line}",
                value=len(tokens),
                expected=len(columns),
                remedy=f"The columns are: {' '.join(columns)}",
            )
        yield line, utf8_text(b"\n".join(tokens[: len(columns)]), path, line).split("\n")


def _position(token: str, path: Path, line: int) -> int:
    if not token[token[0] in "+-" :].isdecimal():
        what = "the position is not an integer"
        remedy = "The position is in base pairs (column 4 of a .bim file)"
        raise InputError(what, where=f"{path}:{line}", value=token[:20], remedy=remedy)
    if abs(float(token)) > LARGEST_POSITION:  # int() refuses thousands of digits
        what = "the position is too large"
        raise InputError(what, where=f"{path}:{line}", value=token[:20], limit=LARGEST_POSITION)
    return int(token)


_COMMENT = b"##"
_BUFFER_BYTES = 1 << 18  # many lines, even of thousands of cells


def table_lines(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (line number, cells) of every line that is not blank; the first line has number 1."""
    for line, content, comma_separated in numbered_lines(path):
        cells = cells_of(content, comma_separated=comma_separated)
        if cells:
            yield line, cells


def cells_of(content: bytes, *, comma_separated: bool) -> list[bytes]:
    """Return the cells of a line; none if it is blank."""
    if comma_separated:
        cells = [cell.strip().strip(b'"') for cell in content.split(b",")]
        return cells if any(cells) else []
    return content.split()  # only at ASCII whitespace, which includes CR


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield line number, content, and whether commas separate the cells, of every line."""
    comma_separated: bool | None = None
    with open_lines(path) as lines:
        for line, content in lines:
            if line == 1:
                content = content.removeprefix(codecs.BOM_UTF8)
            if comma_separated is None:
                word = content.split(None, 1)[:1]
                if word and not word[0].startswith(_COMMENT):
                    comma_separated = b"," in word[0]
            yield line, content, bool(comma_separated)


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[tuple[int, bytes]]]:
    """Open a text file, decompressed if its name ends in .gz or .zst, as numbered lines from 1.

    The content of a .zst file is held in memory. A file that is missing, a directory, or cannot be
    read or decompressed is refused.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb", _BUFFER_BYTES) as file:
            content = io.BytesIO(_decompressed(file.read())) if path.suffix == ".zst" else file
            yield enumerate(content, start=1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError("no such file", where=path, remedy="Check the path") from error
    except IsADirectoryError as error:
        raise InputError("is a directory, not a table", where=path) from error
    except PermissionError as error:
        raise InputError(
            "cannot be read: permission denied", where=path, remedy=CHECK_PERMISSIONS
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"cannot be decompressed: {error}", where=path) from error


def _decompressed(content: bytes) -> bytes:
    from numcodecs import Zstd  # only few tables are compressed

    try:
        return bytes(Zstd().decode(content))
    except RuntimeError as error:
        raise zlib.error(str(error)) from error


def utf8_text(content: bytes, path: Path, line: int) -> str:
    """Decode cells of a line, or refuse them."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "not UTF-8 text", where=f"{path}:{line}", remedy="Convert the file to UTF-8"
        ) from error


SCORED_CHROMOSOMES = frozenset(
    [
        *(str(number) for number in range(1, 23)),
        chromosomes.CHROMOSOME_X,
        *chromosomes.PSEUDO_AUTOSOMAL,
    ]
)
"""Chromosomes that are used unless ``--chr`` selects others."""

_ONE_COPY = {
    "Y": "plink2 --score counts one copy in men and none in others",
    "MT": "plink2 --score counts one copy",
}
_NOT_PLACED = "not placed on a chromosome"
_RANGE = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")
_LAST_NUMBER = 26  # MT


def parse_chromosomes(text: str) -> tuple[str, ...]:
    """Parse a list of chromosomes in the syntax of ``plink2 --chr``, such as ``1-4,22,X,PAR1``.

    The result has canonical codes in the given order, without repetitions. A name that is no human
    chromosome, and one of which ``plink2 --score`` counts one copy, are usage errors.
    """
    names = dict.fromkeys(name for part in text.split(",") for name in _expand(part.strip()))
    for name in names:
        if name not in chromosomes.HUMAN_CHROMOSOMES:
            raise UsageError(
                "not a human chromosome, or a range of numbers",
                where="--chr",
                value=name or "nothing",
                expected="0-22, X, XY, PAR1, PAR2",
                remedy="Write for example --chr 1-4,22,X",
            )
        if name in _ONE_COPY:
            raise UsageError(
                f"chromosome {name} cannot be used: {_ONE_COPY[name]}, and weights assume two "
                "copies",
                where="--chr",
                remedy=f"Leave {name} out",
            )
    return tuple(names)


def canonical_chromosomes(variants: VariantTable) -> StringColumn:
    """Return the canonical code of every variant."""
    spellings = variants.chromosome.tolist()
    canonical = {code: canonical_chromosome(code) for code in dict.fromkeys(spellings)}
    return string_column([canonical[code] for code in spellings])


def left_out(chromosome: str) -> tuple[str, str] | None:
    """Return name and reason, for a log line, if a canonical chromosome is left out by default."""
    if chromosome in SCORED_CHROMOSOMES:
        return None
    if chromosome in _ONE_COPY:
        return f"chromosome {chromosome}", _ONE_COPY[chromosome]
    return "chromosome 0" if chromosome == chromosomes.UNPLACED else "other contigs", _NOT_PLACED


def _expand(part: str) -> Iterator[str]:
    """Yield the canonical codes of one entry of the list."""
    ends = _RANGE.fullmatch(part)
    if ends is None:
        yield canonical_chromosome(part)
        return
    first, last = int(ends[1]), int(ends[2])
    if not first <= last <= _LAST_NUMBER:
        yield part  # the caller refuses it
        return
    yield from (canonical_chromosome(str(number)) for number in range(first, last + 1))


GRCH37, GRCH38, NCBI36 = "GRCh37", "GRCh38", "NCBI36"
NOT_REPORTED = "NR"
"""Name of an unknown build in the PGS Catalog."""

_ALIASES = {
    "grch37": GRCH37, "hg19": GRCH37, "b37": GRCH37,
    "grch38": GRCH38, "hg38": GRCH38, "b38": GRCH38,
    "ncbi36": NCBI36, "hg18": NCBI36, "b36": NCBI36,
    "nr": NOT_REPORTED,
}  # fmt: skip
BUILD_NAMES = (GRCH37, GRCH38, NCBI36, NOT_REPORTED)


def build_name(text: str) -> str | None:
    """Return the name of the build with the alias `text` (such as ``hg19``), or None."""
    return _ALIASES.get(text.lower())


_KNOWN_POSITIONS = Path(__file__).with_name("known_positions.tsv")
# Smallest number of known variants at a build's positions; among millions of variants, a few are
# there by chance.
_FEWEST_KNOWN = 5
# Smallest ratio of known variants at the positions of one build and of the other.
_TIMES_MORE = 4


def genome_build(given: str | None, variants: VariantTable) -> str:
    """Return the given build, one of `BUILD_NAMES`, or the one inferred from known variants.

    It is `NOT_REPORTED` if none is given and too few known variants match. A given build is refused
    if known variants are at their positions of another one.
    """
    found = find_known_variants(variants)
    inferred = build_of(found)
    if given not in (None, NOT_REPORTED) and inferred not in (None, given):
        raise InputError(
            f"known variants are at their {inferred} positions ({found[GRCH37]} match GRCh37, "
            f"{found[GRCH38]} match GRCh38)",
            where="--genome-build",
            value=given,
            expected=inferred,
            remedy=f"Give --genome-build {inferred}, or leave it out",
        )
    return given or inferred or NOT_REPORTED


def find_known_variants(variants: VariantTable) -> dict[str, int]:
    """Count, by build, the known variants whose position in it is that of one of `variants`.

    They are 880 HapMap3 variants. A cohort of one of these builds has many variants at that build's
    positions, and few by chance at those of the other.
    """
    names, _, *positions = np.loadtxt(_KNOWN_POSITIONS, dtype=str, skiprows=5, unpack=True)
    found = {}
    for build, known in zip((GRCH37, GRCH38), np.array(positions, dtype=np.int64), strict=True):
        near = variants.select(np.flatnonzero(np.isin(variants.position, known)))
        places = set(zip(canonical_chromosomes(near), near.position.tolist(), strict=True))
        found[build] = len(places & set(zip(names, known.tolist(), strict=True)))
    return found


def build_of(found: dict[str, int]) -> str | None:
    """Return the build of the positions, or None if too few known variants match."""
    for name, here in found.items():
        there = sum(found.values()) - here
        if here >= _FEWEST_KNOWN and here >= _TIMES_MORE * there:
            return name
    return None
