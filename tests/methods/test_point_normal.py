"""Point-normal effects: the sampler against sums over all models, and where it is used."""

from itertools import product

import numpy as np
import pytest
from support.methods_examples import independent_noise

from primo_scale.kernels.gibbs_sweep import Chain, EffectMaps, information, sweep
from primo_scale.methods.genetic_factors import Coordinates, EffectCovariance
from primo_scale.methods.point_normal import sample_effects


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
    chain, sweeps = Chain(h * precisions, np.zeros(6), np.zeros(6)), 40_000
    for _ in range(sweeps):
        draws = np.stack([rng.random(6), rng.standard_normal(6)])
        sweep(maps, precisions, informations, chain, draws, (share, variance))
    np.testing.assert_allclose(
        chain.residual, (h - M @ chain.effects) * precisions, rtol=1e-4, atol=1e-4
    )

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
    np.testing.assert_allclose(chain.means / sweeps, expected, atol=0.03)
    assert np.abs(expected).max() > 0.5


def cohort(n_causal, *, n_blocks=10, size=60, seed=2):
    """Coordinates of LD blocks whose variants are correlated, and the true effects."""
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


def test_factors_without_variance_are_not_sampled():
    blocks, matrices, _ = cohort(12)
    two = [
        Coordinates(
            b.exposures, b.sampling, b.errors, np.hstack([b.values] * 2), independent_noise([1, 1])
        )
        for b in blocks
    ]
    covariance = EffectCovariance(np.array([1.0, 0.01]), None)
    assert set(sample_effects(two, matrices, covariance, np.eye(2), 1.0)) == {0}


def test_factors_that_fit_the_noise_of_their_coordinates_are_not_sampled():
    rng = np.random.default_rng(4)
    values, half = rng.standard_normal((120, 100)), np.full(120, 0.5)
    matrix = np.linalg.qr(rng.standard_normal((120, 120)))[0].astype(np.float32) * 0.3**0.5
    values[:, 3] += np.sqrt(2 * 120 / 3) * matrix[:3].sum(axis=0)  # three effects
    block = Coordinates(np.full(120, 0.3), half, 0 * half, values, independent_noise([1] * 100))

    def columns(basis):
        covariance = EffectCovariance(np.where(np.arange(100) < 4, 2.0, 0.0), basis)
        return set(sample_effects([block], [matrix], covariance, np.eye(100), 1.0))

    assert 3 in columns(np.eye(100))
    assert not columns(np.linalg.svd(values)[2].T)


def test_nothing_is_sampled_where_no_effect_has_variance():
    blocks, matrices, _ = cohort(12)
    none = EffectCovariance(np.zeros(1), None)
    assert not sample_effects(blocks, matrices, none, np.eye(1), 1.0)
