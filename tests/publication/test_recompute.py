"""The profile used for verification, against mpmath and dp-accounting."""

import math

import mpmath
import pytest
from dp_accounting.dp_event import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from support.noise_checks import exact_delta
from support.release_edits import failed, query, resize
from support.release_examples import MODES, example_design, example_document

from primo_scale.methods.catalogue import METHODS
from primo_scale.run import plan
from primo_scale.run.design import ChosenMethod
from primo_scale.verify.guarantee import _draws
from primo_scale.verify.theorems import epsilon_of, log_delta, log_delta_on_lattice


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-2, 100), st.floats(0.02, 50))
def test_profile_equals_mpmath(epsilon, mu):
    if (epsilon / mu) ** 2 > 1400:
        return  # delta is below 1e-300
    expected = float(mpmath.log(exact_delta(epsilon, mu, digits=350)))
    assert log_delta(epsilon, mu) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-10])
def test_epsilon_agrees_with_dp_accounting(mu, delta):
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(GaussianDpEvent(1 / mu))
    bound = accountant.get_epsilon(delta)  # pessimistic by at most its interval
    assert bound - 2e-3 <= epsilon_of(mu, delta) <= bound + 1e-9


@pytest.mark.parametrize(
    "epsilon, delta", [(0.01, 1e-30), (1.0, 1e-9), (20.0, 1e-3), (16.0, 1e-112)]
)
def test_the_price_of_the_lattice_is_that_of_the_formula(epsilon, delta):
    """docs/maths/noise.md, Theorems 7 and 13, evaluated by mpmath."""
    mu, draws, steps = 0.7, 10**11, 2.0**32
    with mpmath.workdps(60):
        a = mpmath.mpf(epsilon) + 50 - mpmath.log(delta)
        eta = mpmath.mpf(draws) / (24 * mpmath.mpf(steps) ** 2)
        left = epsilon - eta - eta * (1 + 2 * mpmath.sqrt(a / draws) + 2 * a / draws)
        expected = mpmath.exp(eta) * (exact_delta(left, mu) + mpmath.exp(left - a))
        expected += (1 + mpmath.exp(epsilon)) * draws * mpmath.mpf("4e-119")
        expected = float(mpmath.log(expected))
    found = log_delta_on_lattice(epsilon, mu, delta, (draws, steps))
    assert found == pytest.approx(expected, rel=1e-9)
    assert found > log_delta(epsilon, mu)


def test_a_lattice_that_takes_all_of_epsilon_leaves_nothing():
    assert math.isinf(log_delta_on_lattice(1e-3, 0.1, 1e-6, (10**8, 1e4)))


@pytest.mark.parametrize("mode", ["full", "full-blocks", "feature-add-remove", "subsampled"])
@pytest.mark.parametrize("epsilon, delta", [(0.01, 1e-28), (0.5, 1e-12), (20.0, 1e-5)])
def test_noise_passes_with_the_most_draws_and_any_less_does_not(mode, epsilon, delta):
    """There are 10^11 draws, for which the cost of the noise's lattice is largest."""
    document = example_document(mode, epsilon=epsilon, delta=delta)
    resize(document, [316_000, 316_000])
    assert 0.998e11 < _draws(document) <= 10**11
    assert failed(document) == []
    for each in document["mechanism"]["queries"]:
        each["sigma"] = [sigma * (1 - 1e-4) for sigma in each["sigma"]]
    assert {"mu", "epsilon"} <= set(failed(document))


def test_noise_for_a_smaller_epsilon_than_the_stated_one_does_not_pass():
    document = example_document("full")
    document["guarantee"]["epsilon"] *= 1.01
    assert "epsilon" in failed(document)


def test_more_than_what_is_expected_without_noise_does_not_pass():
    document = example_document("full")
    document["accuracy"]["r_squared"] = document["accuracy"]["without_noise"] + 0.01
    assert failed(document) == ["sizes"]


def test_more_draws_than_those_of_the_proof_do_not_pass():
    document = example_document("full-blocks")
    resize(document, [316_300, 316_300])
    assert _draws(document) > 10**11
    assert failed(document) == ["epsilon"]


@pytest.mark.parametrize("mode", MODES)
def test_the_product_counts_all_that_the_verifier_counts(mode, monkeypatch):
    """What the product pays for, the verifier must not refuse."""
    counted = []
    monkeypatch.setattr(plan, "check_draws", counted.append)
    method = METHODS[MODES[mode].method]
    chosen = ChosenMethod(method, "as given", method.estimator)
    plan.mechanism_of(example_design(mode), chosen)
    assert _draws(example_document(mode)) <= counted[0]


@pytest.mark.parametrize("copies", [1, 4])
def test_every_copy_of_the_gram_matrix_counts_as_drawn(copies):
    """The cost of the lattice depends on the number of draws."""
    document = example_document("naive")
    document["mechanism"]["gram_copies"] = copies
    sizes = document["cohort"]["block_sizes"]
    document["mechanism"]["queries"] = [query(document, "gram")]
    assert _draws(document) == copies * sum(d * (d + 1) // 2 for d in sizes)
