"""Effect variances and genetic factors, and point-normal effects against sums over models."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.methods_examples import independent_noise

from primo_scale.kernels.gibbs_sweep import EffectMaps, information, sweep
from primo_scale.methods.effects import (
    Coordinates,
    EffectCovariance,
    fit_effects,
    projected,
    sample_effects,
    shrunk,
)
from primo_scale.methods.linear_algebra import TargetNoise

EXPOSURES = np.geomspace(2.0, 0.02, 600)
SAMPLING = np.linspace(0.6, 0.1, 600)
ERRORS = np.linspace(0.05, 0.3, 600)


def drawn(omega, phenotypes=None, release=None, *, seed=0, errors=ERRORS):
    rng, l = np.random.default_rng(seed), len(omega)  # noqa: E741
    phenotypes = np.eye(l) if phenotypes is None else phenotypes
    release = independent_noise(np.ones(l)) if release is None else release
    signal, of_errors = (
        np.sqrt(each)[:, None] * rng.multivariate_normal(np.zeros(l), omega, 600)
        for each in (EXPOSURES, errors)
    )
    sampled = rng.multivariate_normal(np.zeros(l), phenotypes, 600)
    noise = rng.multivariate_normal(np.zeros(l), release.matrix(), 600)
    of_release = (1 - SAMPLING - errors)[:, None]
    values = signal + of_errors + np.sqrt(SAMPLING)[:, None] * sampled + np.sqrt(of_release) * noise
    blocks = [
        Coordinates(EXPOSURES[part], SAMPLING[part], errors[part], values[part], release)
        for part in np.array_split(np.arange(600), 3)
    ]
    return signal, blocks


def loss(blocks, signal, effects, phenotypes):
    """Return the squared error of the posterior mean, weighted as accuracy weighs it."""
    values = np.concatenate([block.values for block in blocks])
    _, noise = projected(blocks, phenotypes, effects)
    noise += np.outer(ERRORS, effects.scales)
    factors = shrunk(EXPOSURES[:, None], noise, effects.scales)
    fitted = effects.back(factors * effects.rotated(values))
    return float((((fitted - signal) ** 2).sum(axis=1) / SAMPLING).sum())


def alone(scales):
    return EffectCovariance(np.asarray(scales, dtype=float), None)


def shared_by_all(l, k):  # noqa: E741
    loadings = np.random.default_rng(4).standard_normal((l, k)) / np.sqrt(k)
    return loadings @ loadings.T


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.7])
def test_the_variance_of_the_effects_is_estimated(scale):
    found = [
        fit_effects(drawn(np.eye(1) * scale, seed=seed)[1], np.eye(1), np.ones(1)).scales[0]
        for seed in range(100)
    ]
    visible = EXPOSURES + ERRORS
    information = (visible**2 / (1 - ERRORS + scale * visible) ** 2).sum()
    pull = 4 / (4 + information)  # the share of the prior, which has the scale 1
    error = np.std(found, ddof=1) / 10
    assert np.mean(found) == pytest.approx(scale + pull * (1 - scale), abs=4 * error)
    assert np.std(found) == pytest.approx((1 - pull) * np.sqrt(2 / information), rel=0.3)


def test_misstated_noise_biases_the_variance():
    """The test above rejects a scale of the noise that is 20% wrong."""
    found = []
    for seed in range(100):
        blocks = drawn(np.eye(1), release=independent_noise([1.2]), seed=seed)[1]
        blocks = [replace(block, release_noise=independent_noise(np.ones(1))) for block in blocks]
        found.append(fit_effects(blocks, np.eye(1), np.ones(1)).scales[0])
    assert np.mean(found) > 1 + 4 * np.std(found) / 10


def test_phenotypes_without_any_signal_have_finite_variances() -> None:
    """Estimates of all factors can be 0 together, which leaves none to share."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        block = Coordinates(
            exposures=rng.exponential(0.5, 600),
            sampling=np.full(600, 0.5),
            errors=np.zeros(600),
            values=rng.normal(size=(600, 2)),
            release_noise=independent_noise(np.ones(2)),
        )
        assert np.isfinite(fit_effects([block], np.eye(2), np.ones(2)).scales).all()


def test_independent_phenotypes_share_no_factors_and_lose_nothing():
    for seed in range(20):
        signal, blocks = drawn(np.eye(8), seed=seed)
        found = fit_effects(blocks, np.eye(8), np.ones(8))
        known = loss(blocks, signal, alone(np.ones(8)), np.eye(8))
        assert loss(blocks, signal, found, np.eye(8)) < 1.02 * known


def test_shared_factors_are_found_and_predict_nearly_as_well_as_the_true_ones():
    omega = shared_by_all(40, 3)
    signal, blocks = drawn(omega)
    found = fit_effects(blocks, np.eye(40), np.ones(40))
    assert 2 < found.n_factors < 6
    values, vectors = np.linalg.eigh(omega)
    losses = [
        loss(blocks, signal, effects, np.eye(40))
        for effects in (EffectCovariance(values.clip(0), vectors), found, alone(np.ones(40)))
    ]
    assert losses[1] < 1.25 * losses[0]
    assert losses[1] < 0.5 * losses[2]


def test_correlated_phenotypes_are_not_taken_for_genetic_factors():
    correlated = np.full((10, 10), 0.6) + 0.4 * np.eye(10)
    _, blocks = drawn(np.eye(10), correlated)
    known = fit_effects(blocks, correlated, np.ones(10))
    assert known.basis is None or known.scales[0] < 1.4
    mistaken = fit_effects(blocks, np.eye(10), np.ones(10))
    assert mistaken.scales[0] > 1.6


def test_errors_that_phenotypes_share_are_no_factor_either():
    """Errors of X'C reach every phenotype by its coefficients of the covariates."""
    shared = np.random.default_rng(5).standard_normal((2, 10))
    release = TargetNoise(np.ones(10), shared)
    signal, blocks = drawn(np.eye(10), release=release)
    known = fit_effects(blocks, np.eye(10), np.ones(10))
    assert known.scales.max() < 1.6
    separately = [
        replace(each, release_noise=independent_noise(release.variances)) for each in blocks
    ]
    mistaken = fit_effects(separately, np.eye(10), np.ones(10))
    assert mistaken.scales.max() > 3
    losses = (loss(blocks, signal, each, np.eye(10)) for each in (known, mistaken))
    assert next(losses) < 0.8 * next(losses)


def test_factors_that_separate_noise_alone_are_not_used():
    """They would gain by correlated noise, and would hide which phenotype has an effect."""
    release = TargetNoise(np.full(10, 0.2), 3 * np.ones((1, 10)))
    _, blocks = drawn(np.eye(10), release=release)
    assert fit_effects(blocks, np.eye(10), np.ones(10)).basis is None


def test_no_more_variance_is_taken_for_effects_than_the_phenotypes_have():
    """Population structure moves all coordinates of all phenotypes along few directions."""
    structure = 20 * shared_by_all(10, 2) + np.eye(10)
    _, blocks = drawn(structure)
    found = fit_effects(blocks, np.eye(10), np.ones(10))
    assert found.basis is None
    assert found.scales.max() == 3
    assert found.n_limited == (found.scales == 3).sum() > 3
    possible = fit_effects(drawn(structure / 20)[1], np.eye(10), np.ones(10))
    assert possible.basis is not None
    assert possible.n_limited == 0
    alone_too = fit_effects(drawn(np.eye(1) * 20)[1], np.eye(1), np.ones(1))
    assert (alone_too.scales[0], alone_too.n_limited) == (3, 1)
    least = fit_effects(drawn(np.zeros((1, 1)))[1], np.eye(1), np.ones(1)).scales[0]
    assert least >= 0.05


def test_rotation_is_inverted_and_keeps_covariances():
    rng = np.random.default_rng(1)
    basis, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    effects = EffectCovariance(np.array([4.0, 0.0, 0.0, 0.0]), basis)
    columns, covariance = rng.standard_normal((7, 4)), np.cov(rng.standard_normal((4, 9)))
    np.testing.assert_allclose(effects.back(effects.rotated(columns)), columns)
    expected = (basis.T @ covariance @ basis).diagonal()
    np.testing.assert_allclose(effects.variances(covariance), expected)
    noise = TargetNoise(np.arange(1.0, 5.0), rng.standard_normal((2, 4)))
    np.testing.assert_allclose(effects.noise_variances(noise), effects.variances(noise.matrix()))
    own = alone(np.ones(4))
    np.testing.assert_allclose(own.noise_variances(noise), own.variances(noise.matrix()))
    assert effects.n_factors == pytest.approx(1)
    assert alone(np.ones(4)).n_factors == 0


@pytest.mark.slow
def test_the_sampler_has_the_posterior_mean_of_all_models():
    """Two blocks of three variants: 64 models, each with a normal posterior."""
    rng = np.random.default_rng(3)
    matrices = [rng.standard_normal((3, 5)).astype(np.float32) for _ in range(2)]
    share, variance = 0.3, 2.0
    precisions = rng.uniform(0.3, 1.5, 10)
    M = np.zeros((10, 6))
    M[:5, :3], M[5:, 3:] = matrices[0].T, matrices[1].T
    h = M @ np.array([1.5, 0, 0, -1.0, 0, 0.4]) + rng.standard_normal(10) / np.sqrt(precisions)

    maps = EffectMaps(
        np.concatenate([m.ravel() for m in matrices]),
        np.array([0, 15]),
        np.array([0, 3, 6]),
        np.array([0, 5, 10]),
    )
    informations = information(maps, precisions)
    np.testing.assert_allclose(informations, (M**2 * precisions[:, None]).sum(axis=0), rtol=1e-5)
    chain, sweeps = (h * precisions, np.zeros(6), np.zeros(6)), 40_000
    for _ in range(sweeps):
        draws = np.stack([rng.random(6), rng.standard_normal(6)])
        sweep(maps, precisions, informations, chain, draws, (share, variance))
    np.testing.assert_allclose(chain[0], (h - M @ chain[1]) * precisions, rtol=1e-4, atol=1e-4)

    evidence, mean = [], []
    for chosen in product([False, True], repeat=6):
        part = M[:, np.array(chosen)]
        covariance = variance * part @ part.T + np.diag(1 / precisions)
        _, log_determinant = np.linalg.slogdet(covariance)
        solved = np.linalg.solve(covariance, h)
        odds = sum(np.log(share if one else 1 - share) for one in chosen)
        evidence.append(odds - 0.5 * (log_determinant + h @ solved))
        effect = np.zeros(6)
        effect[np.array(chosen)] = variance * part.T @ solved
        mean.append(effect)
    weights = np.exp(np.array(evidence) - max(evidence))
    expected = weights @ np.array(mean) / weights.sum()
    np.testing.assert_allclose(chain[2] / sweeps, expected, atol=0.03)
    assert np.abs(expected).max() > 0.5


def cohort(n_causal, *, n_blocks=10, size=60, seed=2):
    rng = np.random.default_rng(seed)
    beta = np.zeros(n_blocks * size)
    causal = rng.choice(len(beta), n_causal, replace=False)
    beta[causal] = rng.standard_normal(n_causal) * np.sqrt(len(beta) / n_causal)
    blocks, matrices = [], []
    ld = 0.7 ** np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    for part in np.split(beta, n_blocks):
        values, vectors = np.linalg.eigh(ld)
        matrix = 1.5 * np.sqrt(values)[:, None] * vectors.T
        h = matrix @ part + rng.standard_normal(size)
        half = np.full(size, 0.5)
        blocks.append(
            Coordinates(2.25 * values, half, 0 * half, h[:, None], independent_noise([1]))
        )
        matrices.append(matrix.T.astype(np.float32))
    return blocks, matrices, beta


def sampled(blocks, matrices):
    return sample_effects(blocks, matrices, EffectCovariance(np.ones(1), None), np.eye(1), 1.0)


def test_few_effects_are_predicted_better_than_by_normal_ones():
    blocks, matrices, beta = cohort(12)
    found = sampled(blocks, matrices)[0]
    normal = np.concatenate(
        [
            m @ np.linalg.solve(m.T @ m + np.eye(len(m)), b.values[:, 0])
            for b, m in zip(blocks, matrices, strict=True)
        ]
    )
    assert ((found - beta) ** 2).sum() < 0.5 * ((normal - beta) ** 2).sum()
    np.testing.assert_array_equal(found, sampled(blocks, matrices)[0])


@pytest.mark.slow
def test_effects_of_every_variant_stay_normal():
    chosen = [bool(sampled(*cohort(600, seed=seed)[:2])) for seed in range(8)]
    assert sum(chosen) <= 2
