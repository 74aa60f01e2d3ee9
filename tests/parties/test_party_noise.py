"""Sensitivity and noise of a party's values, by brute force on neighbouring cohorts."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
from dp_accounting import dp_event, pld
from support.party_examples import signs_of
from support.tiers import thinned

from primo_scale.gaussian.calibration import release_mu
from primo_scale.outcomes.coding import BOUNDED_UNIT, PhenotypeBounds, code_within_bounds
from primo_scale.parties.release import party_noise, party_sensitivity
from primo_scale.verify.document import Mixtures


def bounds_of(lower, upper):
    name = f"{lower} to {upper}"
    return PhenotypeBounds(name, lower, upper, (lower + upper) / 2, 1.0, "quantitative")


BOUNDS = (bounds_of(-1, 1), bounds_of(0, 3), bounds_of(-7, 0), bounds_of(1e-3, 2e-3))
EXTREMES = (-1e300, -7.0, 0.0, 1.5e-3, 3.0, 1e300, math.nan, math.inf, -math.inf)


@pytest.mark.parametrize("n_mixtures", [None, 1, 5])
def test_no_replaced_row_exceeds_the_sensitivity(n_mixtures):
    rows = np.array(list(product(EXTREMES, repeat=2)))
    coded = [code_within_bounds(rows, (one, other))[0] for one, other in pairwise(BOUNDS)]
    signs = None
    if n_mixtures is not None:
        signs = signs_of(Mixtures(n_mixtures, "0" * 32), np.arange(1))
    farthest = 0.0
    for units in coded:
        changes = (units[:, None, :] - units[None, :, :]).reshape(-1, 2).astype(np.float64)
        if signs is not None:  # k sums of the change with one person's signs
            changes = (signs[0][None, :, None] * changes[:, None, :]).reshape(len(changes), -1)
        farthest = max(farthest, float(np.linalg.norm(changes, axis=1).max()))
    claimed = party_sensitivity(2, n_mixtures)
    assert farthest <= claimed
    assert farthest >= claimed * (1 - 1e-5)  # the bound is attained


def test_codes_stay_within_the_unit_and_missing_values_are_zero():
    values = np.array([[math.nan, -9.0], [-1e9, 1e9], [0.5, 1.5]])
    units, observed = code_within_bounds(values, BOUNDS[:2])
    assert np.abs(units).max() == BOUNDED_UNIT
    assert units[0].tolist() == [0, 0]
    assert observed.tolist() == [[False, False], [True, True], [True, True]]
    assert units[2].tolist() == [BOUNDED_UNIT // 2, 0]


@pytest.mark.parametrize("n_mixtures", thinned([None, 50], every=2))
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (5.0, 1e-9)])
def test_noise_gives_the_promise_by_another_accountant(epsilon, delta, n_mixtures):
    sigma, cost = party_noise(epsilon, delta, n_columns=3, n_mixtures=n_mixtures, person_columns=3)
    multiplier = sigma / party_sensitivity(3, n_mixtures)

    def attained(factor):
        accountant = pld.PLDAccountant()
        accountant.compose(dp_event.GaussianDpEvent(multiplier * factor))
        return float(accountant.get_epsilon(delta))

    assert attained(1.0) <= epsilon * 1.001  # the accountant rounds up
    assert attained(0.9) > epsilon * 1.05  # less noise would break the promise
    assert cost.mu_squared == pytest.approx(release_mu(epsilon, delta) ** 2)


def test_parties_of_a_person_share_one_promise():
    parts = [
        party_noise(2.0, 1e-6, n_columns=n, n_mixtures=None, person_columns=6) for n in (1, 2, 3)
    ]
    assert len({sigma for sigma, _ in parts}) == 1
    total = math.fsum(cost.mu_squared for _, cost in parts)
    assert total == pytest.approx(release_mu(2.0, 1e-6) ** 2, rel=1e-12)
    alone, _ = party_noise(2.0, 1e-6, n_columns=2, n_mixtures=None, person_columns=2)
    assert parts[1][0] == pytest.approx(alone * math.sqrt(3), rel=1e-12)
