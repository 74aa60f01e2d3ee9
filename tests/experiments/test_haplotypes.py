"""Simulated haplotypes: their laws, and the pooled R^2 against scikit-learn."""

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.metrics import r2_score

from experiments.haplotypes import SMALLEST_MINOR_FREQUENCY, simulate


def test_allele_frequencies_are_neutral():
    """Carriers of 3,000 variants in five equally likely classes; chi-square at 1e-6.

    A flat spectrum, or one of k^-1.2, is rejected.
    """
    n = 500
    carriers = np.arange(1, n)
    kept = np.minimum(carriers, n - carriers) >= SMALLEST_MINOR_FREQUENCY * n
    chance = np.where(kept, 1 / carriers, 0) / (1 / carriers[kept]).sum()
    cohort = simulate(n, 3000, 1, np.random.default_rng(1))
    high = cohort.haplotypes.max(axis=0)  # a carrier's value is one minus the frequency
    counts = np.rint(n * (1 - high)).astype(int)
    assert counts.min() >= 5 and counts.max() <= 495

    def p_value(weights):
        classes = np.searchsorted(np.cumsum(chance), [0.2, 0.4, 0.6, 0.8])
        observed = np.bincount(np.searchsorted(carriers[classes], counts), minlength=5)
        edges = np.concatenate([[0], classes + 1, [n - 1]])
        expected = np.add.reduceat(weights, edges[:-1]) / weights.sum()
        return chisquare(observed, 3000 * expected).pvalue

    assert p_value(chance) > 1e-6
    assert p_value(np.where(kept, 1.0, 0)) < 1e-6
    assert p_value(np.where(kept, carriers**-1.2, 0)) < 1e-6


def test_cohort_is_as_the_paper_describes():
    cohort = simulate(400, 7, 3, np.random.default_rng(2))
    np.testing.assert_allclose(cohort.haplotypes.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(cohort.phenotypes.mean(axis=0), 0, atol=1e-12)
    for column in cohort.haplotypes.T:
        assert np.ptp(column) == pytest.approx(1)
        assert len(np.unique(column)) == 2
    np.testing.assert_allclose(cohort.cross, cohort.haplotypes.T @ cohort.phenotypes)


def test_effects_and_residuals_have_the_stated_variances():
    """``I_d / sqrt(d)`` and 1, from least squares on many phenotypes; within 5%, sd below 1%."""
    cohort = simulate(2000, 16, 2000, np.random.default_rng(3))
    weights = np.linalg.solve(cohort.gram, cohort.cross)
    residual = cohort.phenotypes - cohort.haplotypes @ weights
    assert residual.var() * 2000 / 1983 == pytest.approx(1, rel=0.02)
    sampling = np.diag(np.linalg.inv(cohort.gram)).mean()
    assert (weights**2).mean() - sampling == pytest.approx(16**-0.5, rel=0.05)


def test_pooled_r_squared_is_that_of_scikit_learn():
    rng = np.random.default_rng(4)
    cohort = simulate(300, 5, 4, rng)
    weights = rng.standard_normal((5, 4))
    expected = r2_score(cohort.phenotypes.ravel(), (cohort.haplotypes @ weights).ravel())
    assert cohort.pooled_r_squared(weights) == pytest.approx(expected, rel=1e-9)
