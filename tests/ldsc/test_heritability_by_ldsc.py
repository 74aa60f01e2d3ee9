"""LDSC finds the heritability of simulated people in summary statistics of a private release."""

import numpy as np
import pytest
from click.testing import CliRunner
from support.command_io import PANEL, simulated
from support.tiers import installed

import primo_scale as ps
from experiments import ld_score_regression
from experiments.ld_score_regression import LDSC, MODELS

PEOPLE, TRAITS, HERITABILITY = 20_000, 4, 0.3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    installed("ldsc", "ldsc.py")
    folder = tmp_path_factory.mktemp("ldsc")
    traits = {"phenotypes": TRAITS, "heritability": HERITABILITY, "causal_fraction": 0.1}
    simulated(folder / "cohort", PEOPLE, 1, **traits)
    simulated(folder / "others", 2_000, 2)
    ps.release(
        bfile=folder / "cohort",
        pheno=folder / "cohort.pheno.tsv",
        pheno_bounds=folder / "cohort.pheno-bounds.tsv",
        ref_freq=f"{PANEL}.afreq",
        ld_blocks=f"{PANEL}.blocks.tsv",
        epsilon=5,
        delta=PEOPLE**-2.0,
        ledger=folder / "ledger.sqlite",
        accept_noise=True,
        sumstats=True,
        out=folder / "release",
    )
    return folder


@pytest.mark.oracle
@pytest.mark.slow
def test_ldsc_finds_the_heritability_if_n_eff_is_the_number_of_people(folder):
    tool = LDSC(installed("ldsc", "ldsc.py").parent, folder, folder / "others")

    def heritability(people, traits):
        names = [f"QT{k + 1}" for k in range(traits)]
        found = [tool.estimate(folder / "release", name, "intercept-1", people) for name in names]
        return float(np.mean([estimate.heritability for estimate in found]))

    assert heritability(None, TRAITS) == pytest.approx(HERITABILITY, abs=0.06)
    assert heritability(PEOPLE, 1) < HERITABILITY / 3


@pytest.mark.oracle
@pytest.mark.slow
def test_the_command_prints_a_row_of_the_release(folder, monkeypatch):
    monkeypatch.setattr(ld_score_regression, "MODELS", {"intercept-1": MODELS["intercept-1"]})
    words = ["--ldsc", installed("ldsc", "ldsc.py").parent, "--reference", folder / "others",
             "--folder", folder, folder / "release"]  # fmt: skip
    result = CliRunner().invoke(ld_score_regression.main, list(map(str, words)))
    assert result.exit_code == 0, result.output
    (row,) = result.output.splitlines()[2:]
    assert row.startswith(f"| 5 | {TRAITS} |") and "intercept-1" in row
