"""Inputs and releases of acceptance tests, read without the product's code."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import bed_reader
import numpy as np
import numpy.typing as npt
import pandas as pd

Float64 = npt.NDArray[np.float64]

GENOTYPE_UNIT = 16
LARGEST_CODE = 127
RAREST_IN_PANEL = 1e-3
_BOUND_IN_SD = 8


@dataclass(frozen=True)
class RealSet:
    """Real data set, with the files that its release needs."""

    name: str
    bfile: Path
    pheno: Path
    covar: Path
    pheno_bounds: Path
    covar_bounds: Path
    frequencies: Path

    @property
    def options(self) -> list[object]:
        """Inputs as options of ``gwas_release``."""
        return ["--bfile", self.bfile, *self.outcome_options]

    @property
    def outcome_options(self) -> list[object]:
        """Phenotypes and covariates as options."""
        return [
            "--pheno", self.pheno, "--covar", self.covar,
            "--pheno-bounds", self.pheno_bounds, "--covar-bounds", self.covar_bounds,
        ]  # fmt: skip

    @cached_property
    def bim(self) -> pd.DataFrame:
        """The .bim file."""
        return pd.read_csv(
            self.bfile.with_name(self.bfile.name + ".bim"),
            sep=r"\s+",
            names=["chrom", "ID", "cm", "pos", "A1", "A2"],
            dtype={"chrom": str, "ID": str, "A1": str, "A2": str},
        )

    @cached_property
    def people(self) -> pd.MultiIndex:
        """FID and IID of all people in the .fam file."""
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
        """Content of release.json."""
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
        """Intercept of each phenotype."""
        return self._covariates.loc["(intercept)"].to_numpy(dtype=np.float64)

    @cached_property
    def covariate_weights(self) -> Float64:
        """Weights per unit of each covariate, shape (covariates, phenotypes)."""
        names = [c["name"] for c in self.statement["public_inputs"]["covariates"]]
        return self._covariates.loc[names].to_numpy(dtype=np.float64)

    @cached_property
    def centre(self) -> Float64:
        """Dosage that replaces a missing genotype, from centre.afreq."""
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


def shrinkage(row: list[int], limit: int) -> int | None:
    """Return ``isqrt(floor(2^62 N / |q|^2))`` for a row that is too long, else None."""
    length = squared(row)
    return math.isqrt(2**62 * limit // length) if length > limit else None


def squared(row: list[int]) -> int:
    """Return ``|q|^2``."""
    return sum(entry * entry for entry in row)


def scaled(row: list[int], ratio: int | None) -> list[int]:
    """Return ``sign(q) floor(|q| r / 2^31)``, or the row itself without a ratio."""
    if ratio is None:
        return row
    return [(1 if entry >= 0 else -1) * (abs(entry) * ratio // 2**31) for entry in row]


def public_coding(a1_frequency: Float64) -> tuple[Float64, Float64]:
    """Return the multipliers k and centres m of the documented coding, for public frequencies.

    The coding has 16 lattice units per standard deviation if the codes of both homozygotes fit
    int8, and else the largest k with which they do.
    """
    p = np.clip(a1_frequency, RAREST_IN_PANEL, 1 - RAREST_IN_PANEL)
    k = np.rint(GENOTYPE_UNIT / np.sqrt(2 * p * (1 - p)))
    while True:
        m = np.rint(2 * p * k)
        beyond = np.maximum(m, 2 * k - m) > LARGEST_CODE
        if not beyond.any():
            return k, m
        k -= beyond


def read_table(path: Path) -> pd.DataFrame:
    """Read a phenotype or covariate file."""
    return pd.read_csv(path, sep=r"\s+", dtype={"FID": str, "IID": str})


def write_bounds(table: Path, path: Path) -> Path:
    """Write wide bounds of every column of `table`: its codes, or mean +- 8 sd.

    They come from the data, which is not allowed for a real release, and replace public knowledge.
    """
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
