"""Ridge from sufficient statistics against scikit-learn and least squares."""

from __future__ import annotations

import numpy as np
import pytest
from methods_examples import inputs_for, integer_cohort, ridge_weights, solved, statistics_of
from sklearn.linear_model import Ridge as SklearnRidge

from primo_scale.methods.adjustment import missing_rescale


def ridge(X, fixed, Y, penalty, *, boundaries=None):
    return ridge_weights(statistics_of(X, fixed, Y, boundaries), len(X), penalty)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 30.0, 4000.0])
def test_one_block_with_a_constant_is_scikit_learns_ridge(alpha):
    X, _, Y = integer_cohort(200, 40, 0, 7, seed=1)
    constant = np.full((200, 1), 50)
    ours = ridge(X, constant, Y, alpha)
    theirs = SklearnRidge(alpha=alpha, fit_intercept=True).fit(X, Y)
    np.testing.assert_allclose(ours.genotypes, theirs.coef_.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(50 * ours.fixed[0], theirs.intercept_, rtol=1e-9)


def test_covariates_are_not_penalised():
    X, C, Y = integer_cohort(300, 25, 3, 4, seed=2)
    fixed = np.hstack([np.full((300, 1), 50), C])
    ours = ridge(X, fixed, Y, 77.0)
    # The same minimiser as one least-squares problem with the penalty as extra rows.
    design = np.vstack(
        [np.hstack([X, fixed]), np.hstack([77.0**0.5 * np.eye(25), np.zeros((25, 4))])]
    )
    expected = np.linalg.lstsq(design, np.vstack([Y, np.zeros((25, 4))]), rcond=None)[0]
    np.testing.assert_allclose(np.vstack([ours.genotypes, ours.fixed]), expected, rtol=1e-7)


def test_blocks_are_solved_on_their_own():
    X, _, Y = integer_cohort(200, 30, 0, 2, seed=5)
    ours = ridge(X, np.full((200, 1), 9), Y, 11.0, boundaries=(0, 10, 30))
    for part in (slice(0, 10), slice(10, 30)):
        theirs = SklearnRidge(alpha=11.0).fit(X[:, part], Y)
        np.testing.assert_allclose(ours.genotypes[part], theirs.coef_.T, rtol=1e-9)


def test_missing_values_are_corrected_for():
    """Half of each phenotype missing at random: the same weights, up to sampling."""
    X, _, Y = integer_cohort(40000, 6, 0, 2, seed=7)
    constant = np.full((40000, 1), 50)
    Y = Y - np.rint(Y.mean(axis=0)).astype(np.int64)
    observed = np.random.default_rng(8).random(Y.shape) < 0.5
    statistics = statistics_of(X, constant, Y * observed)
    rescale = missing_rescale(observed.sum(axis=0).astype(float), 40000)
    inputs = inputs_for(statistics, 40000, penalty=0.0, rescale=rescale)
    ours = solved(statistics, inputs, estimator="ridge").weights.genotypes
    full = ridge(X, constant, Y, 0.0).genotypes
    # Standard errors are sd(y) / sqrt(n var(x)) = 300 sqrt(1.5) / 163 = 2.2 here; five of them.
    np.testing.assert_allclose(ours, full, atol=12)
    assert np.abs(full).max() > 30


def test_missing_rescale_is_bounded():
    np.testing.assert_allclose(
        missing_rescale(np.array([100.0, 50.0, 3.0, -20.0, 130.0]), 100), [1, 2, 10, 10, 1]
    )
