"""Ridge from sufficient statistics against scikit-learn, least squares and reference vectors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge

from primo_scale.methods.linear_model import NoiseScales, missing_rescale, solve
from primo_scale.methods.shrinkage import Ridge
from primo_scale.storage.block_matrices import BlockLayout, BlockMatrices, BlockMatricesWriter

NO_NOISE = NoiseScales(gram=0.0, cross=0.0, outcome_gram=0.0)


def integer_cohort(n, d, n_covariates, n_phenotypes, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, (n, d))
    covariates = rng.integers(-400, 400, (n, n_covariates))
    effects = rng.normal(0, 30, (d, n_phenotypes))
    Y = (X @ effects + rng.normal(100, 300, (n, n_phenotypes))).astype(np.int64)
    Y += covariates.sum(axis=1, keepdims=True)
    return X, covariates, Y


def stored(path, X, fixed, Y, boundaries):
    layout = BlockLayout(boundaries, fixed.shape[1], Y.shape[1])
    Z = np.hstack([fixed, Y])
    writer = BlockMatricesWriter(path, "statistics", layout)
    for block in range(layout.n_blocks):
        part = X[:, layout.variants(block)]
        writer.write_gram(block, part.T @ part)
        writer.write_cross(block, part.T @ Z)
    writer.write_outcome_gram(Z.T @ Z)
    writer.write_observed(np.full(Y.shape[1], len(X)))
    return writer.finish({})


def ridge(statistics: BlockMatrices, penalty: float):
    ones = np.ones(statistics.layout.n_phenotypes)
    return solve(statistics, NO_NOISE, ones, Ridge(penalty))


@pytest.mark.parametrize("alpha", [0.5, 30.0, 4000.0])
def test_one_block_with_a_constant_is_scikit_learns_ridge(tmp_path, alpha):
    X, _, Y = integer_cohort(200, 40, 0, 7, seed=1)
    constant = np.full((200, 1), 50)
    ours = ridge(stored(tmp_path / "s", X, constant, Y, (0, 40)), alpha)
    theirs = SklearnRidge(alpha=alpha, fit_intercept=True).fit(X, Y)
    np.testing.assert_allclose(ours.genotypes, theirs.coef_.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(50 * ours.fixed[0], theirs.intercept_, rtol=1e-9)


def test_covariates_are_not_penalised(tmp_path):
    X, C, Y = integer_cohort(300, 25, 3, 4, seed=2)
    fixed = np.hstack([np.full((300, 1), 50), C])
    ours = ridge(stored(tmp_path / "s", X, fixed, Y, (0, 25)), 77.0)
    # The same minimiser as one least-squares problem with the penalty as extra rows.
    design = np.vstack(
        [np.hstack([X, fixed]), np.hstack([77.0**0.5 * np.eye(25), np.zeros((25, 4))])]
    )
    expected = np.linalg.lstsq(design, np.vstack([Y, np.zeros((25, 4))]), rcond=None)[0]
    np.testing.assert_allclose(np.vstack([ours.genotypes, ours.fixed]), expected, rtol=1e-7)


def test_ridge_zero_is_ordinary_least_squares(tmp_path):
    X, _, Y = integer_cohort(150, 20, 0, 3, seed=3)
    ours = ridge(stored(tmp_path / "s", X, np.full((150, 1), 9), Y, (0, 20)), 0.0)
    theirs = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(ours.genotypes, theirs.coef_.T, rtol=1e-8)


def test_ridge_zero_beyond_full_rank_is_the_least_norm_solution(tmp_path):
    X, _, Y = integer_cohort(12, 30, 0, 2, seed=4)
    ours = ridge(stored(tmp_path / "s", X, np.full((12, 1), 9), Y, (0, 30)), 0.0)
    centred = X - X.mean(axis=0)
    expected = np.linalg.pinv(centred) @ (Y - Y.mean(axis=0))
    np.testing.assert_allclose(ours.genotypes, expected, rtol=1e-6, atol=1e-8)


def test_blocks_are_solved_on_their_own(tmp_path):
    X, _, Y = integer_cohort(200, 30, 0, 2, seed=5)
    ours = ridge(stored(tmp_path / "s", X, np.full((200, 1), 9), Y, (0, 10, 30)), 11.0)
    for part in (slice(0, 10), slice(10, 30)):
        theirs = SklearnRidge(alpha=11.0).fit(X[:, part], Y)
        np.testing.assert_allclose(ours.genotypes[part], theirs.coef_.T, rtol=1e-9)


def test_missing_rescale_is_bounded():
    np.testing.assert_allclose(
        missing_rescale(np.array([100.0, 50.0, 3.0, -20.0, 130.0]), 100), [1, 2, 10, 10, 1]
    )
