"""Adjustment for covariates and missing values, blocks side by side, and the norm of noise."""

import threading

import numpy as np
import pytest
from support.methods_examples import (
    inputs_for,
    integer_cohort,
    ridge_weights,
    solved,
    statistics_of,
)
from threadpoolctl import threadpool_info

from primo_scale.methods import linear_algebra as module
from primo_scale.methods.linear_algebra import (
    LARGEST_SIDE_BY_SIDE,
    adjust,
    map_blocks,
    missing_rescale,
    noise_norm,
)
from primo_scale.privacy.mechanism import no_noise


@pytest.mark.slow
@pytest.mark.parametrize("rows", [5, 1500])
def test_a_gram_is_adjusted_in_chunks_of_rows(rows):
    """Across the boundary of a chunk, against the residuals themselves."""
    rng = np.random.default_rng(2)
    X, fixed = rng.integers(-1, 2, (60, rows)), rng.integers(-9, 9, (60, 3))
    adjustment = adjust(
        statistics_of(X, fixed, fixed[:, :1]), no_noise(1), np.ones(1), gram_factor=1.0
    )
    gram, rounding = adjustment.gram(adjustment.block(0)[0], 0)
    residual = X - fixed @ np.linalg.lstsq(fixed, X, rcond=None)[0]
    np.testing.assert_allclose(gram, residual.T @ residual, atol=1e-9)
    error = np.linalg.norm(gram - residual.T @ residual, 2) if rows < 100 else 0.0
    assert error <= rounding < 1e-9 * np.trace(X.T @ X)


def test_covariates_are_not_penalised():
    X, C, Y = integer_cohort(300, 25, 3, 4, seed=2)
    fixed = np.hstack([np.full((300, 1), 50), C])
    ours = ridge_weights(statistics_of(X, fixed, Y), 300, 77.0)
    # The same minimiser as one least-squares problem with the penalty as extra rows.
    design = np.vstack(
        [np.hstack([X, fixed]), np.hstack([77.0**0.5 * np.eye(25), np.zeros((25, 4))])]
    )
    expected = np.linalg.lstsq(design, np.vstack([Y, np.zeros((25, 4))]), rcond=None)[0]
    np.testing.assert_allclose(np.vstack([ours.genotypes, ours.fixed]), expected, rtol=1e-7)


def test_missing_values_are_corrected_for():
    """Half of each phenotype missing at random: the same weights, up to sampling."""
    X, _, Y = integer_cohort(40000, 6, 0, 2, seed=7)
    constant = np.full((40000, 1), 50)
    Y = Y - np.rint(Y.mean(axis=0)).astype(np.int64)
    observed = np.random.default_rng(8).random(Y.shape) < 0.5
    statistics = statistics_of(X, constant, Y * observed)
    rescale = missing_rescale(observed.sum(axis=0).astype(float), 40000)
    inputs = inputs_for(statistics, 40000, penalty=0.0, rescale=rescale)
    ours = solved(statistics, inputs, estimator="ridge").genotypes
    full = ridge_weights(statistics_of(X, constant, Y), 40000, 0.0).genotypes
    # Standard errors are sd(y) / sqrt(n var(x)) = 300 sqrt(1.5) / 163 = 2.2 here; five of them.
    np.testing.assert_allclose(ours, full, atol=12)
    assert np.abs(full).max() > 30


def test_missing_rescale_is_bounded():
    np.testing.assert_allclose(
        missing_rescale(np.array([100.0, 50.0, 3.0, -20.0, 130.0]), 100), [1, 2, 10, 10, 1]
    )


def test_each_block_has_its_threads_and_results_keep_their_order(monkeypatch) -> None:
    small, large = LARGEST_SIDE_BY_SIDE, LARGEST_SIDE_BY_SIDE + 1
    monkeypatch.setattr(module, "usable_cpus", lambda: 2)
    both_small = threading.Barrier(2, timeout=30)

    def observe(block):
        if sizes[block] == small:
            both_small.wait()  # fails unless another small block is at work
        found = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        return block, found

    sizes = (small, large, small, large)
    assert map_blocks(observe, sizes) == [(0, {1}), (1, {2}), (2, {1}), (3, {2})]


def test_noise_norm_bounds_the_spectral_norm_of_svec_noise():
    rng = np.random.default_rng(6)
    for size in (1, 5, 60):
        E = rng.standard_normal((200, size, size))
        norms = np.abs(np.linalg.eigvalsh((E + E.transpose(0, 2, 1)) / 2)).max(axis=1)
        assert (norms <= noise_norm(1.0, size)).all()
        assert (norms > 0.3 * noise_norm(1.0, size)).any(), "the bound would be useless"
