"""Fixtures of the acceptance tests: the real data sets, and the commands as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from acceptance_inputs import RealSet, write_bounds

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 300

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of a command: the user's own ledger stays out of reach."""
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}


@pytest.fixture(scope="session")
def run(environment: dict[str, str]) -> Run:
    """Run ``python -m pipelines.COMMAND ARGUMENTS`` and check how it ends."""

    def run_command(
        command: str, *arguments: object, exit_code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", f"pipelines.{command}", *map(str, arguments)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == exit_code, f"exit code {done.returncode}: {done.stderr}"
        return done

    return run_command


@pytest.fixture(scope="session")
def real_sets(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RealSet]:
    """The three real data sets, with bounds files that stand in for public knowledge."""
    bounds = tmp_path_factory.mktemp("bounds")
    real = shared / "data" / "real"
    places = {
        "1000g": (
            real / "1000g_eur343_chr22" / "eur343_chr22",
            "pheno_geuvadis_expr.tsv",
            "covar.tsv",
            "chr22.afreq.gz",
        ),
        "hapmap3": (
            real / "hapmap3_chr1-10" / "hm3_chr1-10",
            "pheno_simulated.tsv",
            "covar_simulated.tsv",
            "hm3.afreq.gz",
        ),
        "regenie": (
            real / "regenie_example" / "example",
            "phenotype.txt",
            "covariates.txt",
            "ex.afreq",
        ),
        "regenie-binary": (
            real / "regenie_example" / "example",
            "phenotype_bin_wNA.txt",
            "covariates.txt",
            "ex.afreq",
        ),
    }
    return {
        name: RealSet(
            name=name,
            bfile=bfile,
            pheno=bfile.parent / pheno,
            covar=bfile.parent / covar,
            pheno_bounds=write_bounds(bfile.parent / pheno, bounds / f"{name}.pheno.tsv"),
            covar_bounds=write_bounds(bfile.parent / covar, bounds / f"{name}.covar.tsv"),
            frequencies=bfile.parent / "truth" / frequencies,
        )
        for name, (bfile, pheno, covar, frequencies) in places.items()
    }
