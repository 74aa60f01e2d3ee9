"""Releases of two rounds: exact sums of residuals, bounds, kills, statements and refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.crash import KILLED, killed_at
from support.documents import read_document
from support.noise_checks import has_scale
from support.partials import inputs_of
from support.small_cohort import PanelCohort, command, refused, succeeded

from primo_scale.accumulation.partials import open_partials
from primo_scale.accumulation.statistics import find_own_sums, sum_own
from primo_scale.accumulation.tasks import run_task, subtract_scores
from primo_scale.cli.commands import finalize, verify
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.kernels.packed import decode
from primo_scale.kernels.products import LinearMap
from primo_scale.ledger.ledger import Ledger
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.panel.components import OwnWindow, open_directions, write_directions
from primo_scale.run.accumulate_stage import second_inputs, second_plan
from primo_scale.run.design import load_design

N, D = 1502, 900


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounds")
    cohort = PanelCohort(folder, N, "--rounds", 2, variants=D, phenotypes=3)
    succeeded(cohort.release("--hold-out", 0.1))
    return cohort


@pytest.fixture(scope="module")
def work(cohort):
    return cohort.folder / "release.work"


@pytest.fixture(scope="module")
def people(work):
    return people_of(work, open_directions(work / "own_directions.zarr"))


def people_of(work, directions):
    """Return clipped residuals, (n, l), and directions of each phenotype, by their definition."""
    design = load_design(work / "design.json")
    store = open_genotype_store(work / "genotypes.zarr")
    codes = decode(
        store.read_packed(slice(0, D), slice(0, N)), design.genotypes.code_table, N
    ).astype(object)
    rows, scores = [], np.zeros((directions.n_phenotypes, N), dtype=object)
    for window in range(len(directions.sizes)):
        inside = codes[directions.variants(window)]
        mapped = directions.map_of(window)
        products = (mapped.matrix.astype(object) @ inside) * mapped.multipliers[:, None]
        rows.append(np.clip((products + 2**23) // 2**24, -127, 127).T)
        predicted = directions.scores_of(window)
        products = (predicted.matrix.astype(object) @ inside) * predicted.multipliers[:, None]
        scores += (products + 2**23) // 2**24
    x = np.hstack(rows)
    outcomes = open_outcome_store(work / "outcomes.zarr").read_rows(slice(0, N)).astype(object)
    left = np.where(outcomes == 0, 0, np.clip(outcomes - scores.T, -32767, 32767))
    return left, x, directions.owners


def norms_of(x, owners):
    return np.stack([(x[:, owners == k] ** 2).sum(axis=1) for k in range(owners.max() + 1)], axis=1)


def test_residuals_stay_within_16_bits_and_missing_phenotypes_stay_zero():
    phenotypes = np.array([[32_767, -32_767, 0, 5]], dtype=np.int16)
    found = subtract_scores(phenotypes, np.array([[-9_000, 9_000, 700, 7]]))
    assert found.dtype == np.int16 and found.tolist() == [[32_767, -32_767, 0, -2]]


def test_sums_are_those_of_clipped_residuals(work, people):
    residuals, x, owners = people
    second = read_document(work.with_name("release"))["mechanism"]["second_round"]
    limit = second["row_norm_squared"] * second["phenotypes_norm_squared"]
    contributions = (residuals**2 * norms_of(x, owners)).sum(axis=1)
    shares = np.sqrt(np.minimum(1, limit / np.maximum(contributions, 1).astype(float)))
    assert 0.05 < (shares < 1).mean() < 0.999
    exact = find_own_sums(work / "own_sums.zarr").values
    expected = np.einsum("it,it->t", x.astype(float), (residuals * shares[:, None])[:, owners])
    lengths = np.sqrt((x.astype(float) ** 2).sum(axis=0) * N)
    assert np.abs(exact - expected).max() < 2 * lengths.max()  # a lattice step for each person
    assert np.corrcoef(exact.astype(float), expected.astype(float))[0, 1] > 0.999_999


def test_windows_of_more_directions_than_a_tile_are_summed_whole(work, tmp_path):
    """Directions of many phenotypes: a map of 2,100 rows belongs to one window."""
    design, random = load_design(work / "design.json"), np.random.default_rng(1)
    found = open_directions(work / "own_directions.zarr")
    owners = np.sort(random.integers(0, 3, 2100))
    width = found.boundaries[1]
    wide = LinearMap(
        random.integers(-127, 128, (2100, width), dtype=np.int8), np.full(2100, 1 << 17)
    )
    windows = [
        OwnWindow(found.map_of(w), found.owners_of(w), found.scores_of(w), found.covariance_of(w))
        for w in range(len(found.sizes))
    ]
    windows[0] = OwnWindow(wide, owners, found.scores_of(0), found.covariance_of(0))
    forged = write_directions(
        tmp_path / "forged.zarr", "wide", windows, found.row_norm, found.residuals, found.degrees
    )
    inputs = inputs_of(work / "genotypes.zarr", work / "outcomes.zarr")
    inputs = replace(inputs, digests={**inputs.digests, "design": design.digest})
    inputs = second_inputs(inputs, design, forged)
    plan = second_plan(design, forged)
    partials = open_partials(tmp_path / "partials.zarr", plan, inputs, design.genotypes.code_table)
    for task in [*plan.row_tasks(), *plan.tile_tasks()]:
        run_task(partials.address, task)
    exact = sum_own(partials, tmp_path / "sums.zarr").values
    residuals, x, _ = people_of(work, forged)
    norms = norms_of(x, forged.owners).astype(np.int64)
    clipped = inputs.clipping_rule.clip_contributions(residuals.astype(np.int16), norms)
    expected = np.einsum("it,it->t", x.astype(np.int64), clipped.astype(np.int64)[:, forged.owners])
    np.testing.assert_array_equal(exact, expected)


def test_scores_are_those_of_the_first_round(people, work):
    residuals, _, _ = people
    before = open_outcome_store(work / "outcomes.zarr").read_rows(slice(0, N)).astype(float)
    seen = before[:, 0] != 0
    scores = (before - residuals.astype(float))[seen]
    explained = [np.corrcoef(scores[:, k], before[seen, k])[0, 1] for k in range(3)]
    assert min(explained) > 0.2  # in the people by whom the effects were estimated


def test_noise_has_the_stated_scale_and_the_release_verifies(cohort, work):
    document = read_document(cohort.folder / "release")
    query = {each["name"]: each for each in document["mechanism"]["queries"]}["second_round"]
    (noisy,) = (work / "private_statistics").glob("*.second_round.json")
    values = np.array(json.loads(noisy.read_text())["values"])
    noise = values - find_own_sums(work / "own_sums.zarr").values
    assert query["shape"] == [len(noise)]
    assert has_scale(noise, query["sigma"][0]) and not has_scale(noise, 1.3 * query["sigma"][0])
    assert document["mechanism"]["share"] == pytest.approx(0.98 / 2)
    succeeded(command(verify, cohort.folder / "release"))
    report = (cohort.folder / "release" / "report.html").read_text()
    assert "before, and measured a second time after" in report
    assert "published already" in succeeded(cohort.release("--hold-out", 0.1)).stderr


@pytest.mark.parametrize(
    "step",
    ["statistics stored", "second round stored", "draw record committed", "key removed"],
)
@pytest.mark.slow
def test_a_killed_release_is_continued_with_one_charge(cohort, step):
    out = step.replace(" ", "-")
    assert killed_at(step, cohort.released, out) == KILLED
    cohort.released(out)
    with Ledger(cohort.folder / f"{out}.ledger", read_only=True) as ledger:
        (balance,) = ledger.balances()
        (charge,) = balance.charges
    assert len(charge.bound_to) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--privacy", "label"),
        ("--privacy", "feature"),
        ("--adjacency", "add-remove", "--nominal-n", N),
    ],
    ids=lambda words: words[1],
)
def test_every_privacy_unit_has_two_rounds(cohort, options):
    document = read_document(cohort.released(options[1], *options))
    factor = 1 if options[1] == "add-remove" else 2
    second = document["mechanism"]["second_round"]
    query = {each["name"]: each for each in document["mechanism"]["queries"]}["second_round"]
    bound = second["row_norm_squared"] * second["phenotypes_norm_squared"]
    assert query["sensitivity"][0] == pytest.approx(factor * bound**0.5)


def test_another_way_to_weights_is_refused(cohort, work):
    asked = ("--work-dir", work, *cohort.budget, "--ledger", cohort.folder / "release.ledger")
    asked += ("--out", cohort.folder / "other", "--shrinkage", "known-noise")
    refused(command(finalize, *asked), 2, "shrinkage", "--rounds 1")


def test_rounds_that_are_not_possible_are_refused(cohort):
    refused(cohort.release("--no-ld-components", out="none"), 2, "--rounds", "LD components")
