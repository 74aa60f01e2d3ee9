"""Degenerate cohorts: their cells, and their files as bed-reader writes them.

Cells are the text in the files, so that tests can interpret them without the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import bed_reader
import numpy as np
import numpy.typing as npt
from acceptance_inputs import Float64

MISSING = {"NA", "nan", "-nan", "-9", "-9.0"}
BINARY = ({0.0, 1.0}, {1.0, 2.0})


@dataclass(frozen=True)
class Column:
    """Phenotype or covariate: one cell per person, and public bounds."""

    cells: Sequence[str]
    lower: float = -2.0
    upper: float = 2.0
    mean: float = 0.0
    sd: float = 1.0

    def observed(self) -> npt.NDArray[np.bool_]:
        """Return a mask of people with a value, which is neither missing nor an unknown code."""
        codes = {self.lower, self.upper}
        return np.array(
            [
                cell not in MISSING and (codes not in BINARY or float(cell) in codes)
                for cell in self.cells
            ]
        )

    def values(self) -> Float64:
        """Return the clamped values; the public mean where missing."""
        present = self.observed()
        numbers = [float(cell) if there else self.mean
                   for cell, there in zip(self.cells, present, strict=True)]  # fmt: skip
        return np.clip(numbers, self.lower, self.upper)


@dataclass(frozen=True)
class EdgeCohort:
    dosages: Float64  # copies of A1, nan where missing, shape (n, d)
    phenotypes: Mapping[str, Column]  # by name
    covariates: Mapping[str, Column]

    @property
    def n(self) -> int:
        return len(self.dosages)

    def codes(self) -> Float64:
        """Return the codes without frequencies: copies minus one, 0 where missing."""
        return np.where(np.isnan(self.dosages), 0.0, self.dosages - 1)

    def without_person(self, person: int) -> EdgeCohort:
        left = [i for i in range(self.n) if i != person]
        phenotypes, covariates = (
            {name: replace(c, cells=[c.cells[i] for i in left]) for name, c in columns.items()}
            for columns in (self.phenotypes, self.covariates)
        )
        return EdgeCohort(self.dosages[left], phenotypes, covariates)

    def ordinary(self) -> EdgeCohort:
        """Return an ordinary cohort with the same public facts."""
        phenotypes, covariates = (
            {
                name: replace(column, cells=_within(column, self.n, seed))
                for seed, (name, column) in enumerate(columns.items(), start=first)
            }
            for columns, first in ((self.phenotypes, 100), (self.covariates, 200))
        )
        return EdgeCohort(genotypes(*self.dosages.shape, seed=99), phenotypes, covariates)


def genotypes(n: int, d: int, *, seed: int) -> Float64:
    """Return dosages of common variants without missing calls."""
    return np.random.default_rng(seed).integers(0, 3, (n, d)).astype(np.float64)


def cells(n: int, *, seed: int) -> list[str]:
    """Return normal numbers rounded to eighths, which are on the lattice for a power-of-two sd."""
    values = np.random.default_rng(seed).normal(size=n)
    return [f"{value:g}" for value in np.rint(8 * values) / 8]


def decimals(n: int, *, seed: int, scale: float = 1.0) -> list[str]:
    """Return normal numbers that the coding truncates."""
    return [f"{v:.6f}" for v in np.random.default_rng(seed).normal(scale=scale, size=n)]


def odd(values: Sequence[str]) -> list[str]:
    """Return the cells with the first ones replaced by missing, infinite and extreme values."""
    first = ["inf", "-inf", "nan", "NA", "-9", "1e308", "-1e308", "-nan", "-9.0", "Infinity"]
    return [*first, *values[len(first) :]]


def _degenerate_columns() -> EdgeCohort:
    """Return twenty-four people with all kinds of degenerate columns and rows."""
    n = 24
    dosages = genotypes(n, 7, seed=1)
    dosages[7, 0] = np.nan
    dosages[:, 1], dosages[:, 2] = 1, 2  # monomorphic, at the centre and off it
    dosages[:, 3] = dosages[:, 0]  # a copy, so that X has no full rank
    dosages[:, 4] = np.nan  # no calls
    dosages[5] = np.nan
    phenotypes = {
        "plain": Column(decimals(n, seed=2)),
        "constant": Column(["1.25"] * n),
        "beyond": Column(["1e9"] * n),
        "absent": Column(["NA"] * n),
        "odd": Column(odd(decimals(n, seed=3))),
        "from_mean_up": Column(decimals(n, seed=4, scale=3.0), lower=0.0, upper=3.0),
        "far_from_zero": Column(
            [f"{170 + 10 * float(v):.4f}" for v in decimals(n, seed=5, scale=2.0)],
            lower=150.0, upper=200.0, mean=170.0, sd=16.0,
        ),
        "controls": Column(["0"] * n, lower=0.0, upper=1.0, mean=0.25, sd=0.5),
        "no_codes": Column(
            ["1", "2", "0", "3", "inf", "NA", "1.5", "-9", *("12"[i % 2] for i in range(n - 8))],
            lower=1.0, upper=2.0, mean=1.5, sd=0.5,
        ),
    }  # fmt: skip
    covariates = {
        "age": Column(cells(n, seed=6)),
        "ones": Column(["1"] * n),
        "none": Column(["nan"] * n),
        "odd_too": Column(odd(cells(n, seed=7))),
    }
    for columns in (phenotypes, covariates):  # person 5 has no values: a row of zeros
        for name, column in columns.items():
            row = [*column.cells[:5], "NA", *column.cells[6:]]
            columns[name] = replace(column, cells=row)
    return EdgeCohort(dosages, phenotypes, covariates)


ABSENT = Column(["NA"] * 9)
COHORTS = {
    "degenerate": _degenerate_columns(),
    "one variant, one phenotype": EdgeCohort(
        genotypes(13, 1, seed=10), {"y": Column(decimals(13, seed=11))}, {}
    ),
    "one person": EdgeCohort(
        genotypes(1, 3, seed=12), {"a": Column(["1.5"]), "b": Column(["NA"])}, {}
    ),
    "one of everything": EdgeCohort(
        genotypes(1, 1, seed=13), {"a": Column(["0.3"])}, {"c": Column(["-1.5"])}
    ),
    "fewer people than phenotypes and variants": EdgeCohort(
        genotypes(4, 9, seed=14),
        {f"y{j}": Column(decimals(4, seed=20 + j)) for j in range(9)},
        {"age": Column(cells(4, seed=15))},
    ),
    "nothing": EdgeCohort(np.full((9, 4), np.nan), {"a": ABSENT, "b": ABSENT}, {"c": ABSENT}),
}


def write_cohort(cohort: EdgeCohort, directory: Path) -> list[object]:
    """Write every input file of a cohort, and return them as options of ``gwas_release``."""
    directory.mkdir(parents=True, exist_ok=True)
    n, d = cohort.dosages.shape
    people = [f"person{i:04d}zq" for i in range(n)]
    bed_reader.to_bed(
        directory / "c.bed",
        cohort.dosages,
        properties={
            "fid": ["f"] * n,
            "iid": people,
            "chromosome": ["1"] * d,
            "sid": [f"rs{j}" for j in range(d)],
            "bp_position": list(range(100, 100 + d)),
            "allele_1": ["A"] * d,
            "allele_2": ["G"] * d,
        },
    )
    options: list[object] = ["--bfile", directory / "c"]
    for kind, columns in (("pheno", cohort.phenotypes), ("covar", cohort.covariates)):
        if columns:
            table, bounds = directory / f"{kind}.tsv", directory / f"{kind}.bounds.tsv"
            header = ["FID", "IID", *columns]
            rows = zip(["f"] * n, people, *(c.cells for c in columns.values()), strict=True)
            table.write_text("".join("\t".join(row) + "\n" for row in (header, *rows)))
            known = [f"{name}\t{c.lower!r}\t{c.upper!r}\t{c.mean!r}\t{c.sd!r}"
                     for name, c in columns.items()]  # fmt: skip
            bounds.write_text("\n".join(["name\tlower\tupper\tmean\tsd", *known]) + "\n")
            options += [f"--{kind}", table, f"--{kind}-bounds", bounds]
    return options


def _within(column: Column, n: int, seed: int) -> list[str]:
    """Return ordinary cells for a column with these bounds."""
    if {column.lower, column.upper} in BINARY:
        return [f"{column.upper if (i * seed) % 3 else column.lower:g}" for i in range(n)]
    unit = np.random.default_rng(seed).uniform(0.2, 0.8, n)
    return [f"{column.lower + u * (column.upper - column.lower):.5f}" for u in unit]
