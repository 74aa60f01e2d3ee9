"""Theorems of docs/maths that nothing in the product evaluates, against independent arithmetic."""

import math

import mpmath
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from scipy.optimize import minimize_scalar

from primo_scale.gaussian.calibration import log_delta, optimal_split_by_block


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_ratio_of_the_discrete_to_the_rounded_gaussian(steps):
    """docs/maths/noise.md, Theorem 6, where the lattice is coarse enough to see the bounds."""
    with mpmath.workdps(40):
        sigma = mpmath.mpf(steps)
        total = mpmath.nsum(
            lambda y: mpmath.exp(-y * y / (2 * sigma**2)), [-mpmath.inf, mpmath.inf]
        )
        theta = 2 * mpmath.nsum(
            lambda i: mpmath.exp(-2 * (mpmath.pi * i * sigma) ** 2), [1, mpmath.inf]
        )
        for x in range(6 * steps):
            edges = ((x + side) / (sigma * mpmath.sqrt(2)) for side in (-0.5, 0.5))
            low, high = (mpmath.erfc(edge) for edge in edges)
            rounded = (low - high) / 2
            ratio = mpmath.log(mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * sigma**2)) / total / rounded)
            assert -(x**2) / (24 * sigma**4) - theta <= ratio <= 1 / (24 * sigma**2)


@pytest.mark.parametrize(("mu", "first", "delta"), [(0.5, 0.3, 1e-6), (1.5, 1.0, 1e-4)])
def test_one_approximate_mechanism_beside_gaussian_noise(mu, first, delta):
    """docs/maths/noise.md, Theorem 3, second part."""
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(1 / mu)
    approximate = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(first, delta)
    )
    both = gaussian.compose(approximate)
    true = math.exp(first) / (1 + math.exp(first))
    for epsilon in (first + 0.1, first + 1.0, first + 2.0):
        ours = delta + (1 - delta) * (
            true * math.exp(log_delta(epsilon - first, mu))
            + (1 - true) * math.exp(log_delta(epsilon + first, mu))
        )
        assert ours == pytest.approx(both.get_delta_for_epsilon(epsilon), rel=1e-3)


@pytest.mark.parametrize("ratio", [1e-3, 0.1, 1.0, 30.0, 1e4])
def test_closed_form_of_the_split_with_blocks(ratio):
    """docs/maths/sensitivity.md, Theorem 3, against a search and against the product's own."""
    gamma = math.sqrt(1 / ratio)
    stretch = 1 + gamma / 3
    split = 4 * math.sqrt(stretch) * math.sinh(math.asinh(gamma / (2 * stretch**1.5)) / 3)

    def loss(tau):
        return (1 + tau) ** 3 * (ratio + 1 / (tau * (3 + tau**2)))

    found = minimize_scalar(loss, bounds=(1e-4, 1), method="bounded", options={"xatol": 1e-10})
    assert split == pytest.approx(2 * found.x, rel=1e-4)
    assert abs(split - optimal_split_by_block(ratio, 1.0)) <= 1 / 64
