"""The cost of noise on X'X, against simulated effects, people and noise."""

from dataclasses import replace

import numpy as np
import pytest
from support.methods_examples import symmetric_noise

from primo_scale.methods.gram_noise import BlockNoise, share_with_noisy_gram
from primo_scale.methods.shrinkage import KnownNoise

SIZE = 300
LAMBDA = np.geomspace(0.05, 20, SIZE) / np.geomspace(0.05, 20, SIZE).mean()
NOISE = BlockNoise(SIZE, 600.0, 5_000.0, 2_000.0, 100.0, 4e4)


def simulated(noise: BlockNoise) -> float:
    """Return R^2 of weights from a noisy X'X as a share of those from the exact one."""
    rng, effects = np.random.default_rng(3), 400
    rotation, _ = np.linalg.qr(rng.standard_normal((SIZE, SIZE)))
    values = LAMBDA * noise.eigenvalue
    S = (rotation * values) @ rotation.T
    root = rotation * np.sqrt(values)
    rule = KnownNoise(
        np.full(effects, noise.effect_variance),
        np.full(effects, noise.residual_variance),
        np.full(effects, noise.cross_sigma),
        noise.gram_sigma,
    )

    def explained(matrix, rule, target, true):
        eigenvalues, vectors = np.linalg.eigh(matrix)
        rotated = vectors.T @ target
        weights = vectors @ (rule.factors(np.maximum(eigenvalues, 0), rotated) * rotated)
        return float((weights * (S @ true)).sum()), float((weights * (S @ weights)).sum())

    sums = np.zeros((2, 2))
    for _ in range(8):
        true = rng.normal(0, np.sqrt(noise.effect_variance), (SIZE, effects))
        target = S @ true + root @ rng.normal(0, np.sqrt(noise.residual_variance), true.shape)
        target += rng.normal(0, noise.cross_sigma, true.shape)
        noisy = S + symmetric_noise(SIZE, noise.gram_sigma, rng)
        sums[0] += explained(noisy, rule, target, true)
        sums[1] += explained(S, replace(rule, gram_sigma=0.0), target, true)
    squared = sums[:, 0] ** 2 / sums[:, 1]
    return float(squared[0] / squared[1])


@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_the_share_is_that_of_simulated_releases(factor):
    noise = replace(NOISE, gram_sigma=factor * NOISE.gram_sigma)
    found = share_with_noisy_gram(noise, LAMBDA)
    assert found == pytest.approx(simulated(noise), abs=0.015)
    assert found < 0.91


def test_half_the_noise_is_told_from_all():
    half = share_with_noisy_gram(replace(NOISE, gram_sigma=NOISE.gram_sigma / 2), LAMBDA)
    assert abs(half - simulated(NOISE)) > 0.015


def test_an_exact_gram_costs_nothing():
    assert share_with_noisy_gram(replace(NOISE, gram_sigma=0.0), LAMBDA) == 1
