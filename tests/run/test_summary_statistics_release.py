"""Summary statistics of a release, beside those that numpy computes from the same files."""

import numpy as np
import pandas as pd
from bed_reader import open_bed
from support.command_io import PANEL, simulated
from support.small_cohort import command, succeeded

from primo_scale.cli.commands import release

N, OBSERVED = 2000, 40


def test_a_phenotype_that_few_people_have_keeps_its_scale(tmp_path):
    """Weights are shrunk below a tenth of the people, but effects and their errors are not."""
    train = simulated(tmp_path / "train", N, 5, variants=60, phenotypes=1)
    table = pd.read_csv(f"{train}.pheno.tsv", sep="\t", dtype={"FID": str, "IID": str})
    table.loc[OBSERVED:, "QT1"] = np.nan
    table.to_csv(f"{train}.pheno.tsv", sep="\t", index=False, na_rep="NA")
    succeeded(command(
        release, "--bfile", train, "--pheno", f"{train}.pheno.tsv", "--pheno-name", "QT1",
        "--pheno-bounds", f"{train}.pheno-bounds.tsv", "--ref-freq", f"{PANEL}.afreq",
        "--non-private", "--sumstats", "--out", tmp_path / "out",
    ))  # fmt: skip
    stated = pd.read_csv(tmp_path / "out" / "sumstats" / "QT1.tsv.gz", sep="\t")
    dosage = open_bed(f"{train}.bed").read()
    phenotype = table["QT1"].to_numpy()
    filled = np.where(np.isnan(phenotype), 0, phenotype) * N / OBSERVED
    p = stated["effect_allele_frequency"].to_numpy()
    beta = np.array([np.cov(x, filled, bias=True)[0, 1] for x in dosage.T]) / (2 * p * (1 - p))
    np.testing.assert_allclose(stated["beta"], beta, rtol=0.02, atol=0.02 * np.abs(beta).max())
    error = np.sqrt(N / OBSERVED * np.nanvar(phenotype) / (2 * p * (1 - p) * N))
    np.testing.assert_allclose(stated["standard_error"], error, rtol=0.1)
    assert stated["n_eff"].median() < 2 * OBSERVED
