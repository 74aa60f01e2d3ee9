"""Tables of variants and people, and strict reading of those of PLINK 1 (.bim, .fam)."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.text_lines import open_lines, utf8_text

StringColumn = npt.NDArray[np.object_]
Strings = Sequence[str] | StringColumn
Index = npt.NDArray[np.intp]

BIM_COLUMNS = ("chromosome", "ID", "cM", "position", "A1", "A2")
FAM_COLUMNS = ("FID", "IID", "father", "mother", "sex", "phenotype")
NO_FAMILY = "0"
LARGEST_POSITION = 2**31 - 2  # as in plink2


class _Columns:
    """Table with one array for each column, which is a dataclass field."""

    def select(self, index: Index) -> Self:
        """Return the rows at the positions `index`."""
        return type(self)(*(column[index] for column in vars(self).values()))

    @classmethod
    def concatenate(cls, tables: Sequence[Self]) -> Self:
        """Return one table with the rows of all `tables`."""
        columns = zip(*(vars(table).values() for table in tables), strict=True)
        return cls(*map(np.concatenate, columns))


@dataclass(frozen=True)
class VariantTable(_Columns):
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

    def __len__(self) -> int:
        return len(self.identifier)


@dataclass(frozen=True)
class SampleTable(_Columns):
    """People: the identity columns of a .fam file."""

    family: StringColumn  # FID; ``0`` means none, shape (n,)
    individual: StringColumn  # IID, shape (n,)

    def __len__(self) -> int:
        return len(self.individual)

    def people(self) -> Iterator[str]:
        """Yield the FID and the IID of each person, separated by a blank, which no ID contains."""
        return map("{} {}".format, self.family, self.individual)

    def refuse_shared_people(self, public: Iterable[str], where: Path | str) -> None:
        """Refuse a public file that holds people of this table, by their IID.

        Numbers that are computed from the file are published, and would tell about these people.
        """
        both = len(set(self.individual) & set(public))
        if both:
            raise InputError(
                "has people with the IID of somebody in the cohort, who is private",
                where=where,
                value=both,
                remedy="Leave them out, or rename the file's people if they are others",
            )


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
    chromosomes, identifiers, positions, alleles1, alleles2 = [], [], [], [], []
    for line, tokens in table_rows(lines, path, columns):
        positions.append(_position(tokens[position], path, line))
        chromosomes.append(sys.intern(tokens[chromosome]))
        identifiers.append(tokens[identifier])
        alleles1.append(sys.intern(tokens[allele1]))
        alleles2.append(sys.intern(tokens[allele2]))
    if not identifiers:
        raise InputError("has no variants", where=path, remedy="Check that the file is complete")
    return VariantTable.of(chromosomes, identifiers, positions, alleles1, alleles2)


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
            raise InputError(
                "the IID is '0', which PLINK reserves for an absent person",
                where=f"{path}:{line}",
                remedy="Give this person another IID",
            )
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
        raise InputError(
            f"variant {variants.identifier[found[0]]} has more than two alleles",
            where=where,
            value=f"{len(found)} such variants",
            limit="2 alleles",
            remedy=remedy,
        )


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
        raise InputError(
            "the position is not an integer",
            where=f"{path}:{line}",
            value=token[:20],
            remedy="The position is in base pairs (column 4 of a .bim file)",
        )
    if abs(float(token)) > LARGEST_POSITION:  # int() refuses thousands of digits
        raise InputError(
            "the position is too large",
            where=f"{path}:{line}",
            value=token[:20],
            limit=LARGEST_POSITION,
        )
    return int(token)
