"""The accuracy rows of docs/reference_figures.md, which twice the noise would not reproduce."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2, norm

from experiments import accuracy
from experiments.accuracy_rows import ROWS
from experiments.gaussian_noise import draw
from experiments.haplotypes import Sizes, simulate
from experiments.product_methods import planned_phenotype_bound, release
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.privacy.mechanism import Promise

OURS = [key for key, row in ROWS.items() if row.ours]
# Standard deviation of one repetition's loss against least squares, measured over 40 repetitions:
# by l, in the order of OURS.
LOSS_SD = {11: (0.0015, 0.0016, 0.0014, 0.0020), 101: (0.0027, 0.0029, 0.0029, 0.0057)}
# Normal false alarm of one comparison 2e-9, of all eight 2e-8.
TOLERANCE = 6.0


def deviations(n_phenotypes, repetitions, noise_factor):
    """Loss against the specification, in standard errors of the difference of both."""
    keys = tuple(OURS)
    measured = accuracy.measure(n_phenotypes, repetitions, keys=keys, noise_factor=noise_factor)
    spread = math.sqrt(1 / repetitions + 1 / accuracy.STATED_REPETITIONS)
    return np.array(
        [
            (measured.loss(key).mean() - accuracy.stated_loss(key, n_phenotypes)) / (sd * spread)
            for key, sd in zip(OURS, LOSS_SD[n_phenotypes], strict=True)
        ]
    )


def test_the_rows_that_have_to_land():
    assert OURS == ["full", "full, even", "label", "feature"]


@pytest.mark.parametrize(("n_phenotypes", "repetitions"), [(11, 6), (101, 2)])
def test_our_rows_land_and_twice_the_noise_falls_outside(n_phenotypes, repetitions):
    """Every single row distinguishes a wrong scale from the right one."""
    assert np.abs(deviations(n_phenotypes, repetitions, 1.0)).max() < TOLERANCE
    assert deviations(n_phenotypes, repetitions, 2.0).min() > TOLERANCE


def test_losses_of_the_papers_rows_are_as_stated():
    """Their losses span three orders of magnitude; ours are within a third of the specification."""
    papers = ("algorithm 1", "projection x", "projection x, small", "projection y", "naive")
    measured = accuracy.measure(101, 4, keys=papers)
    for key in papers:
        stated = accuracy.stated_loss(key, 101)
        assert measured.loss(key).mean() == pytest.approx(stated, rel=1 / 3), key


def test_repetitions_do_not_depend_on_their_number():
    few, more = (accuracy.measure(1, repetitions, keys=("full",)) for repetitions in (2, 3))
    np.testing.assert_array_equal(few.r_squared["full"], more.r_squared["full"][:2])


def silent_draws():
    draws = draw(6, 5, np.random.default_rng(0))
    return type(draws)(0 * draws.upper, 0 * draws.svec, 0 * draws.cross)


@pytest.mark.parametrize("unit", list(PrivacyUnit))
def test_noise_scales_spend_the_promise(cohort, unit):
    """The worst pair of rows at the bounds, by search, against the exact profile in scipy."""
    noisy = release(cohort, silent_draws(), Promise(2.0, 1e-6, unit))
    row = np.quantile(np.linalg.norm(cohort.haplotypes, axis=1), 0.99)
    standardised = cohort.phenotypes / cohort.phenotype_sd
    outcome = math.sqrt(chi2.ppf(0.99, 5))
    if unit is PrivacyUnit.FEATURE:
        outcome = np.linalg.norm(standardised, axis=1).max()
    cosine = 1.0 if unit is PrivacyUnit.LABEL else np.linspace(0, 1, 100_001)
    shift = (2 + 2 * cosine) * (row * outcome / noisy.cross_sigma) ** 2
    if unit is not PrivacyUnit.LABEL:
        shift = shift + (2 - 2 * cosine**2) * (row**2 / noisy.gram_sigma) ** 2
    # What the counts of observed phenotypes, and with label privacy C'Y, leave of mu^2.
    rest = {PrivacyUnit.FULL: 0.99, PrivacyUnit.LABEL: 0.99 * 0.95, PrivacyUnit.FEATURE: 1.0}
    mu = math.sqrt(np.max(shift) / rest[unit])
    delta = norm.cdf(mu / 2 - 2 / mu) - math.exp(2) * norm.cdf(-mu / 2 - 2 / mu)
    assert delta == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize("unit", list(PrivacyUnit))
def test_rows_are_clipped_as_the_unit_asks(cohort, unit):
    noisy = release(cohort, silent_draws(), Promise(2.0, 1e-6, unit))
    public = noisy.gram_sigma == 0
    assert public == (unit is PrivacyUnit.LABEL)
    if public:
        np.testing.assert_allclose(noisy.gram, cohort.gram)
    else:
        assert np.trace(noisy.gram) < np.trace(cohort.gram)
    assert (noisy.attenuation == 1) == (unit is PrivacyUnit.FEATURE)


def test_planned_clip_is_tighter_where_noise_dominates():
    crowded = simulate(Sizes(600, 6, 60), np.random.default_rng(9))
    promise = Promise(0.5, 1e-6)
    assert planned_phenotype_bound(crowded, promise) < math.sqrt(60)


def test_report_has_every_row(monkeypatch):
    monkeypatch.setattr(accuracy, "N_PHENOTYPES", (1,))
    text = accuracy.report(2)
    for row in ROWS.values():
        assert row.name in text
