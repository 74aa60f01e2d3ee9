"""pandas, polars and R's data.table read the header and every cell of each table of a release."""

import csv
import gzip
import math
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.tiers import missing

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / ".venv-catalogue" / "bin" / "python"
COMMANDS = {
    "pandas": [str(PYTHON), str(HERE / "read_tables.py"), "pandas"],
    "polars": [str(PYTHON), str(HERE / "read_tables.py"), "polars"],
    "data.table": ["Rscript", "--vanilla", str(HERE / "read_tables.R")],
}

pytestmark = [pytest.mark.oracle, pytest.mark.slow]


def tables(release: Path) -> dict[str, list[list[str]]]:
    """Return header and cells of every table, by the name under which a reader writes it."""
    found = {}
    for path in sorted(release.rglob("*")):
        if path.name.endswith((".gz", ".tsv", ".afreq")):
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rt") as lines:
                rows = [line.rstrip("\n").split("\t") for line in lines]
            start = next(j for j, row in enumerate(rows) if len(row) > 1)
            found[f"{path.parent.name}-{path.name}.csv"] = rows[start:]
    return found


def differences(found: Iterable[list[str]], expected: Iterable[list[str]]) -> list[tuple[str, str]]:
    """Return the cells that differ by more than the printing of numbers."""
    pairs = (
        pair
        for rows in zip(found, expected, strict=True)
        for pair in zip(*rows, strict=True)
        if pair[0] != pair[1]
    )
    return [pair for pair in pairs if not _equal(*pair)]


def _equal(found: str, expected: str) -> bool:
    try:
        return math.isclose(float(found), float(expected), rel_tol=1e-14, abs_tol=1e-307)
    except ValueError:
        return False


@pytest.mark.parametrize("program", COMMANDS)
def test_the_program_reads_every_table(program: str, release: Path, tmp_path: Path) -> None:
    command = COMMANDS[program]
    if shutil.which(command[0]) is None:
        missing(f"{program} (make other-environments, or apt-get install r-cran-data.table)")
    subprocess.run([*command, str(release), str(tmp_path)], check=True)
    expected = tables(release)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(expected)
    assert len(expected) == 3 + 2 * 2, "weights, covariates and centres; two files a phenotype"
    for name, rows in expected.items():
        with (tmp_path / name).open(newline="") as file:
            assert differences(csv.reader(file), rows) == [], name
