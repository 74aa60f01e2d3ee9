"""Lemmas and theorems of the papers: what their experiments find, and that these are right."""

import math

import numpy as np
import pandas as pd
import pytest

from experiments import (
    multi_party,
    primo_complexity,
    primo_lemmas,
    thesis_bound,
    wu_rates,
)
from experiments.growth import exponent
from experiments.papers_constants import thesis_gaussian
from experiments.reproduction import Task
from primo_scale.gaussian.calibration import mu_for


def measured_of(lemma, n_repetitions=4):
    """Return the means of what is printed and measured, by the case."""
    rows = pd.DataFrame(
        [
            row
            for name in primo_lemmas.CHECKS
            for row in primo_lemmas.run_lemmas(Task({"check": name}, range(n_repetitions)))
            if row["lemma"] == lemma
        ]
    )
    return rows.groupby("case")[["printed", "measured"]].mean()


@pytest.mark.parametrize("lemma", ["2", "12"])
def test_identities_of_primo_hold(lemma):
    assert measured_of(lemma).measured.max() < 1e-12


def test_lemmas_of_primo_that_need_another_constant():
    noise = measured_of("4").measured
    assert noise["failures, 1 x the bound, rho = 0.001"] > 0.003
    assert noise["failures, 4 x the bound, rho = 0.001"] == 0
    ridge = measured_of("3").measured
    assert ridge["failures, 1 x the ridge of (11), rho = 0.05"] > 0.9
    assert ridge["failures, 2 x the ridge of (11), rho = 0.05"] == 0


def test_one_of_two_forms_of_hanson_wright_depends_on_the_units():
    constants = {lemma: measured_of(lemma).measured for lemma in ("5", "9")}
    small, large = (f"largest c, ||C|| = {norm}" for norm in (1, 100))
    assert constants["9"][large] == constants["9"][small] > 0.5
    assert constants["5"][large] == pytest.approx(constants["5"][small] / 100)


def test_a_projection_is_within_its_bounds():
    assert measured_of("8").measured.max() < 1


def test_exponents_of_the_sample_are_those_of_squared_norms():
    sampling = measured_of("7, 13").measured
    assert sampling["exponent of s, norm"] == pytest.approx(-0.5, abs=0.15)
    noise = measured_of("6, 14").measured
    assert noise["exponent of s, noise of Algorithm 4"] == pytest.approx(2, abs=0.3)
    assert noise["exponent of s, valid noise"] == pytest.approx(-2, abs=0.3)


def test_the_steps_of_algorithm_3_give_its_weights():
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((50, 4)), rng.standard_normal((50, 3))
    steps = primo_complexity.steps_of(X, Y)
    gram = X.T @ X / 50 + np.eye(4)
    np.testing.assert_allclose(steps["solutions"](), np.linalg.solve(gram, X.T @ Y / 50))
    # Inner products of C with the target in its singular basis, up to the factor of the paper.
    np.testing.assert_allclose(steps["U'b"](), Y @ (Y.T @ X / 50).reshape(3, 4), rtol=1e-9)
    assert {step for step, _ in primo_complexity.EXPONENTS} == steps.keys()


def test_the_exponent_is_the_slope_of_the_logs():
    rows = pd.DataFrame({"factor": [1, 2, 4, 1, 2, 4], "x": [3, 12, 48, 5, 20, 80]})
    assert exponent(rows, "x") == pytest.approx(2)


def test_excess_of_ada_ssp_grows_as_the_conditioned_term_for_independent_features():
    setting = {"design": "independent", "axis": "epsilon"}
    rows = pd.DataFrame(thesis_bound.run_excess(Task(setting, range(3))))
    assert (rows.excess < rows.larger).all()
    assert exponent(rows, "excess") == pytest.approx(-2, abs=0.2)
    assert exponent(rows, "smaller") == pytest.approx(-2, abs=0.01)


def rates_of(method, outcome, axis):
    setting = {"method": method, "outcome": outcome, "axis": axis}
    return exponent(pd.DataFrame(wu_rates.run_rates(Task(setting, range(4)))), "error", "median")


def test_theorem_2_of_wu_needs_residuals_to_be_attained():
    found = {outcome: rates_of("RMGM-OLS", outcome, "n") for outcome in wu_rates.RESIDUALS}
    assert found["outcome with residuals"] == pytest.approx(-0.25, abs=0.06)
    assert found["exact outcome"] == pytest.approx(-0.5, abs=0.06)
    assert rates_of("DGM-OLS", "exact outcome", "n") == pytest.approx(-0.5, abs=0.1)
    assert rates_of("DGM-OLS", "exact outcome", "sigma") == pytest.approx(2, abs=0.2)


def test_large_n_law_agrees_with_drawn_rows():
    """Mean error of RMGM-OLS at n = 20,000, by random signs and by the law of `wu_rates`."""
    n_people, sigma = 20_000, 1.0
    sd = 2 * math.sqrt(2) * sigma
    k = wu_rates.mixtures_of(n_people, multi_party.N_ATTRIBUTES, sd)
    drawn, by_law = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows, true = multi_party.synthetic_data(n_people, rng)
        mixed = multi_party.mixed_gram(rows, sd, k, rng)
        drawn.append(np.linalg.norm(multi_party.least_squares(mixed) - true))
        sizes = {"n": n_people, "sigma": sigma, "d": multi_party.N_ATTRIBUTES}
        by_law.append(wu_rates.error_of("RMGM-OLS", sizes, 0.0, rng))
    assert np.mean(by_law) == pytest.approx(np.mean(drawn), rel=0.1)


def test_mixing_keeps_inner_products_far_within_lemma_2():
    rows = pd.DataFrame(wu_rates.run_lemma_2(Task({"k": 1000}, range(10))))
    largest = rows.groupby("method").deviation.max()
    assert largest["largest deviation"] < largest["allowed at probability 0.05"] / 4


@pytest.mark.parametrize(
    ("delta", "largest"), [(1e-3, 8.5), (1e-5, 9.3), (1e-7, 10.0), (1e-9, 10.5)]
)
def test_lemma_7_of_the_thesis_is_sufficient_up_to_an_epsilon(delta, largest):
    assert 1 / thesis_gaussian(largest, delta) <= mu_for(largest, delta)
    assert 1 / thesis_gaussian(largest + 0.1, delta) > mu_for(largest + 0.1, delta)
