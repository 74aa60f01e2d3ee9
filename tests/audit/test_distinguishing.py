"""Lower bounds on epsilon and mu of mechanisms whose epsilon and mu are known."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest
from support.tiers import thinned

from primo_scale.audit.mechanism_audit import evidence, rate_at_least, rate_at_most
from primo_scale.gaussian.calibration import mu_for

ALARM = 1e-9


def normal_scores(rng, mu, runs):
    return (rng.normal(size=runs), rng.normal(mu, size=runs))


def randomised_response(rng, epsilon, runs):
    """Return answers that are true with probability e^epsilon / (1 + e^epsilon)."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return ((rng.random(runs) > truth) * 1.0, (rng.random(runs) < truth) * 1.0)


@pytest.mark.parametrize(("successes", "runs"), [(0, 30), (1, 30), (17, 30), (29, 30), (30, 30)])
def test_rates_are_those_of_clopper_and_pearson(successes, runs):
    expected = binomtest(successes, runs).proportion_ci(0.98, method="exact")
    count = np.array([successes])
    assert rate_at_least(count, runs, 0.01)[0] == pytest.approx(expected.low, abs=1e-12)
    assert rate_at_most(count, runs, 0.01)[0] == pytest.approx(expected.high, abs=1e-12)


def test_randomised_response_is_bounded_from_below_and_nearly_attained():
    rng = np.random.default_rng(1)
    epsilon, _ = evidence([randomised_response(rng, 2.0, 40_000)], delta=1e-6, false_alarm=ALARM)
    assert 1.6 < epsilon < 2.0


def test_a_rare_sign_is_found_in_either_direction():
    """Only one cohort gives a high (or low) score, in one of fifty runs."""
    rng = np.random.default_rng(2)
    usual, rare = rng.random(20_000), rng.random(20_000)
    rare[rng.random(20_000) < 0.02] = 7.0
    high, _ = evidence([(usual, rare)], delta=1e-3, false_alarm=ALARM)
    low, _ = evidence([(-rare, -usual)], delta=1e-3, false_alarm=ALARM)
    # log((0.02 - delta) / F), where 0 of 10,000 runs allow F up to 0.0022
    assert high > 1.5
    assert low == pytest.approx(high, rel=1e-9)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_a_normal_shift_is_bounded_from_below_and_nearly_attained(mu):
    rng = np.random.default_rng(int(10 * mu))
    epsilon, shown = evidence([normal_scores(rng, mu, 40_000)], delta=1e-3, false_alarm=ALARM)
    assert mu - 0.2 < shown < mu
    assert mu_for(max(epsilon, 1e-3), 1e-3) < mu


def test_the_better_of_two_scores_is_used():
    rng = np.random.default_rng(4)
    blind, sharp = normal_scores(rng, 0.0, 10_000), normal_scores(rng, 3.0, 10_000)
    one, both = (evidence(s, delta=1e-3, false_alarm=ALARM) for s in ([blind], [blind, sharp]))
    assert one[1] == 0.0
    assert both[1] > 2.5
    assert both[0] > 3


@pytest.mark.slow
@pytest.mark.parametrize("law", thinned(["normal", "coin"], every=2))
def test_a_bound_exceeds_the_truth_at_most_at_its_level(law):
    """600 repetitions at a level of 0.2 per bound; correct code fails once in 10^6."""
    rng, repetitions, level, wrong = np.random.default_rng(5), 600, 0.2, 0
    for _ in range(repetitions):
        if law == "coin":
            epsilon, _ = evidence(
                [randomised_response(rng, 1.0, 400)], delta=0.0, false_alarm=2 * level
            )
            wrong += epsilon > 1.0
        else:
            _, mu = evidence([normal_scores(rng, 0.5, 400)], delta=0.0, false_alarm=2 * level)
            wrong += mu > 0.5
    assert 0 < wrong <= binom.isf(1e-6, repetitions, level)


def test_delta_is_taken_off_what_a_perfect_test_shows():
    """Every score separates the cohorts, at the limits of Clopper and Pearson for 500 runs."""
    scores = [(np.zeros(1000), np.ones(1000))]
    level = 0.05 / 4
    least, most = level ** (1 / 500), 1 - level ** (1 / 500)
    for delta in (0.0, 1e-6, 0.5):
        found, _ = evidence(scores, delta=delta, false_alarm=0.05)
        assert found == pytest.approx(math.log((least - delta) / most), rel=1e-9)
