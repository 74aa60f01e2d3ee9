"""Inputs and releases of acceptance tests, read without the product's code."""

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import bed_reader
import numpy as np
import numpy.typing as npt
import pandas as pd

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

GENOTYPE_UNIT = 16
LARGEST_CODE = 127
RAREST_IN_PANEL = 1e-3
_BOUND_IN_SD = 8


@dataclass(frozen=True)
class RealSet:
    name: str
    bfile: Path
    pheno: Path
    covar: Path
    pheno_bounds: Path
    covar_bounds: Path
    frequencies: Path

    @property
    def options(self) -> list[object]:
        return ["--bfile", self.bfile, *self.outcome_options]

    @property
    def outcome_options(self) -> list[object]:
        return [
            "--pheno", self.pheno, "--covar", self.covar,
            "--pheno-bounds", self.pheno_bounds, "--covar-bounds", self.covar_bounds,
        ]  # fmt: skip

    @cached_property
    def bim(self) -> pd.DataFrame:
        return pd.read_csv(
            self.bfile.with_name(self.bfile.name + ".bim"),
            sep=r"\s+",
            names=["chrom", "ID", "cm", "pos", "A1", "A2"],
            dtype={"chrom": str, "ID": str, "A1": str, "A2": str},
        )

    @cached_property
    def people(self) -> pd.MultiIndex:
        fam = self.bfile.with_name(self.bfile.name + ".fam")
        table = pd.read_csv(fam, sep=r"\s+", header=None, dtype=str)
        return pd.MultiIndex.from_arrays([table[0], table[1]])

    def dosages(self, variants: npt.NDArray[np.intp] | None = None) -> Float64:
        """Return copies of A1 from bed-reader, nan where missing, shape (people, variants)."""
        path = self.bfile.with_name(self.bfile.name + ".bed")
        with bed_reader.open_bed(path, count_A1=True, num_threads=1) as bed:
            return bed.read(np.s_[:, variants], dtype="float64")

    def table(self, path: Path) -> pd.DataFrame:
        """Return a phenotype or covariate file, with one row for each line of the .fam file."""
        return read_table(path).set_index(["FID", "IID"]).reindex(self.people)

    def alt_frequencies(self) -> Float64:
        """Return the frequency of A1 (ALT) from plink2 --freq, in the order of the .bim file."""
        table = pd.read_csv(self.frequencies, sep=r"\s+", dtype={"ID": str, "#CHROM": str})
        table = table.set_index("ID")
        return table["ALT_FREQS"].reindex(self.bim["ID"]).to_numpy(dtype=np.float64)


@dataclass(frozen=True)
class Published:
    """Release directory, as a recipient reads it."""

    path: Path

    @cached_property
    def statement(self) -> dict[str, Any]:
        return json.loads((self.path / "release.json").read_text(encoding="utf-8"))

    @cached_property
    def _covariates(self) -> pd.DataFrame:
        path = self.path / "covariates.tsv"
        return pd.read_csv(path, sep="\t", skiprows=1, na_filter=False, index_col="term")

    @cached_property
    def variant_weights(self) -> pd.DataFrame:
        """Weight of each variant (row) for each phenotype, per copy of the effect allele."""
        path = self.path / "weights.tsv.gz"
        types = {"ID": str, "chrom": str, "pos": int}
        table = pd.read_csv(path, sep="\t", na_filter=False, dtype=types)
        return table.set_index("ID").iloc[:, 5:]

    @cached_property
    def intercept(self) -> Float64:
        return self._covariates.loc["(intercept)"].to_numpy(dtype=np.float64)

    @cached_property
    def covariate_weights(self) -> Float64:
        """Weights per unit of each covariate, shape (covariates, phenotypes)."""
        names = [c["name"] for c in self.statement["public_inputs"]["covariates"]]
        return self._covariates.loc[names].to_numpy(dtype=np.float64)

    @cached_property
    def centre(self) -> Float64:
        table = pd.read_csv(
            self.path / "centre.afreq", sep="\t", comment=None, skiprows=1, low_memory=False
        )
        return 2 * table["ALT_FREQS"].to_numpy(dtype=np.float64)


def texts(directory: Path) -> dict[str, str]:
    """Return the decompressed content of every file below a directory by name, as Latin-1 text."""
    contents = {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}
    return {
        path.relative_to(directory).as_posix(): (
            gzip.decompress(content) if path.suffix == ".gz" else content
        ).decode("latin-1")
        for path, content in contents.items()
    }


def norms(rows: Int64) -> Int64:
    return (rows * rows).sum(axis=1)


def ratios(norms: Int64, limits: npt.ArrayLike) -> Int64:
    """Return ``isqrt(floor(2^62 N / |q|^2))`` for the rows that are too long, else 2^31."""
    pairs = np.broadcast(norms, limits)
    found = [
        2**31 if norm <= limit else math.isqrt(2**62 * int(limit) // int(norm))
        for norm, limit in pairs
    ]
    return np.array(found).reshape(pairs.shape)


def scaled(rows: Int64, ratio: Int64) -> Int64:
    """Return ``sign(q) floor(|q| r / 2^31)`` for the ratio of every row."""
    return np.sign(rows) * (np.abs(rows) * ratio[:, None] // 2**31)


def clipped_blocks(
    parts: list[Int64], limits: Sequence[int] | None, row_norm: int
) -> tuple[list[Int64], Int64]:
    """Clip blocks and rows as docs/maths/sensitivity.md says, and return their ratios too."""
    before, bounds = np.stack(list(map(norms, parts))), np.array(limits or [10**18])[:, None]
    whole = ratios(np.minimum(before, bounds).sum(axis=0), row_norm)
    both = ratios(before, bounds) * whole // 2**31
    return [scaled(part, ratio) for part, ratio in zip(parts, both, strict=True)], whole


def coded(
    values: pd.Series,
    lower: float,
    upper: float,
    centre: float,
    scale: float,
    sd: float = 1.0,
) -> Float64:
    """Return ``(clamp(v) - centre) / sd scale``, truncated; 0 if missing."""
    units = (np.clip(values, lower, upper) - centre) / sd * scale
    return np.where(values.isna(), 0, np.trunc(units))


def blocks(boundaries: npt.ArrayLike) -> Iterator[slice]:
    edges = np.asarray(boundaries)
    return map(slice, edges[:-1], edges[1:])


def public_coding(a1_frequency: Float64) -> tuple[Float64, Float64]:
    """Return k and m, for 16 units per standard deviation if int8 has both codes, or fewer."""
    p = np.clip(a1_frequency, RAREST_IN_PANEL, 1 - RAREST_IN_PANEL)
    k = np.rint(GENOTYPE_UNIT / np.sqrt(2 * p * (1 - p)))
    while True:
        m = np.rint(2 * p * k)
        beyond = np.maximum(m, 2 * k - m) > LARGEST_CODE
        if not beyond.any():
            return k, m
        k -= beyond


def read_table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep=r"\s+", dtype={"FID": str, "IID": str})


def write_bounds(table: Path, path: Path) -> Path:
    """Write wide bounds, from the data, of every column of `table`: its codes, or mean +- 8 sd."""
    rows = []
    for name, values in read_table(table).drop(columns=["FID", "IID"]).items():
        codes = set(values.dropna().unique())
        if codes <= {0, 1} or codes <= {1, 2}:
            rows.append([name, min(codes), max(codes), "NA", "NA"])
            continue
        mean, sd = float(f"{values.mean():.6g}"), float(f"{values.std():.6g}")
        rows.append([name, mean - _BOUND_IN_SD * sd, mean + _BOUND_IN_SD * sd, mean, sd])
    bounds = pd.DataFrame(rows, columns=["name", "lower", "upper", "mean", "sd"])
    bounds.to_csv(path, sep="\t", index=False)
    return path
