"""Every method of the catalogue, on statistics with solutions from independent programs."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge
from support.methods_examples import inputs_for, integer_cohort, solved, statistics_of, with_noise

from primo_scale.methods.catalogue import METHODS
from primo_scale.methods.effects import EffectPrior
from primo_scale.methods.linear_algebra import noise_norm
from primo_scale.methods.solve import adjusted
from primo_scale.papers.estimators import solve_ridge
from primo_scale.privacy.mechanism import Recipe, no_noise

N, D, L = 300, 12, 5
X, _, Y = integer_cohort(N, D, 0, L, seed=1)
CONSTANT = np.full((N, 1), 50)
EXACT = statistics_of(X, CONSTANT, Y, (0, 5, 12))
DENSE = statistics_of(X, CONSTANT, Y)


def centred(rows):
    return rows - rows.mean(axis=0)


def scales(n_blocks=1, **sigmas):
    return replace(no_noise(n_blocks), **sigmas)


EXPECTED_PENALTIES = {
    **dict.fromkeys(METHODS, 45.0),  # the prior's
    **dict.fromkeys(["reuse-cov-proj", "reuse-cov-proj-x"], 0.0),  # idle projections
    **dict.fromkeys(["ssp", "ada-ssp", "ada-ssp-budget", "const-ssp-full"], 9.0),  # one unit
}


@pytest.mark.parametrize(
    ("name", "estimator"),
    [
        # Estimated variances of the effects are not the prior's.
        *((name, None) for name, each in METHODS.items() if not each.estimator.fits_variances),
        ("reuse-cov-gauss", "known-noise"),
        ("sub-samp-reuse-cov", "known-noise"),
    ],
)
def test_without_noise_every_method_and_shrinkage_is_ridge(name, estimator):
    inputs = inputs_for(
        DENSE,
        N,
        prior=EffectPrior(np.full(L, 2.0), np.full(L, 90.0)),
        recipe=Recipe(subsample=N) if METHODS[name].subsamples else Recipe(),
        unit=3,
        bounds=replace(inputs_for(DENSE, N).bounds, row_norm=10**6),
    )
    solution = solved(DENSE, inputs, name, estimator)
    expected = SklearnRidge(alpha=EXPECTED_PENALTIES[name]).fit(X, Y).coef_.T
    np.testing.assert_allclose(solution.genotypes, expected, rtol=1e-8)


def test_naive_solves_every_phenotype_with_its_own_gram():
    rng = np.random.default_rng(2)
    sigmas = scales(gram=(20.0,))
    noisy = with_noise(DENSE, sigmas, rng, copies=L)
    inputs = inputs_for(noisy, N, scales=sigmas, penalty=200.0, recipe=Recipe(gram_copies=L))
    ours = solved(noisy, inputs, "naive", "ridge")
    C = CONSTANT
    for j in range(L):
        S = noisy.gram(0, j) - X.T @ C @ np.linalg.inv(C.T @ C) @ C.T @ X
        G = centred(X).T @ Y[:, j]
        np.testing.assert_allclose(
            ours.genotypes[:, j], np.linalg.solve(S + 200 * np.eye(D), G), rtol=1e-8
        )
    assert ours.penalties == (200.0,) * L


def test_the_gram_of_a_subsample_is_scaled_to_the_cohort():
    """X'X of every third person, three times over, with three times its noise."""
    part = X[::3]
    grams = ((part.T @ part,),)
    statistics = replace(DENSE, grams=grams)
    recipe = Recipe(subsample=len(part))
    inputs = inputs_for(statistics, N, recipe=recipe, penalty=500.0)
    ours = solved(statistics, inputs, "sub-samp-reuse-cov", "ridge")
    mean = X.mean(axis=0)
    S = 3 * part.T @ part - N * np.outer(mean, mean)
    expected = np.linalg.solve(S + 500 * np.eye(D), centred(X).T @ Y)
    np.testing.assert_allclose(ours.genotypes, expected, rtol=1e-8)
    adjustment = adjusted(statistics, replace(inputs, scales=scales(gram=(2.0,))))
    (norm,) = solve_ridge(adjustment, lambda norm: norm).penalties
    assert norm == pytest.approx(3 * noise_norm(2.0, D))


SIGMAS = scales(2, phenotype_cross=2e5)
NOISY = with_noise(EXACT, SIGMAS, np.random.default_rng(4))
# Phenotypes are projected without this correction for missing values.
RESCALE = np.array([1.0, 4.0, 1.0, 2.0, 1.0])


def adjusted_target(statistics):
    G = np.vstack([statistics.cross(b)[:, 1:] for b in range(2)])
    return G - N * np.outer(X.mean(axis=0), Y.mean(axis=0))


def block_diagonal(matrix):
    out = np.zeros_like(matrix)
    for part in (slice(0, 5), slice(5, 12)):
        out[part, part] = matrix[part, part]
    return out


def test_projection_by_genotypes_limits_the_fit_of_all_blocks_to_the_radius():
    inputs = inputs_for(NOISY, N, scales=SIGMAS)
    solution = solved(NOISY, inputs, "reuse-cov-proj-x")
    S = block_diagonal(centred(X).T @ centred(X))
    W = solution.genotypes
    radius = np.sqrt((Y**2).sum())
    assert solution.parameters["projection_radius"] == pytest.approx(radius)
    assert np.sqrt((W * (S @ W)).sum()) == pytest.approx(radius, rel=1e-9)
    nu = solution.parameters["projection_multiplier"]
    assert nu > 0
    assert solution.penalties == (nu, nu)
    expected = np.linalg.solve(S + nu * np.eye(D), adjusted_target(NOISY))
    np.testing.assert_allclose(W, expected, rtol=1e-8)
    stretched = solved(NOISY, replace(inputs, rescale=RESCALE), "reuse-cov-proj-x")
    assert stretched.penalties == pytest.approx(solution.penalties)
    np.testing.assert_allclose(stretched.genotypes, W * RESCALE, rtol=1e-9)


def test_projection_by_phenotypes_then_ridge():
    """Against the optimum in Z, solved as a ridge regression of G' on Y."""
    inputs = inputs_for(NOISY, N, scales=SIGMAS, penalty=33.0)
    inputs = replace(inputs, bounds=replace(inputs.bounds, row_norm=D))
    solution = solved(NOISY, inputs, "reuse-cov-proj-y", "ridge")
    nu = solution.parameters["projection_multiplier"]
    total = min(N * D, (X**2).sum())
    assert solution.parameters["projection_radius"] == pytest.approx(np.sqrt(total))
    Z = np.linalg.solve(Y.T @ Y + nu * np.eye(L), adjusted_target(NOISY).T).T @ Y.T
    assert np.linalg.norm(Z) == pytest.approx(np.sqrt(total), rel=1e-9)
    S = block_diagonal(centred(X).T @ centred(X))
    expected = np.linalg.solve(S + 33 * np.eye(D), Z @ Y)
    np.testing.assert_allclose(solution.genotypes, expected, rtol=1e-7)
    stretched = solved(NOISY, replace(inputs, rescale=RESCALE), "reuse-cov-proj-y", "ridge")
    np.testing.assert_allclose(stretched.genotypes, solution.genotypes * RESCALE, rtol=1e-9)


def test_ada_ssp_subtracts_the_private_eigenvalue():
    sigmas = scales(2, gram=(9.0, 400.0), smallest_eigenvalue=2.0)
    noisy = replace(EXACT, eigenvalue=150)
    inputs = inputs_for(noisy, N, scales=sigmas, delta=1e-4)
    solution = solved(noisy, inputs, "ada-ssp")
    bound = 150 - 2 * np.sqrt(2 * np.log(2e4))
    assert solution.parameters == {"smallest_eigenvalue_bound": pytest.approx(bound)}
    assert solution.penalties == pytest.approx((1.0, noise_norm(400.0, 7) - bound + 1))
