"""Estimators of releases without noise: --ridge, and by default the most accurate there is."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bed_reader import open_bed
from sklearn.linear_model import Ridge
from support.small_cohort import Cohort, command, succeeded, write_cohort

import primo_scale as ps
from primo_scale.cli.commands import verify
from primo_scale.run.design import load_design
from primo_scale.run.options import Fit
from primo_scale.run.plan import choose

N, D, BLOCK = 800, 60, 20
CAUSAL = {7: 0.5, 41: -0.4}
EXACT = ("--non-private", "--ld-blocks", f"window:{BLOCK}")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory) -> Cohort:
    folder = write_cohort(tmp_path_factory.mktemp("exact") / "in", n_people=N, n_variants=D)
    copies = dosages(folder)
    noise = np.random.default_rng(1).standard_normal(N)
    y = noise + sum(copies[:, j] * effect for j, effect in CAUSAL.items())
    table = pd.read_csv(folder / "pheno.tsv", sep="\t").assign(T=np.round(y, 4))
    table.to_csv(folder / "pheno.tsv", sep="\t", index=False)
    (folder / "bounds.tsv").write_text("name\tlower\tupper\tmean\tsd\nT\t-6\t6\t0\t1.2\n")
    return Cohort(folder)


def dosages(folder):
    with open_bed(folder / "cohort.bed") as bed:
        return np.nan_to_num(bed.read(dtype="float64"), nan=1)


def released(cohort, name, *options):
    """Return the weights and the statement of a release without noise, which verifies."""
    out = cohort.folder / name
    succeeded(cohort.release(*EXACT, *options, "--out", out, budget=[]))
    succeeded(command(verify, out))
    published = ps.open_release(out)
    assert all(
        "NOT PRIVATE" in (out / file).read_text() for file in ("README.txt", "covariates.tsv")
    )
    return published.weights["T"].to_numpy(np.float64), published.document


def test_the_default_finds_few_effects_that_ridge_spreads(cohort):
    truth = np.zeros(D)
    truth[list(CAUSAL)] = list(CAUSAL.values())
    found, document = released(cohort, "best")
    ridge, of_ridge = released(cohort, "ridge", "--ridge", D)
    assert ((found - truth) ** 2).sum() < 0.5 * ((ridge - truth) ** 2).sum()
    assert document["estimation"]["estimator"] == "point-normal"
    assert document["estimation"]["penalties"] == []
    assert document["estimation"]["parameters"]["point_normal_columns"] == 1
    assert of_ridge["estimation"]["estimator"] == "ridge"


def test_a_given_penalty_gives_exactly_that_ridge(cohort):
    found, _ = released(cohort, "given", "--ridge", 30)
    y = pd.read_csv(cohort.folder / "pheno.tsv", sep="\t")["T"]
    x = dosages(cohort.folder) - 1
    x -= x.mean(axis=0)
    blocks = [slice(start, start + BLOCK) for start in range(0, D, BLOCK)]
    model = Ridge(alpha=30, fit_intercept=False)
    expected = np.concatenate([model.fit(x[:, b], y - y.mean()).coef_ for b in blocks])
    np.testing.assert_allclose(found, expected, atol=2e-4)  # phenotypes are truncated


def test_sizes_decide_whether_effects_are_sampled(cohort):
    released(cohort, "sizes")
    design = load_design(cohort.folder / "sizes.work" / "design.json")

    def chosen(design, fit=Fit()):  # noqa: B008
        return choose(design, fit, private=False).estimator.name

    assert chosen(design) == "point-normal"
    assert chosen(design, Fit(ridge=2)) == "ridge"
    large = replace(design, boundaries=(0, 3000))
    assert chosen(large) == "effect-variances"
    many = replace(design, boundaries=tuple(range(0, 20_000_001, 2000)))
    assert chosen(many) == "point-normal"
    more = replace(design, boundaries=(*many.boundaries, 20_002_000))
    assert chosen(more) == "effect-variances"
    assert json.loads((cohort.folder / "sizes" / "release.json").read_text())["stamp"]
