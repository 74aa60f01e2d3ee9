"""Noise scales, clips and bounds of the product's methods on simulated cohorts."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, norm

from experiments.gaussian_noise import draw
from experiments.product_methods import release
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.privacy.mechanism import Promise


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
    # What the counts of observed phenotypes leave of mu^2.
    rest = 1.0 if unit is PrivacyUnit.FEATURE else 0.99
    mu = math.sqrt(np.max(shift) / rest)
    delta = norm.cdf(mu / 2 - 2 / mu) - math.exp(2) * norm.cdf(-mu / 2 - 2 / mu)
    assert delta == pytest.approx(1e-6, rel=1e-3)
