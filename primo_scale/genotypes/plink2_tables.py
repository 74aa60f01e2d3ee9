"""Reading of the variant table (.pvar, .pvar.zst) and the sample table (.psam) of PLINK 2.

Lines before the header that begin with ``##`` are ignored, and so are the columns QUAL, FILTER,
INFO and all phenotypes. As in plink2, a .pvar without a header has the columns of a .bim file, a
.psam without one those of a .fam file, and FID is ``0`` without a column of that name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import (
    BIM_COLUMNS,
    FAM_COLUMNS,
    BimFile,
    SampleTable,
    read_people_table,
    read_variants,
)
from primo_scale.genotypes.text_lines import open_lines

_PVAR_NAMES = {
    "#CHROM": "chromosome", "ID": "ID", "CM": "cM", "POS": "position", "ALT": "A1", "REF": "A2",
}  # fmt: skip
_PSAM_NAMES = {"#FID": "FID", "#IID": "IID", "IID": "IID", "SEX": "sex"}
# Other columns that a header must have, by its first column.
_PVAR_HEADERS = {"#CHROM": ("POS", "ID", "REF", "ALT")}
_PSAM_HEADERS: dict[str, tuple[str, ...]] = {"#FID": ("IID",), "#IID": ()}


def read_pvar(path: Path) -> BimFile:
    """Read a .pvar file; A1 is ALT, with commas between several, and A2 is REF.

    The refusals are those of `primo_scale.genotypes.tables.read_bim`, and a header without one of
    the five required columns.
    """
    with open_lines(path) as lines:
        header, rows = _after_header(lines, path, _PVAR_HEADERS)
        columns = [_PVAR_NAMES.get(name, name) for name in header] or list(BIM_COLUMNS)
        last = max(columns.index(name) for name in BIM_COLUMNS if name in columns)
        return read_variants(rows, path, columns[: last + 1])


def read_psam(path: Path) -> SampleTable:
    """Read a .psam file.

    The refusals are those of `primo_scale.genotypes.tables.read_fam`, and a header without IID.
    """
    with open_lines(path) as lines:
        header, rows = _after_header(lines, path, _PSAM_HEADERS)
        columns = [_PSAM_NAMES.get(name, name) for name in header] or list(FAM_COLUMNS)
        return read_people_table(rows, path, columns)


def _after_header(
    lines: Iterator[tuple[int, bytes]], path: Path, headers: Mapping[str, tuple[str, ...]]
) -> tuple[list[str], Iterator[tuple[int, bytes]]]:
    """Return the names of the columns, or none without a header, and the rows."""
    for line, content in lines:
        if content.startswith(b"##"):
            continue
        names = content.decode(errors="replace").split()
        if not content.startswith(b"#"):
            return [], chain([(line, content)], lines)
        missing = [name for name in headers.get(names[0], tuple(headers)) if name not in names[1:]]
        if missing or len(set(names)) < len(names):
            raise InputError(
                f"the header lacks {', '.join(missing)}" if missing else "a column is repeated",
                where=f"{path}:{line}",
                value=" ".join(names)[:80],
                remedy="The header of a .pvar begins with #CHROM POS ID REF ALT, that of a .psam "
                "with #FID IID or #IID",
            )
        return names, lines
    return [], iter(())
