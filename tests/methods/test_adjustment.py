"""Predicted noise of the adjustment for covariates, against the empirical noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from methods_examples import statistics_of, with_noise

from primo_scale.methods.adjustment import adjust
from primo_scale.privacy.mechanism import no_noise


def test_the_adjusted_target_carries_the_noise_of_the_fixed_columns():
    """A covariate that explains much of a phenotype adds the noise of its own X'c."""
    rng = np.random.default_rng(1)
    n, d = 500, 40
    covariate = rng.integers(-300, 300, (n, 1))
    X = rng.integers(-1, 2, (n, d)) + np.sign(covariate)
    Y = 3 * covariate * [1, 0] + rng.integers(-300, 300, (n, 2))
    fixed = np.hstack([np.full((n, 1), 100), covariate])
    exact = statistics_of(X, fixed, Y)
    scales = replace(no_noise(1), fixed_cross=2000.0, phenotype_cross=2000.0)
    rescale = np.array([1.0, 2.0])
    clean = adjust(exact, scales, rescale, gram_factor=1.0).block(0).target
    errors, stated = [], []
    for _ in range(200):
        noisy = adjust(with_noise(exact, scales, rng), scales, rescale, gram_factor=1.0).block(0)
        errors.append(noisy.target - clean)
        stated.append(noisy.target_sigma)
    seen = np.std(errors, axis=(0, 1))
    # The first phenotype has three times the covariate's noise in addition to its own; the second
    # has twice its own, because of its missing values. 8,000 entries: five standard errors are 4%.
    np.testing.assert_allclose(seen, [np.sqrt(10) * 2000, 2 * 2000], rtol=0.06)
    np.testing.assert_allclose(np.mean(stated, axis=0), seen, rtol=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [5, 1500])
def test_a_gram_is_adjusted_in_chunks_of_rows(rows):
    """Across the boundary of a chunk, against the residuals themselves."""
    rng = np.random.default_rng(2)
    X, fixed = rng.integers(-1, 2, (60, rows)), rng.integers(-9, 9, (60, 3))
    adjustment = adjust(
        statistics_of(X, fixed, fixed[:, :1]), no_noise(1), np.ones(1), gram_factor=1.0
    )
    gram, rounding = adjustment.gram(adjustment.block(0), 0, 0)
    residual = X - fixed @ np.linalg.lstsq(fixed, X, rcond=None)[0]
    np.testing.assert_allclose(gram, residual.T @ residual, atol=1e-9)
    error = np.linalg.norm(gram - residual.T @ residual, 2) if rows < 100 else 0.0
    assert error <= rounding < 1e-9 * np.trace(X.T @ X)


def test_fixed_columns_that_are_noise_are_dropped_and_the_others_kept():
    rng = np.random.default_rng(3)
    covariate = rng.integers(-300, 300, (60, 1))
    X = rng.integers(-1, 2, (60, 2000)) + np.sign(covariate)
    fixed = np.hstack([np.zeros((60, 1), dtype=np.int64), covariate])
    exact = statistics_of(X, fixed, fixed[:, :1])
    scales = replace(no_noise(1), fixed_cross=200.0)
    noisy = with_noise(exact, scales, rng)
    seen = noisy.cross(0)[:, :2]
    kept = adjust(noisy, scales, np.ones(1), gram_factor=1.0).block(0).fixed_cross
    assert (kept[:, 0] ** 2).sum() < 0.02 * (seen[:, 0] ** 2).sum()
    np.testing.assert_allclose(kept[:, 1], seen[:, 1], rtol=0.01)
    clean = adjust(exact, no_noise(1), np.ones(1), gram_factor=1.0).block(0).fixed_cross
    np.testing.assert_array_equal(clean, exact.cross(0)[:, :2])
