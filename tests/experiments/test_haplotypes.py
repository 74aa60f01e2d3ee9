"""Simulated haplotypes: their laws, and the pooled R^2 against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import r2_score

from experiments.haplotypes import simulate


def test_cohort_is_as_the_paper_describes():
    cohort = simulate(400, 7, 3, np.random.default_rng(2))
    np.testing.assert_allclose(cohort.haplotypes.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(cohort.phenotypes.mean(axis=0), 0, atol=1e-12)
    for column in cohort.haplotypes.T:
        assert np.ptp(column) == pytest.approx(1)
        assert len(np.unique(column)) == 2
    np.testing.assert_allclose(cohort.cross, cohort.haplotypes.T @ cohort.phenotypes)


def test_pooled_r_squared_is_that_of_scikit_learn():
    rng = np.random.default_rng(4)
    cohort = simulate(300, 5, 4, rng)
    weights = rng.standard_normal((5, 4))
    expected = r2_score(cohort.phenotypes.ravel(), (cohort.haplotypes @ weights).ravel())
    assert cohort.pooled_r_squared(weights) == pytest.approx(expected, rel=1e-9)
