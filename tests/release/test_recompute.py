"""The profile used for verification, against mpmath, dp-accounting and published figures."""

from __future__ import annotations

import math

import mpmath
import pytest
from dp_accounting.dp_event import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from release_examples import example_statement, example_weights

from primo_scale.release.recompute import epsilon_of, guarantee_findings, log_delta
from primo_scale.release.statement import statement_document


def mpmath_log_delta(epsilon: float, mu: float) -> float:
    with mpmath.workdps(350):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        delta = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        return float(mpmath.log(delta))


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-2, 100), st.floats(0.02, 50))
def test_profile_equals_mpmath(epsilon, mu):
    if (epsilon / mu) ** 2 > 1400:
        return  # delta is below 1e-300
    assert log_delta(epsilon, mu) == pytest.approx(
        mpmath_log_delta(epsilon, mu), rel=1e-9, abs=1e-9
    )


@pytest.mark.parametrize("mu", [75.0, 100.0, 1e4])
def test_profile_of_no_privacy_at_all_is_near_one(mu):
    assert -1e-3 < log_delta(1.0, mu) <= 0


@pytest.mark.parametrize(
    "epsilon, inverse_mu", [(0.1, 43.21), (1, 4.851), (5, 1.0933), (10, 0.5943)]
)
def test_published_sizes(epsilon, inverse_mu):
    """docs/maths.md, section 1, at delta = 1/5008^2."""
    assert epsilon_of(1 / inverse_mu, 1 / 5008**2) == pytest.approx(epsilon, rel=2e-4)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-10])
def test_epsilon_agrees_with_dp_accounting(mu, delta):
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(GaussianDpEvent(1 / mu))
    bound = accountant.get_epsilon(delta)  # pessimistic by at most its interval
    assert bound - 2e-3 <= epsilon_of(mu, delta) <= bound + 1e-9


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-12, 1e-30])
def test_noise_calibrated_by_mpmath_passes_and_any_less_does_not(epsilon, delta):
    """With 10^8 draws, so that the price of the noise's lattice is as high as it gets."""
    statement = example_statement(example_weights(), epsilon=epsilon, delta=delta)
    document = statement_document(statement)
    document["cohort"] |= {"n_variants": 14142, "block_sizes": [14142]}
    document["mechanism"]["queries"][0]["shape"] = [14142, 14142]
    document["mechanism"]["queries"][1]["shape"][0] = 14142
    assert [finding for finding in guarantee_findings(document) if not finding.ok] == []
    for query in document["mechanism"]["queries"]:
        query["sigma"] *= 1 - 1e-4
    failed = {finding.check for finding in guarantee_findings(document) if not finding.ok}
    assert failed == {"mu", "epsilon"}


def test_epsilon_at_the_ends():
    assert epsilon_of(0.0, 1e-6) == 0
    assert epsilon_of(1e-9, 1e-6) == 0
    assert math.isinf(epsilon_of(1e9, 1e-6))
