"""Fixtures of the acceptance tests: real data sets, and commands."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from support.acceptance_inputs import RealSet, read_table, write_bounds
from support.small_cohort import command

from primo_scale.cli import commands

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def run() -> Run:
    """Provide a function that runs a command in this process, and checks its exit code."""

    def run_command(name: str, *arguments: object, exit_code: int = 0) -> Result:
        main = getattr(commands, {"gwas_release": "release"}.get(name, name))
        result = command(main, *arguments)
        assert result.exit_code == exit_code, result.stderr
        return result

    return run_command


@pytest.fixture(scope="session")
def real_sets(reference: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RealSet]:
    """The real data sets, with bounds files that replace public knowledge."""
    bounds = tmp_path_factory.mktemp("bounds")
    files = {
        "1000g": ("1000g_eur343_chr22/eur343_chr22", "pheno_geuvadis_expr.tsv", "covar.tsv",
                  "chr22.afreq.gz"),
        "hapmap3": ("hapmap3_chr1-10/hm3_chr1-10", "pheno_simulated.tsv", "covar_simulated.tsv",
                    "hm3.afreq.gz"),
        "regenie": ("regenie_example/example", "phenotype.txt", "covariates.txt", "ex.afreq"),
        "regenie-binary": ("regenie_example/example", "phenotype_bin_wNA.txt", "covariates.txt",
                           "ex.afreq"),
    }  # fmt: skip
    sets = {}
    for name, (prefix, pheno, covar, frequencies) in files.items():
        bfile = reference / "data" / "real" / prefix
        sets[name] = RealSet(
            name=name,
            bfile=bfile,
            pheno=bfile.parent / pheno,
            covar=bfile.parent / covar,
            pheno_bounds=write_bounds(bfile.parent / pheno, bounds / f"{name}.pheno.tsv"),
            covar_bounds=write_bounds(bfile.parent / covar, bounds / f"{name}.covar.tsv"),
            frequencies=bfile.parent / "truth" / frequencies,
        )
    pheno = _many_phenotypes(sets, bounds / "many.tsv")
    pheno_bounds = write_bounds(pheno, bounds / "many.pheno.tsv")
    sets["many"] = replace(sets["regenie"], name="many", pheno=pheno, pheno_bounds=pheno_bounds)
    return sets


def _many_phenotypes(sets: dict[str, RealSet], path: Path) -> Path:
    """Write 80 quantitative and 24 binary phenotypes, real columns in other orders of people."""
    rng = np.random.default_rng(5)
    table = read_table(sets["regenie"].pheno)
    columns = {"FID": table["FID"], "IID": table["IID"]}
    for name, count in (("regenie", 80), ("regenie-binary", 24)):
        real = read_table(sets[name].pheno).drop(columns=["FID", "IID"])
        for number in range(count):
            values = real.iloc[:, number % real.shape[1]].to_numpy()
            columns[f"{name}{number}"] = rng.permutation(values)
    pd.DataFrame(columns).to_csv(path, sep="\t", index=False, na_rep="NA")
    return path
