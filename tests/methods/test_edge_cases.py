"""Every method on degenerate cohorts: finite weights, no warnings, and exact known solutions."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.methods_examples import inputs_for, ridge_weights, solved, statistics_of, with_noise
from support.tiers import thinned

from primo_scale.methods.catalogue import METHODS, SHRINKAGES
from primo_scale.methods.linear_algebra import missing_rescale
from primo_scale.privacy.mechanism import NoiseScales, Recipe

RNG = np.random.default_rng(1)
# 1/37 is not a binary fraction, so that terms which should cancel leave rounding errors.
KAPPA = 37


def rows(n, d, l):  # noqa: E741
    return (RNG.integers(-1, 2, (n, d)), np.full((n, 1), KAPPA), RNG.integers(-900, 900, (n, l)))


X, C, Y = rows(30, 4, 3)
EVERY_OTHER = np.arange(30)[:, None] % 2
COHORTS = {
    "one variant": rows(30, 1, 3),
    "one phenotype": rows(30, 4, 1),
    "one of each": rows(30, 1, 1),
    "one person": rows(1, 4, 3),
    "two people": rows(2, 5, 3),
    "more phenotypes than people": rows(6, 3, 40),
    "more variants than people": rows(6, 40, 3),
    "zero rows": (X * EVERY_OTHER, C, Y * EVERY_OTHER),
    "monomorphic variants": (np.ones_like(X), C, Y),
    "equal variants": (np.repeat(X[:, :1], 4, axis=1), C, Y),
    "constant phenotype": (X, C, np.where([True, False, False], 123, Y)),
    "all-missing phenotype": (X, C, Y * [0, 1, 1]),
    "nothing": (np.zeros((5, 3), int), np.full((5, 1), KAPPA), np.zeros((5, 2), int)),
}
RULES = [("reuse-cov-gauss", estimator) for estimator in (*SHRINKAGES, "ridge")]
RULES += [(name, None) for name in METHODS if name != "reuse-cov-gauss"]


def solve_both_ways(cohort, method, estimator):
    """Solve exact and noisy statistics; any warning is an error."""
    X, C, Y = cohort
    n, d, l = len(X), X.shape[1], Y.shape[1]  # noqa: E741
    exact = statistics_of(X, C, Y)
    if METHODS[method].gram_per_phenotype:
        exact = replace(exact, grams=tuple(copies * l for copies in exact.grams))
    recipe = Recipe(
        gram_copies=l if METHODS[method].gram_per_phenotype else 1,
        subsample=max(1, n // 2) if METHODS[method].subsamples else None,
    )
    scales = NoiseScales((5.0,), 500.0, 1e6, 1.0, 7.0)
    rescale = missing_rescale((Y != 0).sum(axis=0).astype(float), n)
    noisy = with_noise(exact, scales, np.random.default_rng(2), copies=recipe.gram_copies)
    inputs = inputs_for(exact, n, recipe=recipe, rescale=rescale)
    if estimator == "ridge":
        inputs = replace(inputs, penalty=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for statistics, given_scales in ((exact, inputs.scales), (noisy, scales)):
            solution = solved(statistics, replace(inputs, scales=given_scales), method, estimator)
            assert solution.genotypes.shape == (d, l)
            assert np.isfinite(solution.genotypes).all()
            assert np.isfinite(solution.fixed).all()
            assert np.isfinite(list(solution.parameters.values())).all()
            assert np.isfinite(solution.penalties).all()


@pytest.mark.parametrize("cohort", thinned(COHORTS, every=8))
def test_weights_are_finite_without_warnings(cohort):
    for method, estimator in RULES:
        solve_both_ways(COHORTS[cohort], method, estimator)


@pytest.mark.parametrize("penalty", [0.0, 3.0])
@pytest.mark.parametrize("cohort", COHORTS)
def test_without_noise_weights_are_those_of_numpy(cohort, penalty):
    """Without a penalty, the least-norm solution if there are several."""
    X, C, Y = COHORTS[cohort]
    ours = ridge_weights(statistics_of(X, C, Y), len(X), penalty)
    rows = np.vstack([X - X.mean(axis=0), np.sqrt(penalty) * np.eye(X.shape[1])])
    expected = np.linalg.pinv(rows, rcond=1e-9)[:, : len(X)] @ (Y - Y.mean(axis=0))
    np.testing.assert_allclose(ours.genotypes, expected, atol=1e-9 if penalty else 1e-6)
    fitted = X @ ours.genotypes + C @ ours.fixed
    np.testing.assert_allclose(fitted.sum(axis=0), Y.sum(axis=0), atol=1e-6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 6),
    d=st.integers(1, 5),
    n_phenotypes=st.integers(1, 8),
    zeros=st.floats(0, 1),
    rule=st.sampled_from(RULES),
)
def test_small_cohorts_of_any_rank(seed, n, d, n_phenotypes, zeros, rule):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (n, d)) * (rng.random((n, d)) > zeros)
    Y = rng.integers(-900, 900, (n, n_phenotypes)) * (rng.random((n, n_phenotypes)) > zeros)
    solve_both_ways((X, np.full((n, 1), KAPPA), Y), *rule)
