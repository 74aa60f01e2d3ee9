"""Numbers of docs/maths digit by digit, and their computations against outside arithmetic."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism
from dp_accounting.rdp import rdp_privacy_accountant
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from experiments import papers_constants as papers
from experiments import printed_numbers as printed
from experiments.accounting import zcdp_sigma
from primo_scale.gaussian.calibration import mu_for
from primo_scale.gaussian.sensitivity import Adjacency

DELTA = 1 / 5008**2


def exact_delta(epsilon, mu):
    gaussian = privacy_loss_mechanism.GaussianPrivacyLoss(1 / mu, sensitivity=1)
    return gaussian.get_delta_for_epsilon(epsilon)


def exact_epsilon(mu, delta):
    return brentq(lambda e: exact_delta(e, mu) - delta, 0.01, 80, xtol=1e-10)


def worst_mu(scales, adjacency):
    """Search over the angle between two rows of full length, outcomes opposite."""
    A, D = scales.gram**-2, scales.cross**-2
    if adjacency is Adjacency.ADD_REMOVE:
        return math.sqrt(A + D)
    found = minimize_scalar(
        lambda c: -(A * (2 - 2 * c**2) + D * (2 + 2 * c)), bounds=(0, 1), method="bounded"
    )
    return math.sqrt(max(-found.fun, 2 * A + 2 * D, 4 * D))


def test_every_printed_digit():
    numbers = printed.all_numbers()
    assert [number.what for number in numbers if not number.agrees] == []
    assert len(numbers) == 59


@pytest.mark.parametrize(("epsilon", "sizes"), printed.noise_sizes().items())
def test_sizes_against_dp_accounting(epsilon, sizes):
    """The privacy of each sigma follows exactly from its multiple of 1/mu*."""
    exact, paper_c, *_ = (number.value for number in sizes)
    assert exact_delta(epsilon, 1 / exact) == pytest.approx(DELTA, rel=1e-8)
    assert exact_delta(epsilon, 1 / (1.01 * exact)) < 0.95 * DELTA
    loose = math.sqrt(2 * (1 / epsilon + math.log(1 / DELTA) / epsilon**2))
    assert paper_c * exact == pytest.approx(loose, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 10.0])
def test_zcdp_conversion_is_that_of_dp_accounting(epsilon):
    """Renyi orders on a fine grid; its conversion is the same theorem."""
    rho = 1 / (2 * zcdp_sigma(epsilon, DELTA) ** 2)
    orders = 1 + np.exp(np.linspace(-6, 8, 20_000))
    found, _ = rdp_privacy_accountant.compute_epsilon(orders, rho * orders, DELTA)
    assert found == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(("delta", "limit"), [(1e-5, 8.41), (4e-8, 9.21), (1e-10, 9.84)])
def test_classical_formula_is_private_up_to_its_limit(delta, limit):
    def true_delta(epsilon):
        return exact_delta(epsilon, epsilon / math.sqrt(2 * math.log(1.25 / delta)))

    assert true_delta(limit) <= delta < true_delta(limit + 0.01)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    "constants",
    [
        papers.primo_algorithm_1,
        papers.primo_theorem_1_proof,
        papers.primo_algorithm_3,
        papers.primo_halves,
    ],
)
def test_true_epsilons_by_search(constants, adjacency):
    scales = constants(5.0, DELTA)
    expected = exact_epsilon(worst_mu(scales, adjacency), DELTA)
    assert printed.true_epsilon(scales, DELTA, adjacency) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "shown"), [(5.0, 0.10), (1.0, 0.087)])
def test_subsampled_record_by_integration(epsilon, shown):
    """Hockey-stick divergence of a mixture, integrated: with the record sampled or not."""
    share = 0.1
    shift = 1 / (share * papers.primo_algorithm_4_gram(epsilon, DELTA, share))

    def excess(x):
        mixture = (1 - share) * norm.pdf(x) + share * norm.pdf(x - shift)
        return max(mixture - math.exp(epsilon) * norm.pdf(x), 0.0)

    delta, _ = quad(excess, -10, shift + 10, points=[shift / 2, shift], limit=500)
    computed = {number.what: number for number in printed.subsampling()}
    number = computed[f"Algorithm 4, eps = {epsilon:g}: true delta at least"]
    assert number.value == pytest.approx(delta, rel=1e-6)
    assert delta == pytest.approx(shown, rel=0.01)


def test_amplification_inverts():
    assert printed.amplified(printed.amplified_inverse(2.5, 0.1), 0.1) == pytest.approx(2.5)


def test_a_person_at_all_parties_has_a_larger_epsilon():
    person = math.sqrt(11 / 2) * 0.1 / math.sqrt(2 * math.log(1.25e5))
    assert exact_epsilon(person, 1e-5) == pytest.approx(0.15448, abs=1e-5)


@pytest.mark.parametrize("split", [0.2, 1.0, 2.0])
def test_joint_scales_spend_mu_exactly(split):
    """The worst pair of full-length rows, found by a search over their angle, attains mu."""
    mu = mu_for(5.0, 1 / 5008**2)
    gram, cross = printed.joint_scales(split, mu)
    cosine = np.linspace(0, 1, 100_001)
    shift = (2 - 2 * cosine**2) / gram**2 + (2 + 2 * cosine) / cross**2
    assert math.sqrt(shift.max()) == pytest.approx(mu, rel=1e-9)
