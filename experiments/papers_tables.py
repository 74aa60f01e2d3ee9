"""Real tables of the papers' experiments: five in the repository, others from the user."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
import pandas as pd

_DATA = Path(__file__).parent / "data"


def read_table(name: str, folder: Path | None = None) -> pd.DataFrame:
    """Return a table of numbers whose last column is the target.

    Tables that are not in the repository are read from NAME.csv of `folder`.
    """
    if name == "insurance":
        table = pd.get_dummies(pd.read_csv(_DATA / "insurance.csv"), columns=["region"])
        table["sex"], table["smoker"] = table["sex"] == "male", table["smoker"] == "yes"
        return table[[*table.columns.drop("expenses"), "expenses"]].astype(float)
    if name == "bike":
        return pd.read_csv(_DATA / "bike_hour.csv.gz").drop(columns="instant").astype(float)
    if name in ("airfoil", "wine", "yacht"):
        return pd.read_csv(_DATA / f"{name}.csv.gz").astype(float)
    if folder is None:
        raise click.UsageError(f"table {name} is not in the repository; give its folder: --tables")
    return _read_users(folder / f"{name}.csv")


def tables_of(folder: Path, names: Iterable[str]) -> list[str]:
    """Return those of the names whose tables are in a folder of the user; refuse a folder of none.

    Each table is read, so that a malformed one is refused before anything runs.
    """
    found = [name for name in names if (folder / f"{name}.csv").exists()]
    if not found:
        expected = ", ".join(f"{name}.csv" for name in names)
        raise click.UsageError(f"{folder}: no table of this figure (expected any of {expected})")
    for name in found:
        _read_users(folder / f"{name}.csv")
    return found


def _read_users(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path)
    numbers: pd.DataFrame = table.apply(pd.to_numeric, errors="coerce")
    wrong = numbers.columns[numbers.isna().any() | (numbers.nunique() < 2)]
    if len(wrong) or numbers.shape[1] < 2:
        what = f"column {wrong[0]}" if len(wrong) else "its only column"
        raise click.UsageError(
            f"{path}: {what} is not a variable of the table (expected a line of names, then two or "
            "more columns of numbers without gaps, none constant, the target last)"
        )
    return numbers.astype(float)
