"""What is assumed of the variances of rare binary traits, which clipping leaves little of."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from support.command_io import PANEL, simulated

import primo_scale as ps
from primo_scale.run.design import load_design

N, PREVALENCE = 20_000, 0.02


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rare")
    choices = {"variants": 40, "phenotypes": 1, "prevalence": PREVALENCE, "causal_fraction": 0.5}
    prefix = simulated(folder / "people", N, 1, **choices)
    request = ps.ReleaseRequest(
        bfile=prefix,
        pheno=f"{prefix}.pheno.tsv",
        pheno_bounds=f"{prefix}.pheno-bounds.tsv",
        pheno_name="CASE",
        ref_freq=f"{PANEL}.afreq",
        epsilon=5,
        delta=1e-7,
        shrinkage="known-noise",
        accept_noise=True,
        ledger=folder / "ledger.sqlite",
        out=folder / "release",
    )
    ps.release(request)
    return request, prefix


def test_the_variance_is_that_of_the_clipped_phenotype(release):
    request, prefix = release
    design = load_design(request.work_dir / "design.json")
    case = pd.read_csv(f"{prefix}.pheno.tsv", sep="\t")["CASE"]
    coded = (case - design.outcomes.means[0]) / np.sqrt(PREVALENCE * (1 - PREVALENCE))
    clipped = coded.clip(-design.clip, design.clip)
    found = estimated(request)["residual_variance"] / design.outcomes.unit**2
    assert found == pytest.approx(clipped.var(), rel=0.3)  # of 400 cases
    assert found < 0.2  # that of a normal phenotype is .69


def test_effects_are_those_of_a_heritability_of_the_liability(release):
    request, _ = release
    design = load_design(request.work_dir / "design.json")
    density = norm.pdf(norm.ppf(PREVALENCE))
    share = density**2 / (PREVALENCE * (1 - PREVALENCE))
    np.testing.assert_allclose(design.shares_of_liability, share)
    assert share < 0.13
    slope = design.clip_response(np.ones(1), np.ones(1)).slope[0]  # of independent variants
    variance = estimated(request)["effect_variance"] / (slope * design.outcomes.unit) ** 2
    assert variance * design.genotypes.variance == pytest.approx(0.3 * share, rel=0.3)


def estimated(request):
    return ps.open_release(request.out).document["estimation"]["parameters"]
