"""The Gaussian profile, compared with mpmath and dp-accounting."""

import math
from functools import partial

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution, privacy_loss_mechanism
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.noise_checks import exact_delta

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import (
    Cost,
    check_draws,
    composed_epsilon,
    epsilon_for,
    log_delta,
    mu_for,
    optimal_split,
    optimal_split_by_block,
    release_mu,
)
from primo_scale.gaussian.sensitivity import Adjacency

EPSILONS = [1e-3, 0.1, 5.0, 100.0]
DELTAS = [1e-3, 1e-12, 1e-300]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_is_the_root_rounded_down(epsilon, delta):
    mu = mu_for(epsilon, delta)
    assert exact_delta(epsilon, mu) <= delta
    assert exact_delta(epsilon, mu * (1 + 3e-12)) > delta
    assert log_delta(epsilon, mu) == pytest.approx(math.log(delta), rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_the_root_rounded_up(epsilon, delta):
    mu = mu_for(epsilon, delta)
    found = epsilon_for(mu, delta)
    assert exact_delta(found, mu) <= delta
    assert found == pytest.approx(epsilon, rel=1e-8)
    assert exact_delta(found - 2e-12 * (1 + found), mu) > delta


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.0, 1e-6), (1e-9, 1e-4), (0.1, 0.6), (0.1, 40.0), (50.0, 12.0)]
)
def test_profile_where_delta_is_large(epsilon, mu):
    exact = float(exact_delta(epsilon, mu))
    assert math.exp(log_delta(epsilon, mu)) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-8])
def test_profile_is_that_of_dp_accounting(epsilon, delta):
    """Adding or removing a row with sensitivity 1 is exactly a shift of mu = 1 / sigma."""
    mu = mu_for(epsilon, delta)
    oracle = privacy_loss_mechanism.GaussianPrivacyLoss(1 / mu, sensitivity=1)
    assert oracle.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-8)


def test_composition_is_that_of_dp_accounting():
    delta = 1e-6
    parts = [mu_for(epsilon, delta) for epsilon in (0.5, 1.0, 2.0)]
    composed = privacy_loss_distribution.from_gaussian_mechanism(1 / parts[0])
    for mu in parts[1:]:
        composed = composed.compose(privacy_loss_distribution.from_gaussian_mechanism(1 / mu))
    ours = composed_epsilon(Cost(sum(mu**2 for mu in parts)), delta)
    assert ours == pytest.approx(composed.get_epsilon_for_delta(delta), rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    digits_of_epsilon=st.floats(-3, 2),
    digits_of_delta=st.floats(-30, -3),
    digits_of_size=st.floats(0, 11),
)
@example(digits_of_epsilon=-3.0, digits_of_delta=-3.0, digits_of_size=11.0)
@example(digits_of_epsilon=-3.0, digits_of_delta=-30.0, digits_of_size=11.0)
@example(digits_of_epsilon=2.0, digits_of_delta=-3.0, digits_of_size=11.0)
def test_the_margin_covers_the_lattice(digits_of_epsilon, digits_of_delta, digits_of_size):
    """The bound for sampled noise (docs/maths/noise.md, Theorem 7), with what Theorem 8 leaves."""
    epsilon, size = 10**digits_of_epsilon, 10**digits_of_size
    delta = min(max(10**digits_of_delta, 1e-30), 1e-3)  # powers are not exact at the ends
    epsilon = max(epsilon, 1e-3)
    with mpmath.workdps(60):
        tail = -mpmath.log(delta) + epsilon + 50
        eta = size / (24 * mpmath.mpf(2) ** 64)
        back = eta * (1 + 2 * mpmath.sqrt(tail / size) + 2 * tail / size)
        inner = epsilon - eta - back
        sampled = mpmath.exp(eta) * (
            exact_delta(inner, release_mu(epsilon, delta)) + mpmath.exp(inner - tail)
        )
        keystream = (1 + mpmath.exp(epsilon)) * size * mpmath.mpf("4e-119")
        assert sampled + keystream <= delta * (1 - mpmath.mpf("4.7e-9"))


@settings(max_examples=60, deadline=None)
@given(near=st.floats(0, 40), mu=st.floats(1e-4, 40))
def test_the_profile_falls_as_fast_as_the_proof_needs(near, mu):
    """docs/maths/noise.md, Theorem 8, steps 3 and 4."""
    with mpmath.workdps(60):
        near, mu = mpmath.mpf(near), mpmath.mpf(mu)
        epsilon = mu * (near + mu / 2)

        def log_of_delta(value):
            return mpmath.log(exact_delta(value, mu))

        slope = -mpmath.diff(log_of_delta, epsilon, h=mpmath.mpf(10) ** -25)
        bound = (1 + near**2) / (mu * (1 + near + mu))
        assert slope >= bound * (1 - mpmath.mpf(10) ** -9)
        if epsilon >= 0.999e-3:
            assert epsilon * bound >= 0.0092


def test_more_draws_than_those_of_the_proof_are_refused():
    check_draws(10**11)
    with pytest.raises(UsageError, match=r"more noisy values than .*got 100000000001; limit 1"):
        check_draws(10**11 + 1)


def loss_of_joint_release(ratio, t):
    """a/A + b/D with A = 2 / (t+2)^2 and D = t A."""
    return (t + 2) ** 2 / 2 * (ratio + 1 / t)


def loss_of_added_shares(ratio, t):
    """a/A + b/D with A = 1/(1+t) and D = t/(1+t)."""
    return (1 + t) * (ratio + 1 / t)


def loss_by_block(ratio, t):
    """With the shares of docs/maths/sensitivity.md: mu^2 = 2Q(1+tau)^3, D = Q (tau^3 + 3 tau)."""
    gram = 1 / (2 * (1 + t / 2) ** 3)
    return ratio / gram + 1 / (gram * ((t / 2) ** 3 + 3 * t / 2))


# The most that a split may lose: splits by block are rounded to 1/64.
@pytest.mark.parametrize(
    ("split", "loss", "largest", "excess"),
    [
        (partial(optimal_split, adjacency=Adjacency.REPLACE_ONE), loss_of_joint_release, 2, 1e-9),
        (partial(optimal_split, adjacency=Adjacency.ADD_REMOVE), loss_of_added_shares, 100, 1e-9),
        (optimal_split_by_block, loss_by_block, 2, 1e-2),
    ],
)
@settings(max_examples=50, deadline=None)
@given(ratio=st.floats(1e-3, 1e4))
def test_optimal_split_minimises_the_excess_loss(split, loss, largest, excess, ratio):
    best = split(ratio, 1.0)
    assert 0 < best <= largest
    others = [largest * (k / 2000) ** 3 for k in range(1, 2001)]
    assert loss(ratio, best) <= min(loss(ratio, other) for other in others) * (1 + excess)


@given(
    parts=st.lists(st.tuples(st.floats(0.01, 2), st.floats(1e-12, 1e-8)), max_size=3),
    mu=st.floats(0.05, 3),
)
def test_approximate_parts_add_their_epsilon_and_take_their_delta(parts, mu):
    """docs/maths/noise.md, Theorem 3: eps(mu, delta - sum delta_j) + sum eps_j."""
    delta = 1e-7
    total = Cost(mu**2, *map(sum, zip(*parts, strict=True)))
    ours = composed_epsilon(total, delta)
    left = delta - sum(part for _, part in parts)
    expected = epsilon_for(mu, left) + sum(part for part, _ in parts)
    assert expected <= ours <= expected * (1 + 3e-6)
    assert composed_epsilon(Cost(mu**2, 0.1, delta), delta) == math.inf


@pytest.mark.parametrize(
    ("calibrate", "message"),
    [
        *((partial(mu_for, epsilon, 1e-6), "--epsilon: epsilon must be a positive number")
          for epsilon in (0, -1, math.nan, math.inf)),
        *((partial(function, 1.0, delta), "--delta: delta must be strictly between 0 and 1")
          for function in (epsilon_for, release_mu) for delta in (0, -1e-9, 1, 2, math.nan)),
        *((partial(epsilon_for, mu, 1e-6), "mu must be") for mu in (-1, math.nan, math.inf)),
        *((partial(release_mu, *promise), "proved")
          for promise in ((9e-4, 1e-6), (100.1, 1e-6), (1, 2e-3), (1, 1e-31))),
    ],
)  # fmt: skip
def test_an_invalid_parameter_is_refused(calibrate, message):
    with pytest.raises(UsageError, match=message):
        calibrate()


def test_composed_epsilon_of_one_release_is_its_epsilon():
    mu = release_mu(5.0, 1e-8)
    assert 5.0 <= composed_epsilon(Cost(mu**2), 1e-8) <= 5.0 * (1 + 2e-6)
