"""SURE against an independent expression, against the true loss, and at its limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primo_scale.methods.sure import sure_penalty


def estimate(values, H, s, nu):
    """docs/maths/estimation.md, term by term."""
    n_phenotypes = H.shape[1]
    norms = (H**2).sum(axis=1)
    terms = (values * n_phenotypes * s**2 + nu**2 / values * (norms - n_phenotypes * s**2)) / (
        values + nu
    ) ** 2
    return terms.sum()


def draw(rng, n_phenotypes=20, s=3.0, effects=1.0):
    values = np.geomspace(0.5, 200, 40)
    W = rng.normal(0, effects, (40, n_phenotypes))
    return values, W, values[:, None] * W + s * rng.standard_normal((40, n_phenotypes))


@pytest.mark.parametrize(
    ("n_phenotypes", "s", "effects", "between"),
    [
        (1, 3.0, 1.0, (0.1, 100)),
        (2, 3.0, 1.0, (0.1, 100)),
        (30, 3.0, 1.0, (0.1, 100)),
        (20, 0.03, 1.0, (0, 1e-2)),  # the penalty vanishes with the noise
        (40, 2.0, 0.0, (1e4, np.inf)),  # noise alone gets no weight
    ],
)
def test_the_penalty_minimises_the_estimate(n_phenotypes, s, effects, between):
    values, _, H = draw(np.random.default_rng(1), n_phenotypes, s, effects)
    nu = sure_penalty(values, H, np.full(n_phenotypes, s), least=0.0)
    best = min(estimate(values, H, s, x) for x in np.geomspace(1e-6, 1e8, 5000))
    assert estimate(values, H, s, nu) <= best + 1e-7 * abs(best)
    assert between[0] <= nu <= between[1]


def test_the_penalty_comes_close_to_the_least_loss():
    """The comparison is with the true prediction loss, which the estimate does not use."""
    rng = np.random.default_rng(2)
    ratios, unshrunk = [], []
    for _ in range(30):
        values, W, H = draw(rng)

        def loss(nu, values=values, W=W, H=H):
            return (values[:, None] * (H / (values + nu)[:, None] - W) ** 2).sum()

        nu = sure_penalty(values, H, np.full(20, 3.0), least=0.0)
        least = min(loss(x) for x in np.geomspace(1e-3, 1e4, 200))
        ratios.append(loss(nu) / least)
        unshrunk.append(loss(0.0) / least)
    assert np.mean(ratios) < 1.02
    assert np.mean(unshrunk) > 1.3, "there would be nothing to gain"


def test_without_noise_the_penalty_is_the_lower_limit():
    values, _, H = draw(np.random.default_rng(4))
    assert sure_penalty(values, H, np.zeros(20), least=0.0) == 0.0
    assert sure_penalty(values, H, np.zeros(20), least=7.0) == 7.0
    assert sure_penalty(np.zeros(40), H, np.ones(20), least=7.0) == 7.0


def test_phenotypes_are_standardised_by_their_own_noise():
    values, _, H = draw(np.random.default_rng(7))
    scale = np.geomspace(0.1, 10, 20)
    alike = sure_penalty(values, H, np.full(20, 3.0), least=0.0)
    unlike = sure_penalty(values, H * scale, 3.0 * scale, least=0.0)
    assert unlike == pytest.approx(alike, rel=1e-5)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 6),
    n_phenotypes=st.integers(1, 6),
    spread=st.floats(0, 12),
    least=st.floats(0, 1e6),
)
def test_the_penalty_is_finite_and_at_least_the_lower_limit(seed, d, n_phenotypes, spread, least):
    rng = np.random.default_rng(seed)
    values = 10.0 ** rng.uniform(-spread, spread, d) * (rng.random(d) < 0.8)
    H = rng.normal(0, 10.0 ** rng.uniform(-spread, spread), (d, n_phenotypes))
    nu = sure_penalty(values, H, np.full(n_phenotypes, 1.0), least=least)
    assert np.isfinite(nu)
    assert nu >= least
