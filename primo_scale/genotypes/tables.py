"""Strict reading of the variant table (.bim) and the sample table (.fam) of a PLINK 1 fileset."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError

StringColumn = npt.NDArray[np.object_]
RowIndex = npt.NDArray[np.intp] | npt.NDArray[np.bool_]

MALE, FEMALE, UNKNOWN_SEX = 1, 2, 0

_CHROMOSOME_NUMBERS = {
    "23": "X", "24": "Y", "25": "XY", "26": "MT", "27": "PAR1", "28": "PAR2", "M": "MT",
}  # fmt: skip
UNPLACED = "0"
HUMAN_CHROMOSOMES = frozenset(
    [UNPLACED, *(str(number) for number in range(1, 23)), *_CHROMOSOME_NUMBERS.values()]
)

_BIM_COLUMNS = 6
_FAM_COLUMNS = 6
_LARGEST_POSITION = 2**31 - 2  # as in plink2
_LEADING_INTEGER = re.compile(rb"[+-]?[0-9]+")
_SEX_CODES = {b"1": MALE, b"M": MALE, b"m": MALE, b"2": FEMALE, b"F": FEMALE, b"f": FEMALE}

_SEX_OF_TEXT = {code.decode(): sex for code, sex in _SEX_CODES.items()}

_BLOCK_BYTES = 1 << 20
_IS_BLANK = np.isin(np.arange(256), list(b" \t\n\r\v\f"))  # separators of bytes.split()


class _Columns:
    """Table with one array for each column, which is a dataclass field."""

    def select(self, index: RowIndex) -> Self:
        """Return the rows at `index`, which holds positions or is a mask."""
        return self._map(lambda column: column[index])

    @classmethod
    def concatenate(cls, tables: Sequence[Self]) -> Self:
        """Return one table with the rows of all `tables`."""
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        return cls(*(np.concatenate([getattr(table, name) for table in tables]) for name in names))

    def _map(self, function: Any) -> Self:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return type(self)(*(function(getattr(self, field.name)) for field in fields))


@dataclass(frozen=True)
class VariantTable(_Columns):
    """Variants: the columns of a .bim file.

    Attributes
    ----------
    chromosome, identifier : ndarray of object (str), shape (m,)
        Chromosome and identifier as written in the file (``chr1`` stays ``chr1``).
    centimorgan : ndarray of float64, shape (m,)
        Genetic distance in centimorgans.
    position : ndarray of int64, shape (m,)
        Position in base pairs.
    allele1 : ndarray of object (str), shape (m,)
        Allele A1 (column 5), whose copies are counted.
    allele2 : ndarray of object (str), shape (m,)
        Allele A2 (column 6).
    """

    chromosome: StringColumn
    identifier: StringColumn
    centimorgan: npt.NDArray[np.float64]
    position: npt.NDArray[np.int64]
    allele1: StringColumn
    allele2: StringColumn

    def __len__(self) -> int:
        return len(self.identifier)


@dataclass(frozen=True)
class SampleTable(_Columns):
    """People: the identity columns of a .fam file.

    Attributes
    ----------
    family : ndarray of object (str), shape (n,)
        Family identifier FID; ``0`` means none.
    individual : ndarray of object (str), shape (n,)
        Individual identifier IID.
    sex : ndarray of int8, shape (n,)
        Sex: 1 male, 2 female, 0 unknown.
    """

    family: StringColumn
    individual: StringColumn
    sex: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.individual)


@dataclass(frozen=True)
class BimFile:
    """Content of a .bim file.

    Attributes
    ----------
    variants
        Variants, one for each line, in file order. They include variants of negative position,
        which plink2 and this project leave out later, because the .bed file holds their genotypes.
    odd_positions
        Number of positions that are not plain integers (``1.5e6x``), which are read as their
        leading integer, as in plink2.
    """

    variants: VariantTable
    odd_positions: int


def read_bim(path: Path) -> BimFile:
    """Read a .bim file: chromosome, identifier, centimorgans, position, A1, A2.

    Columns are separated by blanks or tabs, lines may end with CR LF, and columns after the sixth
    are ignored.

    Raises
    ------
    InputError
        The file is missing or empty, a line has fewer than six columns, a position does not begin
        with an integer or is above 2**31 - 2, or a genetic distance is not a number.
    """
    chromosomes, identifiers, alleles1, alleles2 = [], [], [], []
    positions, centimorgans = [], []
    odd = 0
    for line, tokens in _rows(path, _BIM_COLUMNS, "chromosome ID cM position A1 A2"):
        position, plain = _position(tokens[3], path, line)
        odd += not plain
        centimorgans.append(_centimorgan(tokens[2], path, line))
        positions.append(position)
        chromosomes.append(sys.intern(_text(tokens[0], path, line)))
        identifiers.append(_text(tokens[1], path, line))
        alleles1.append(sys.intern(_text(tokens[4], path, line)))
        alleles2.append(sys.intern(_text(tokens[5], path, line)))
    if not identifiers:
        raise InputError("has no variants", where=path, remedy="Check that the file is complete")
    variants = VariantTable(
        chromosome=_string_column(chromosomes),
        identifier=_string_column(identifiers),
        centimorgan=np.asarray(centimorgans, dtype=np.float64),
        position=np.asarray(positions, dtype=np.int64),
        allele1=_string_column(alleles1),
        allele2=_string_column(alleles2),
    )
    return BimFile(variants, odd)


def read_fam(path: Path) -> SampleTable:
    """Read the identity columns of a .fam file: FID, IID and sex (columns 1, 2 and 5).

    The columns of parents and phenotype must exist, but are not used.

    Raises
    ------
    InputError
        The file is missing or empty, a line has fewer than six columns, or an IID is ``0``, which
        PLINK reserves for absent people.
    """
    plain = _plain_columns(path, _FAM_COLUMNS, (0, 1, 4))
    if plain is not None and "0" not in plain[1]:
        families, individuals, codes = plain
        # FID and IID are often equal and then share one string in memory.
        shared = [
            individual if family == individual else sys.intern(family)
            for family, individual in zip(families, individuals, strict=True)
        ]
        return SampleTable(
            family=_string_column(shared),
            individual=_string_column(individuals),
            sex=np.array([_SEX_OF_TEXT.get(code, UNKNOWN_SEX) for code in codes], dtype=np.int8),
        )
    return _read_fam_line_by_line(path)


def canonical_chromosome(code: str) -> str:
    """Return the canonical code of a human chromosome: ``X`` for ``chr23``, ``x`` and ``X``.

    Other codes are returned unchanged.
    """
    bare = code[3:] if code[:3].lower() == "chr" else code
    bare = bare.upper()
    if bare.isdecimal() and bare.isascii():
        bare = str(int(bare))
    bare = _CHROMOSOME_NUMBERS.get(bare, bare)
    return bare if bare in HUMAN_CHROMOSOMES else code


def _plain_columns(
    path: Path, columns: int, wanted: tuple[int, ...]
) -> tuple[list[str], ...] | None:
    """Return the wanted columns of a table, or None unless every line has exactly `columns`.

    This takes half the time of reading line by line.
    """
    found: tuple[list[str], ...] = tuple([] for _ in wanted)
    try:
        with path.open("rb") as file:
            while lines := file.readlines(_BLOCK_BYTES):
                block = b"".join(lines)
                if not _are_of_length(block, columns, len(lines)):
                    return None
                tokens = block.split()
                for column, which in zip(found, wanted, strict=True):
                    column += b"\n".join(tokens[which::columns]).decode().split("\n")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return found if found[0] else None


def _are_of_length(block: bytes, columns: int, lines: int) -> bool:
    """Return whether each line of a block ends with a newline and has `columns` tokens."""
    characters = np.frombuffer(block, dtype=np.uint8)
    blank = _IS_BLANK[characters]
    starts = np.flatnonzero(blank[:-1] & ~blank[1:]) + 1
    if not blank[0]:
        starts = np.concatenate([[0], starts])
    ends = np.flatnonzero(characters == ord("\n"))
    if len(ends) != lines or len(starts) != columns * lines:
        return False
    firsts, lasts = starts[::columns], starts[columns - 1 :: columns]
    return bool(np.all(lasts < ends) and np.all(firsts[1:] > ends[:-1]))


def _read_fam_line_by_line(path: Path) -> SampleTable:
    """Read a .fam file as `read_fam` does, with the line number of each error."""
    families, individuals, sexes = [], [], []
    for line, tokens in _rows(path, _FAM_COLUMNS, "FID IID father mother sex phenotype"):
        if tokens[1] == b"0":
            raise InputError(
                "the IID is '0', which PLINK reserves for an absent person",
                where=f"{path}:{line}",
                remedy="Give this person another IID",
            )
        families.append(sys.intern(_text(tokens[0], path, line)))
        individuals.append(_text(tokens[1], path, line))
        sexes.append(_SEX_CODES.get(tokens[4], UNKNOWN_SEX))
    if not individuals:
        raise InputError("has no samples", where=path, remedy="Check that the file is complete")
    return SampleTable(
        family=_string_column(families),
        individual=_string_column(individuals),
        sex=np.asarray(sexes, dtype=np.int8),
    )


def _rows(path: Path, columns: int, layout: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (line number, tokens) of every line; blank lines are allowed only at the end."""
    blank = 0
    try:
        with path.open("rb") as file:
            for line, content in enumerate(file, start=1):
                # bytes.split() splits only at ASCII whitespace, which includes CR.
                tokens = content.split()
                if not tokens:
                    blank = line
                    continue
                if blank:
                    raise InputError(
                        "an empty line inside the table",
                        where=f"{path}:{blank}",
                        remedy="Rows must match the .bed file; check whether a row was lost",
                    )
                if len(tokens) < columns:
                    raise InputError(
                        "fewer columns than expected",
                        where=f"{path}:{line}",
                        value=len(tokens),
                        expected=columns,
                        remedy=f"The columns are: {layout}",
                    )
                yield line, tokens
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, remedy="Check the prefix") from error


def _position(token: bytes, path: Path, line: int) -> tuple[int, bool]:
    """Parse a base-pair position; the flag is True for a plain integer."""
    match = _LEADING_INTEGER.match(token)
    if match is None:
        raise InputError(
            "the position is not a number",
            where=f"{path}:{line}",
            value=token.decode(errors="replace"),
            remedy="Column 4 of a .bim file is the position in base pairs",
        )
    position = int(match.group())
    if position > _LARGEST_POSITION:
        raise InputError(
            "the position is too large",
            where=f"{path}:{line}",
            value=position,
            limit=_LARGEST_POSITION,
        )
    return position, match.end() == len(token)


def _centimorgan(token: bytes, path: Path, line: int) -> float:
    try:
        value = float(token)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            "the genetic distance is not a number",
            where=f"{path}:{line}",
            value=token.decode(errors="replace"),
            remedy="Column 3 of a .bim file is in centimorgans; write 0 where it is unknown",
        )
    return value


def _text(token: bytes, path: Path, line: int) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "not UTF-8 text", where=f"{path}:{line}", remedy="Convert the file to UTF-8"
        ) from error


def _string_column(values: Sequence[str]) -> StringColumn:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
