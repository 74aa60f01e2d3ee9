"""Adjustment of phenotypes: its noise, one charge for two draws, and the posterior mean."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from support.crash import ADJUSTMENT_STEPS, KILLED, killed_at
from support.noise_checks import has_scale
from support.tiny_release import (
    MECHANISM,
    charges_of,
    key_left,
    noise_store,
    open_budget,
    pay,
    pay_adjustment,
)

from primo_scale.accumulation.clipping_rules import ClippingRule
from primo_scale.errors import InputError
from primo_scale.gaussian.calibration import release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.kernels.products import scale_entries
from primo_scale.outcomes.coding import CovariateBounds, PhenotypeBounds, code_outcomes
from primo_scale.outcomes.store import AdjustmentScale, RawAdjustment
from primo_scale.privacy.mechanism import (
    Promise,
    PublicBounds,
    Recipe,
    calibrate,
    counts_share,
    release_cost,
)
from primo_scale.privacy.payment import (
    NoisyAdjustment,
    adjusted,
    adjustment_sigma,
    covariance_of_covariates,
)
from primo_scale.privacy.shares import SHARES

OTHER = RawAdjustment(np.ones((5, 3, 3), dtype=np.int64))


@pytest.mark.parametrize("adjacency", Adjacency)
def test_noise_is_that_of_a_fiftieth_of_the_release(adjacency):
    factor = math.sqrt(2) if adjacency is Adjacency.REPLACE_ONE else 1
    mu = release_mu(1.0, 1e-6) * math.sqrt(0.02)
    found = adjustment_sigma(1234, adjacency, release_cost(Promise(1.0, 1e-6), None))
    assert found == pytest.approx(factor * 1234 / mu, rel=1e-12)
    assert SHARES.adjustment == 0.02
    beside_subsample = adjustment_sigma(1234, adjacency, release_cost(Promise(1.0, 1e-6), 9))
    mu = release_mu(0.5, 5e-7) * math.sqrt(0.02)
    assert beside_subsample == pytest.approx(factor * 1234 / mu, rel=1e-12)


def test_drawn_noise_has_the_stated_scale(tmp_path):
    raw = RawAdjustment(np.full((500, 3, 3), 12_345, dtype=np.int64))
    bought, _ = pay_adjustment(tmp_path, exact=raw)
    noise = np.array(bought.grams) - 12_345
    diagonal = noise[:, np.arange(3), np.arange(3)]
    beside = noise[:, *np.triu_indices(3, 1)]
    np.testing.assert_array_equal(noise, noise.swapaxes(1, 2))
    for found, sigma in ((diagonal, bought.sigma), (beside, bought.sigma / math.sqrt(2))):
        assert has_scale(found, sigma) and not has_scale(found, 1.15 * sigma)


def test_one_charge_pays_for_both_draws(tmp_path, raw):
    adjustment, first = pay_adjustment(tmp_path)
    assert key_left(tmp_path)[0] == first.charge.id, "its key draws the statistics"
    matrices, receipt = pay(tmp_path, raw)
    assert noise_store(tmp_path).read_adjustment() == adjustment
    (charge,) = charges_of(tmp_path)
    assert charge.id == first.charge.id == receipt.charge.id
    assert charge.cost.mu_squared == pytest.approx(release_mu(1.0, 1e-6) ** 2)
    assert key_left(tmp_path) is None
    again, receipt = pay(tmp_path, raw)
    assert again.sha256() == matrices.sha256() and not receipt.is_new
    assert len(charges_of(tmp_path)) == 1


def test_the_two_draws_have_noise_of_their_own(tmp_path, raw):
    """The same key draws them, under other labels."""
    zeros = RawAdjustment(np.zeros((2, 2, 2), dtype=np.int64))
    matrices, _ = pay(tmp_path, raw, exact=zeros)
    adjustment = noise_store(tmp_path).read_adjustment()
    of_first = np.array(adjustment.grams).ravel() / adjustment.sigma
    exact = raw.matrices.outcome_gram()
    of_second = (matrices.outcome_gram() - exact).ravel() / MECHANISM.scales.phenotype_gram
    gaps = np.abs(of_first[:, None] - of_second)
    assert gaps[np.abs(of_first) > 1e-9].min() > 1e-7


@pytest.mark.parametrize(
    ("other", "changes"),
    [
        ("statistics", {"sha256": "1" * 64}),
        ("mechanism", {"split": 1.4}),
        ("mechanism", {"scales": replace(MECHANISM.scales, observed=9.0)}),
        ("mechanism", {"recipe": Recipe(gram_copies=2)}),
        ("mechanism", {"bounds": replace(MECHANISM.bounds, row_norm=10_001)}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_key_serves_no_second_statistics(tmp_path, raw, other, changes):
    """The difference of two sums with one noise would show them exactly."""
    pay_adjustment(tmp_path)
    assert killed_at("draw started", pay, tmp_path, raw) == KILLED
    asked = {"statistics": raw, "mechanism": MECHANISM}
    asked[other] = replace(asked[other], **changes)
    with pytest.raises(InputError, match="for other statistics or another method"):
        pay(tmp_path, *asked.values())
    assert not noise_store(tmp_path).path_of(charges_of(tmp_path)[0].id, "zarr").exists()
    pay(tmp_path, raw)
    with pytest.raises(InputError, match="for other statistics or another method"):
        pay(tmp_path, *asked.values())
    assert len(charges_of(tmp_path)) == 1


@pytest.mark.parametrize("drawn", [False, True])
def test_a_copied_work_directory_draws_the_same_statistics_alone(tmp_path, raw, drawn):
    """The key is in the copy, and the ledger knows what it serves, drawn or not."""
    pay_adjustment(tmp_path)
    work = noise_store(tmp_path).directory.parent
    shutil.copytree(work, tmp_path / "copy")
    if drawn:
        pay(tmp_path, raw)
    else:
        assert killed_at("draw started", pay, tmp_path, raw) == KILLED
    shutil.rmtree(work)
    (tmp_path / "copy").rename(work)
    with pytest.raises(InputError, match="for other statistics or another method"):
        pay(tmp_path, replace(raw, sha256="1" * 64))
    assert list(noise_store(tmp_path).directory.glob("*.zarr")) == []
    pay(tmp_path, raw)
    assert len(charges_of(tmp_path)) == 1


def test_moments_that_version_0_4_bought_are_not_paid_again(tmp_path, raw):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "phenotype_moments.json").write_text("{}")
    with pytest.raises(InputError, match="which alone can finish its release"):
        pay(tmp_path, raw)
    assert charges_of(tmp_path) == []


@pytest.mark.parametrize("other", [{"epsilon": 0.5}, {"exact": OTHER}, {"norm": 99}])
def test_an_adjustment_of_another_request_is_refused_and_remains(tmp_path, other):
    open_budget(tmp_path, 9.0)
    first, _ = pay_adjustment(tmp_path)
    with pytest.raises(InputError, match="json: is not the result of this request"):
        pay_adjustment(tmp_path, **other)
    assert pay_adjustment(tmp_path)[0] == first
    assert len(charges_of(tmp_path)) == 1


@pytest.mark.parametrize("other", [{"exact": OTHER}, {"norm": 99}])
def test_a_key_that_a_crash_left_draws_for_no_other_request(tmp_path, other):
    """The same noise at two scales, or on two cohorts, would have an exact difference."""
    open_budget(tmp_path, 9.0)
    assert killed_at("draw started", pay_adjustment, tmp_path) == KILLED
    (first,) = charges_of(tmp_path)
    _, receipt = pay_adjustment(tmp_path, **other)
    assert receipt.is_new and receipt.charge.id != first.id


@pytest.mark.parametrize("label", ADJUSTMENT_STEPS)
def test_a_crash_is_continued_with_the_same_noise_and_one_charge(tmp_path, label):
    open_budget(tmp_path, 9.0)
    assert killed_at(label, pay_adjustment, tmp_path) == KILLED
    stored, left = noise_store(tmp_path).read_adjustment(), key_left(tmp_path)
    done, _ = pay_adjustment(tmp_path)
    if ADJUSTMENT_STEPS.index(label) >= ADJUSTMENT_STEPS.index("reservation committed"):
        assert stored in (None, done)
        assert key_left(tmp_path) == (done.charge, left[1]), "the same key draws the same noise"
    else:
        assert done.charge != left[0], "an unpaid key is not used"
    assert pay_adjustment(tmp_path)[0] == done
    (charge,) = charges_of(tmp_path)
    assert charge.id == done.charge


def test_the_key_of_a_paid_adjustment_is_not_replaced(tmp_path, raw):
    """Without it the statistics cannot be drawn, and nothing else is paid in silence."""
    adjustment, _ = pay_adjustment(tmp_path)
    (noise_store(tmp_path).directory / f"{adjustment.charge}.key").unlink()
    with pytest.raises(InputError, match="is lost, and its key too"):
        pay(tmp_path, raw)
    assert len(charges_of(tmp_path)) == 1


@pytest.mark.parametrize("unit", [PrivacyUnit.FULL, PrivacyUnit.FEATURE])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_no_neighbour_with_other_covariates_moves_the_sums_further_than_mu(unit, adjacency):
    """Through the residuals, whose squares are not public, the product's clip and noise."""
    random, before = np.random.default_rng(6), coding()
    after = replace(before, effects=((0, 90_000, -60_000),))
    bounds = PublicBounds(3000, None, 3 * 2**22, (3,), 1000, 1)
    promise = Promise(1.0, 1e-6, unit, adjacency, share=1 - SHARES.adjustment)
    found = calibrate(bounds, promise, Recipe(), split=1.3)
    rule = ClippingRule("record", bounds.row_norm, None, bounds.phenotype_norm)
    x = random.integers(-40, 41, (400, 3))
    x[200:] = -x[:200] * random.choice([0, 1], (200, 1))
    rows = np.full((400, 4), before.constant, dtype=np.int16)
    rows[:, 1:3] *= random.choice([-1, 1], (400, 2)).astype(np.int16)
    rows[:, 3] = 700
    z = after.residuals(rows, before)[:, 3:]
    norms = (x**2).sum(axis=1)[:, None]
    multipliers, record = rule.shrink(norms)
    x = scale_entries(x.astype(np.int8), multipliers).astype(float)
    y = rule.clip_outcomes(z, 0, record, norms).astype(float)
    scales = found.scales
    gram = np.einsum("ij,ik->ijk", x, x) * np.where(np.eye(3), 1, math.sqrt(2))
    parts = gram.reshape(400, 9)[:, [0, 1, 2, 4, 5, 8]] / scales.gram[0]
    moved = np.hstack([parts, x * y / scales.phenotype_cross, y**2 / scales.phenotype_gram])
    assert np.ptp(y**2) > 0.3 * bounds.phenotype_norm
    nobody = np.zeros((1, moved.shape[1]))
    others = moved if adjacency is Adjacency.REPLACE_ONE else nobody
    worst = max(((moved - other) ** 2).sum(axis=1).max() for other in others)
    allowed = found.cost.mu_squared * (1 - counts_share(promise))
    assert 0.2 * allowed < worst <= allowed


COVARIATES = (CovariateBounds("age", 40, 70, 55), CovariateBounds("sex", 0, 1, 0.5))


def coding(mean=0.0, sd=1.0, kind="quantitative"):
    lower, upper = (0.0, 1.0) if kind == "binary" else (-10.0, 10.0)
    phenotypes = (PhenotypeBounds("Y", lower, upper, mean, sd, kind),)
    return code_outcomes(phenotypes, COVARIATES)


def people(n, random):
    age, sex = random.uniform(40, 70, n), random.integers(0, 2, n)
    return np.column_stack([age, sex]).astype(float)


def regression_of(before, values, covariates, sigma, random):
    scale = AdjustmentScale.of(before)
    codes = before.code_phenotypes(values[:, None])
    codes[codes == 0] = 1
    constant = np.full((len(values), 1), before.constant, dtype=np.int16)
    rows = np.hstack([constant, before.code_covariates(covariates), codes])
    c, y = scale.rows(rows)
    v = np.hstack([c, y])
    gram = v.T @ v
    noise = random.normal(0, sigma * scale.norm, gram.shape)
    gram = gram + np.rint((noise + noise.T) / 2).astype(int)
    noisy = NoisyAdjustment((tuple(map(tuple, gram.tolist())),), sigma * scale.norm, "")
    return adjusted(before, scale, noisy), rows, covariance_of_covariates(before, scale, noisy)


@pytest.mark.parametrize(("mean", "sd"), [(0, 1), (0.5, 1), (0, 2), (0, 0.5), (0, 5)])
def test_effects_are_those_of_least_squares_whatever_the_public_moments(mean, sd):
    """The public mean is off by an sd, and the public sd wrong by 2, or half of the bounds."""
    random = np.random.default_rng(1)
    covariates = people(20_000, random)
    values = 0.8 + 0.05 * (covariates[:, 0] - 55) + 0.9 * covariates[:, 1]
    values += 0.8 * random.normal(size=len(values))
    after, rows, covariance = regression_of(coding(mean, sd), values, covariates, 10.0, random)
    design = np.column_stack([np.ones(len(values)), covariates - [55, 0.5]])
    truth = np.linalg.lstsq(design, values)[0]
    np.testing.assert_allclose(after.covariate_weights[:, 0], truth[1:], rtol=0.12)
    assert after.means[0] == pytest.approx(truth[0], abs=0.16)
    assert after.phenotypes[0].sd == pytest.approx(0.8, rel=0.1)
    residuals = after.residuals(rows, coding(mean, sd))
    found = residuals[:, -1] / after.unit
    assert found.std() == pytest.approx(1, rel=0.1)
    assert np.abs(np.corrcoef(np.column_stack([found, covariates]).T)[0, 1:]).max() < 0.06
    assert abs(found.mean()) < 0.16
    spread = np.cov((rows[:, 1:3]).T)
    np.testing.assert_allclose(covariance, spread, rtol=0.1, atol=0.1 * np.diag(spread).max())


def test_a_binary_phenotype_keeps_its_public_sd_and_loses_its_offset():
    random = np.random.default_rng(3)
    covariates = people(20_000, random)
    values = (random.random(20_000) < 0.3).astype(float)  # where a prevalence of .1 is public
    before = coding(0.1, 0.3, "binary")
    after, rows, _ = regression_of(before, values, covariates, 10.0, random)
    assert after.phenotypes == before.phenotypes
    assert after.means[0] == pytest.approx(0.3, abs=0.05)
    residuals = after.residuals(rows, before)
    assert abs(residuals[:, -1].mean() / after.unit) < 0.16


@pytest.mark.parametrize("prevalence", [0.01, 0.1, 0.5])
def test_cases_count_as_much_as_controls(prevalence):
    """A case of a rare trait is many sds from the mean, and would be scaled down."""
    random = np.random.default_rng(5)
    covariates = people(50_000, random)
    values = (random.random(50_000) < prevalence).astype(float)
    sd = math.sqrt(prevalence * (1 - prevalence))
    before = coding(prevalence, sd, "binary")
    after, *_ = regression_of(before, values, covariates, 1.0, random)
    assert after.means[0] == pytest.approx(values.mean(), abs=0.02 * sd)


def test_residuals_are_exact_functions_of_one_row():
    random = np.random.default_rng(4)
    before = coding()
    after = replace(before, effects=((3000, -20_000, 45_000),))
    rows = random.integers(-before.constant, before.constant, (500, 4)).astype(np.int16)
    rows[:, 0], rows[::7, 3] = before.constant, 0
    found = after.residuals(rows, before)
    for row, result in zip(rows.tolist(), found.tolist(), strict=True):
        constant, age, sex, y = row
        expected = y * 2**15 - (3000 * constant - 20_000 * age + 45_000 * sex)
        exact = int(expected / 2**15)  # toward zero
        if y == 0:
            assert result[3] == 0, "missing counts as its prediction"
        else:
            assert result[3] == (exact or 1) or abs(result[3] - exact) <= 1
    again = after.residuals(rows[::-1], before)
    np.testing.assert_array_equal(again[::-1], found)
