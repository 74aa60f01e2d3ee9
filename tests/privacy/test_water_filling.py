"""Division of a row's norm, against a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from primo_scale.privacy.planning import fill


def explained(energies, shares, signal, residual, noise):
    odds = signal * energies / (residual * energies + noise)
    return float((shares * odds / (1 + odds)).sum())


def components(seed, size=8):
    rng = np.random.default_rng(seed)
    shares = np.sort(rng.gamma(0.5, 1, size) + 1e-3)[::-1]
    return shares / shares.sum()


@pytest.mark.parametrize("noise", [1e-4, 0.01, 0.3, 5.0])
@pytest.mark.parametrize("people", [3.0, 100.0])
def test_no_other_division_explains_more(noise, people):
    shares = components(int(people))
    signal = people * shares
    found = fill(shares, signal, 0.6, noise)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()

    def loss(roots):
        return -explained(roots**2 / (roots**2).sum(), shares, signal, 0.6, noise)

    starts = (np.sqrt(found), np.ones(len(shares)), np.sqrt(shares))
    best = min(minimize(loss, start, method="BFGS").fun for start in starts)
    value = explained(found, shares, signal, 0.6, noise)
    assert value >= -best - 1e-7
    assert value > explained(shares, shares, signal, 0.6, noise)
