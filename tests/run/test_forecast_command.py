"""Forecasts of releases from a public panel, before a cohort is read."""

import json
import logging

import pytest
from support.command_io import PANEL, simulated

import primo_scale as ps
from primo_scale.errors import UsageError

N, D = 2000, 700


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    path = tmp_path_factory.mktemp("forecast") / "variants.txt"
    lines = PANEL.with_suffix(".bim").read_text().splitlines()[:D]
    path.write_text("".join(line.split("\t")[1] + "\n" for line in lines))
    return path


def request(extract, **changes):
    whole = {"people": (N, 50 * N), "phenotypes": (1, 20), "epsilon": (0.5, 5.0)} | changes
    return ps.ForecastRequest(ld_panel=PANEL, ref_freq=f"{PANEL}.afreq", extract=extract, **whole)


@pytest.fixture(scope="module")
def rows(variants):
    return {
        (row.people, row.phenotypes, row.epsilon): row for row in ps.forecast(request(variants))
    }


def test_components_explain_more_than_variants(variants, rows):
    without = ps.forecast(
        request(variants, people=N, phenotypes=20, epsilon=0.5, ld_components=False)
    )
    (row,) = without
    assert row.columns == D
    assert row.r2 < rows[N, 20, 0.5].r2
    assert row.r2_without_noise == rows[N, 20, 0.5].r2_without_noise


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    path = tmp_path_factory.mktemp("cohort") / "cohort"
    return simulated(path, N, 1, variants=D, phenotypes=1)


def choices(cohort, folder):
    return {
        "pheno": f"{cohort}.pheno.tsv",
        "pheno_bounds": f"{cohort}.pheno-bounds.tsv",
        "epsilon": 5,
        "delta": N**-2,
        "ref_freq": f"{PANEL}.afreq",
        "ld_panel": PANEL,
        "ledger": folder / "ledger",
        "work_dir": folder / "work",
        "accept_noise": True,
    }


def test_the_forecast_is_that_of_a_plan_with_the_cohort(tmp_path, cohort, rows):
    planned = ps.plan(bfile=cohort, out=tmp_path / "out", **choices(cohort, tmp_path))
    assert planned.accuracy.r_squared == pytest.approx(rows[N, 1, 5.0].r2, rel=1e-3)


def test_the_forecast_of_the_best_variants_is_that_of_every_stage(tmp_path, cohort, score, caplog):
    best = {"bfile": cohort, "extract_by_prior": score, "top": 50}
    options = choices(cohort, tmp_path)
    planned = [ps.plan(**best, out=tmp_path / "out", **options)]
    ps.ingest(**best, ref_freq=f"{PANEL}.afreq", out=tmp_path / "store", ld_panel=PANEL)
    with caplog.at_level(logging.INFO, "primo_scale"):
        planned.append(ps.plan(ps.AccumulateRequest(genotypes=tmp_path / "store", **options)))
    assert "heritability of 0.3, 0.029 of it by these variants" in caplog.text
    first, second = (each.accuracy for each in planned)
    assert first.r_squared == pytest.approx(second.r_squared, rel=1e-9)
    ps.release(ps.ReleaseRequest(**best, out=tmp_path / "out", **options))
    stated = json.loads((tmp_path / "out" / "release.json").read_text())["accuracy"]
    assert stated["effective_sample_size"] == planned[0].accuracy.stated_size
    assert "a heritability of 0.029" in stated["definition"]


def test_a_panel_without_a_choice_by_a_score_is_refused(tmp_path, cohort):
    with pytest.raises(UsageError, match="ld_panel: needs `extract_by_prior`"):
        ps.ingest(bfile=cohort, out=tmp_path / "store", ld_panel=PANEL)


@pytest.fixture(scope="module")
def score(tmp_path_factory):
    """A score of every second one of the first variants."""
    path = tmp_path_factory.mktemp("score") / "score.txt"
    lines = ["rsID\tchr_name\tchr_position\teffect_allele\tother_allele\teffect_weight"]
    rows = [line.split("\t") for line in PANEL.with_suffix(".bim").read_text().splitlines()[:D:2]]
    for weight, (chromosome, name, _, position, counted, other) in enumerate(rows, 1):
        lines.append(f"{name}\t{chromosome}\t{position}\t{counted}\t{other}\t{weight}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("people", [20_000, 10**6])
def test_noise_never_adds_accuracy(tmp_path, people):
    """Also where variants vary more in the panel than their public frequencies say."""
    lines = PANEL.with_suffix(".bim").read_text().splitlines()[200:250]
    listed = tmp_path / "listed.txt"
    listed.write_text("".join(line.split("\t")[1] + "\n" for line in lines))
    (row,) = ps.forecast(request(listed, people=people, phenotypes=1, epsilon=8.0))
    assert 0.9 * row.r2_without_noise < row.r2 <= row.r2_without_noise
    assert row.effective_people < people
