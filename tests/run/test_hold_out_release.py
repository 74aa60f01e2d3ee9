"""Releases that measure their weights in people held out: numbers, one noise, and forgeries."""

import gzip
import json
import math
import shutil
from itertools import islice

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from support.command_io import PANEL, simulated, table_options
from support.crash import KILLED, killed_at
from support.documents import put, read_document
from support.readme_scores import own_scores
from support.small_cohort import Cohort, command, refused, succeeded, write_cohort
from support.tiers import thinned

from primo_scale.accumulation.statistics import KIND
from primo_scale.cli.commands import finalize, release, verify
from primo_scale.ledger.accounts import ChargeState
from primo_scale.ledger.ledger import PaymentStep
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.privacy.private_statistics import UNIT, code_of_people
from primo_scale.run.design import load_design
from primo_scale.storage.groups import attributes_of, open_group
from primo_scale.verify.held_out_accuracy import corrects_weights
from primo_scale.verify.release import document_findings

N, HELD = 4000, 1000
BUDGET = ("--epsilon", 20, "--delta", 1e-8)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Release of people made of the demo's panel, by the commands that a user types."""
    folder = tmp_path_factory.mktemp("demo")
    traits = {"phenotypes": 2, "prevalence": 0.3, "heritability": 0.5, "causal_fraction": 1.0}
    simulated(folder / "train", N, 3, variants=150, missing=0.01, **traits)
    model = ("--ref-freq", f"{PANEL}.afreq", "--ld-blocks", "window:50", "--hold-out", 0.25)
    succeeded(command(
        release, "--bfile", folder / "train", *table_options(folder / "train"), *model,
        *BUDGET, "--ledger", folder / "ledger", "--out", folder / "release",
    ))  # fmt: skip
    return folder


def test_the_measurement_is_that_of_the_published_weights(demo):
    """The scores are recomputed without the product's code, from the files of the release."""
    document = read_document(demo / "release")
    store = open_outcome_store(demo / "release.work" / "outcomes.zarr")
    apart = store.held_out(slice(0, N))
    assert document["hold_out"]["people"] == HELD == apart.sum()
    public = document["public_inputs"]
    scores = own_scores(demo / "release", demo / "train")[apart].to_numpy()
    tables = [
        pd.read_csv(demo / f"train.{kind}.tsv", sep="\t", index_col=[0, 1])[apart]
        for kind in ("pheno", "covar")
    ]
    weights = pd.read_csv(demo / "release" / "covariates.tsv", sep="\t", skiprows=1, index_col=0)
    intercept, slopes = weights.iloc[0].to_numpy(), weights.iloc[1:].to_numpy()
    mean = load_design(demo / "release.work" / "design.json").outcomes.means
    centre = np.array([c["centre"] for c in public["covariates"]])
    u = scores + intercept + centre @ slopes - mean
    r = tables[0].to_numpy() - mean - (tables[1].to_numpy() - centre) @ slopes
    sigma = {q["name"]: q["sigma"][0] for q in document["mechanism"]["queries"]}["held_out_gram"]
    for j, stated in enumerate(document["hold_out"]["phenotypes"]):
        q = np.clip((u[:, j] - stated["score_centre"]) / stated["score_bound"], -1, 1)
        s = np.clip(r[:, j] / stated["residual_bound"], -1, 1)
        kappa = code_of_people(1) / UNIT
        exact = [HELD * kappa**2, q @ q, s @ s, kappa * q.sum(), kappa * s.sum(), q @ s]
        noise = np.array(stated["sums"]) / UNIT**2 - exact
        # Six standard deviations, and values that are truncated to a lattice of 2^13 steps.
        limit = 6 * sigma / UNIT**2 * np.array([1, 1, 1, *[math.sqrt(0.5)] * 3]) + 0.5
        assert (np.abs(noise) < limit).all() and np.abs(noise).max() > 1e-3
        assert np.mean(np.abs(q) < 1) > 0.98
        assert 0 <= stated["r2_lower"] <= stated["r2"] <= stated["r2_upper"] < 0.75


def test_the_stated_area_is_that_of_the_people_held_out(demo):
    stated = read_document(demo / "release")["hold_out"]["phenotypes"][2]
    apart = open_outcome_store(demo / "release.work" / "outcomes.zarr").held_out(slice(0, N))
    scores = own_scores(demo / "release", demo / "train")[apart]["CASE"]
    case = pd.read_csv(demo / "train.pheno.tsv", sep="\t")["CASE"][apart] == 1
    area = roc_auc_score(case, scores)
    chance = 0.02  # the noise is new in every run, and one interval of 20 misses
    assert 0.6 < stated["auc_lower"] <= area + chance
    assert area <= stated["auc_upper"] + chance
    assert stated["liability_r2_lower"] > stated["r2_lower"]


@pytest.mark.slow
def test_calibrated_weights_are_the_same_times_the_slope(demo):
    """The same noise serves them, at no cost, and predictions at the noisy mean stay."""
    out = demo / "calibrated"
    words = ("--work-dir", demo / "release.work", "--ledger", demo / "ledger", "--out", out)
    succeeded(command(finalize, *words, *BUDGET, "--calibrate"))
    assert command(verify, out).exit_code == 0
    before, document = read_document(demo / "release"), read_document(out)
    assert document["ledger"]["charge"] == before["ledger"]["charge"]
    public, fixed = document["public_inputs"], []
    for directory in (demo / "release", out):
        path = directory / "covariates.tsv"
        fixed.append(pd.read_csv(path, sep="\t", skiprows=1, index_col=0).to_numpy())
    scores = [own_scores(demo / "release", demo / "train"), own_scores(out, demo / "train")]
    centre = np.array([1, *(c["centre"] for c in public["covariates"])])
    means = load_design(demo / "release.work" / "design.json").outcomes.means
    stated = document["hold_out"]["phenotypes"]
    assert [{**each, "calibration": 1.0} for each in stated] == before["hold_out"]["phenotypes"]
    assert any(each["calibration"] != 1 for each in stated)
    for j, each in enumerate(stated):
        corrects = corrects_weights(each["slope"], each["slope_lower"], each["slope_upper"])
        assert each["calibration"] == (each["slope"] if corrects else 1)
        old, new = (
            s.iloc[:, j] + centre @ f[:, j] - means[j] for s, f in zip(scores, fixed, strict=True)
        )
        # Both have weights of three digits.
        expected = each["calibration"] * old
        np.testing.assert_allclose(new, expected, rtol=0, atol=1e-2 * expected.std())
        assert abs(new.mean() - expected.mean()) < 1e-3 * expected.std()
    np.testing.assert_array_equal(*(f[1:] for f in fixed))
    with gzip.open(out / "weights.tsv.gz", "rt") as file:
        cells = [cell for line in islice(file, 1, None) for cell in line.split("\t")[6:]]
    assert all(float(cell) == float(f"{float(cell):.2e}") for cell in cells)
    for options in ([*words, "--out", demo / "release", "--calibrate"], words):
        result = command(finalize, *options, *BUDGET)
        refused(result, 3, "is not the result of this request")
        assert "Budget was spent" not in result.stderr  # nothing was solved


@pytest.mark.parametrize("name", ["held_out_gram", "held_out_counts"])
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_a_false_noise_scale_is_found(demo, name, factor):
    document = read_document(demo / "release")
    (query,) = [q for q in document["mechanism"]["queries"] if q["name"] == name]
    query["sigma"] = [factor * sigma for sigma in query["sigma"]]
    if query["off_diagonal_sigma"]:
        query["off_diagonal_sigma"] = [factor * s for s in query["off_diagonal_sigma"]]
    assert "hold-out" in {f.check for f in document_findings(document) if not f.ok}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("hold_out.unit", 1 << 15),
        ("hold_out.constant", 0),
        ("hold_out.people", N),
        ("hold_out.phenotypes.0.r2", 0.9),
        ("hold_out.phenotypes.0.r2_upper", 1.0),
        ("hold_out.phenotypes.2.auc", 0.9),
        ("hold_out.phenotypes.2.liability_r2_lower", 0.3),
        ("hold_out.phenotypes.1.slope", 1.0),
        ("hold_out.phenotypes.0.score_bound", 1.0),
        ("hold_out.phenotypes.1.score_centre", 0.1),
        ("hold_out.phenotypes.0.calibration", 1.5),
        ("hold_out.phenotypes.0.name", "QT9"),
        ("hold_out.phenotypes.2.counts", [HELD]),
        ("hold_out", None),
        ("guarantee.adjacency", "add-remove"),
    ],
)
def test_a_false_measurement_is_found(demo, path, value):
    document = read_document(demo / "release")
    assert all(finding.ok for finding in document_findings(document))
    assert not all(finding.ok for finding in document_findings(put(document, path, value)))


@pytest.mark.parametrize("everybody", [HELD, HELD - 1])
def test_a_release_in_which_all_people_are_held_out_is_found(demo, everybody):
    """The people held out are among those of the cohort, and not beside them."""
    document = put(read_document(demo / "release"), "cohort.n_samples", everybody)
    (found,) = [each for each in document_findings(document) if each.check == "hold-out"]
    assert "nobody is left for the statistics" in found.detail


@pytest.fixture
def tiny(tmp_path):
    return Cohort(write_cohort(tmp_path / "tiny", n_people=400))


def tiny_release(cohort, *options):
    return cohort.release("--hold-out", 0.1, *options)


def noisy_sums(cohort):
    (path,) = (cohort.folder / "release.work" / "private_statistics").glob("*.hold_out.json")
    return path


@pytest.mark.parametrize(
    "step",
    thinned(
        [
            PaymentStep.HOLD_OUT_STORED,
            PaymentStep.STATISTICS_STORED,
            PaymentStep.DRAW_RECORD_WRITTEN,
            PaymentStep.KEY_REMOVED,
            PaymentStep.RELEASE_PUBLISHED,
        ],
        every=5,
    ),
)
def test_a_killed_measurement_is_continued_with_the_same_noise(tiny, step):
    assert killed_at(step, tiny_release, tiny) == KILLED
    before = None
    if step is not PaymentStep.STATISTICS_STORED:
        before = noisy_sums(tiny).read_bytes()
    if step is PaymentStep.HOLD_OUT_STORED:
        noisy_sums(tiny).unlink()  # as if it were not durable: the key draws the same noise
    assert tiny_release(tiny).exit_code == 0
    assert before in (None, noisy_sums(tiny).read_bytes())
    (charge,) = tiny.charges()
    assert charge.state is ChargeState.PUBLISHED
    assert not list(noisy_sums(tiny).parent.glob("*.key"))
    assert command(verify, tiny.out, "--ledger", tiny.ledger).exit_code == 0


@pytest.mark.slow
def test_lost_sums_are_never_drawn_again(tiny):
    assert tiny_release(tiny).exit_code == 0
    path = noisy_sums(tiny)
    kept = path.read_bytes()
    path.unlink()
    refused(tiny_release(tiny), 3, str(path), "is lost, and its key too", "pays again")
    changed = json.loads(kept)
    changed["noisy"]["sums"][0][0] += 1
    path.write_text(json.dumps(changed))
    refused(tiny_release(tiny), 3, "not those that the ledger recorded")
    path.write_bytes(kept)
    assert tiny_release(tiny).exit_code == 0
    shutil.rmtree(path.with_name(path.name.replace("hold_out.json", "zarr")))
    path.unlink()
    shutil.rmtree(tiny.out)
    refused(tiny_release(tiny), 3, "is lost, and its key too", "pays again")
    assert len(tiny.charges()) == 1


def test_other_weights_of_a_charge_are_not_measured(tiny):
    assert tiny_release(tiny).exit_code == 0
    shutil.rmtree(tiny.out)
    refused(tiny_release(tiny, "--ridge", 10), 3, "for other statistics or another method")
    stored = json.loads(noisy_sums(tiny).read_text())
    stored["weight_norms"] = [1.5 * norm for norm in stored["weight_norms"]]
    noisy_sums(tiny).write_text(json.dumps(stored))
    refused(tiny_release(tiny), 3, "got other weights")


def test_a_public_score_of_other_phenotypes_is_another_measurement(tmp_path):
    cohort = Cohort(write_cohort(tmp_path / "tiny", n_people=400, names=("T", "U")))
    names = (cohort.folder / "pheno.tsv").read_text().splitlines()[0].split()[2:]
    score = cohort.folder / "score.txt"
    rows = [line.split() for line in (cohort.folder / "cohort.bim").read_text().splitlines()]
    table = [("rsID", "effect_allele", "other_allele", "effect_weight")]
    table += [(row[1], row[4], row[5], "0.1") for row in rows]
    score.write_text("".join("\t".join(row) + "\n" for row in table))
    first, second = (("--prior-weights", f"{name}={score}") for name in names)
    assert tiny_release(cohort, *first).exit_code == 0
    for name in ("README.txt", "report.html"):  # people held out may be in them
        assert "too high if people of the cohort took part" in (cohort.out / name).read_text()
    shutil.rmtree(cohort.out)
    refused(tiny_release(cohort, *second), 3, "for other statistics or another method")
    assert tiny_release(cohort, *first).exit_code == 0


def test_lost_people_held_out_are_refused_before_payment_and_not_missed_after_it(tmp_path):
    cohort = Cohort(write_cohort(tmp_path / "tiny", n_people=400))
    cohort.ingest()
    succeeded(cohort.accumulate("--hold-out", 0.1, *BUDGET))
    phenotypes = cohort.folder / "pheno.tsv"
    text = phenotypes.read_text()
    # Some of these people are not held out.
    missing = [line.rsplit("\t", 1)[0] + "\tNA" for line in text.splitlines()[1:31]]
    phenotypes.write_text("\n".join([text.splitlines()[0], *missing, *text.splitlines()[31:], ""]))
    refused(
        cohort.accumulate("--hold-out", 0.1, *BUDGET),
        3,
        "adjustment.json: is not the result of this request",
    )
    phenotypes.write_text(text)
    kept = cohort.work.with_name("kept.zarr")
    shutil.move(cohort.work / "outcomes.zarr", kept)
    refused(cohort.finalize(budget=BUDGET), 3, "outcomes.zarr")
    assert [charge.state for charge in cohort.charges()] == [ChargeState.RESERVED]
    shutil.move(kept, cohort.work / "outcomes.zarr")
    succeeded(cohort.finalize(budget=BUDGET))
    shutil.rmtree(cohort.work / "outcomes.zarr")
    succeeded(cohort.finalize(budget=BUDGET))
    assert len(cohort.charges()) == 1


@pytest.mark.parametrize("changed", ["phenotype", "genotype"])
def test_other_values_of_people_held_out_are_another_request(tiny, changed):
    """The exact sums are the same, but the measurement would show the change without noise."""
    assert tiny_release(tiny).exit_code == 0
    sums = tiny.folder / "release.work" / "statistics.zarr"
    before = attributes_of(open_group(sums, KIND))["sha256"]
    held = open_outcome_store(sums.with_name("outcomes.zarr")).held_out(slice(0, 400))
    person = int(np.flatnonzero(held)[0])
    if changed == "phenotype":
        path = tiny.folder / "pheno.tsv"
        lines = path.read_text().splitlines()
        lines[1 + person] = lines[1 + person].rsplit("\t", 1)[0] + "\tNA"
        path.write_text("\n".join(lines) + "\n")
    else:
        content = bytearray((tiny.folder / "cohort.bed").read_bytes())
        content[3 + person // 4] ^= 3 << 2 * (person % 4)
        (tiny.folder / "cohort.bed").write_bytes(content)
    for name in ("statistics.zarr", "genotypes.zarr"):
        shutil.rmtree(sums.with_name(name), ignore_errors=True)
    shutil.rmtree(tiny.out)
    refused(tiny_release(tiny), 3, "for other statistics or another method")
    assert attributes_of(open_group(sums, KIND))["sha256"] == before
    assert len(tiny.charges()) == 1
