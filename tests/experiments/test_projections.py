"""Projections for many phenotypes: nearest points, and what they gain."""

import numpy as np
import pandas as pd
import pytest

from experiments import product_methods, product_weights, projections
from experiments.gaussian_noise import draw
from experiments.reproduction import Task
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.catalogue import ESTIMATORS
from primo_scale.privacy.mechanism import Promise

rng = np.random.default_rng(9)


def test_the_nuclear_projection_is_the_nearest_point():
    matrix = rng.standard_normal((5, 8))
    radius = 0.4 * np.linalg.norm(matrix, "nuc")
    nearest = projections.onto_nuclear_ball(matrix, radius)
    assert np.linalg.norm(nearest, "nuc") == pytest.approx(radius)
    # The variational inequality: the ball's extreme points are radius times u v'.
    for _ in range(200):
        u, v = rng.standard_normal(5), rng.standard_normal(8)
        point = radius * np.outer(u, v) / (np.linalg.norm(u) * np.linalg.norm(v))
        assert np.vdot(matrix - nearest, point - nearest) <= 1e-9
    assert projections.onto_nuclear_ball(matrix, 100.0) == pytest.approx(matrix)


@pytest.mark.parametrize("trace", [None, 1.5])
def test_the_semidefinite_projection_is_the_nearest_point(trace):
    matrix = rng.standard_normal((6, 6))
    matrix += matrix.T
    nearest = projections.onto_semidefinite(matrix, trace)
    assert np.linalg.eigvalsh(nearest)[0] >= -1e-12
    assert trace is None or np.trace(nearest) == pytest.approx(trace)
    for _ in range(200):
        root = rng.standard_normal((6, 6))
        point = root @ root.T
        point *= (trace or rng.uniform(0, 20)) / np.trace(point)
        assert np.vdot(matrix - nearest, point - nearest) <= 1e-9


def test_the_population_r_squared_is_that_of_many_new_people():
    people = projections.simulate(10, 4, "factors", np.random.default_rng(1))
    weights = people.effects + 0.05 * rng.standard_normal((10, 4))
    own = people.cohort
    found = own.pooled_r_squared(weights)
    assert people.r_squared(weights) == pytest.approx(found, abs=0.03)
    assert people.r_squared(people.effects) == pytest.approx(0.3)


def test_the_outcome_spectrum_is_the_same_from_both_sides(monkeypatch):
    monkeypatch.setattr(projections, "_PEOPLE", 40)
    people = projections.simulate(5, 60, "independent", np.random.default_rng(2))
    values, vectors = people.outcome_spectrum
    Y = people.cohort.phenotypes
    assert (vectors * values) @ vectors.T == pytest.approx(Y.T @ Y)


def test_only_joint_projections_gain_for_few_phenotypes():
    """Both balls that a release can know change little; the posterior needs no projection."""
    task = Task({"K": 25, "l": 100, "effects": "independent"}, [0])
    rows = pd.DataFrame(projections.run(task))
    share = rows.pivot_table(index=["unit", "epsilon"], columns="method", values="relative R^2").T
    full = share["full", 1.0]
    plain = full[projections.NONE]
    assert full[projections.NUCLEAR] == pytest.approx(plain, abs=0.02)
    assert full[projections.PSD] > plain + 0.02
    assert full["known-noise"] > full[projections.PSD]
    assert share["label", 1.0][projections.BY_X] < 0 < share["label", 1.0][projections.NONE]
    feature = share["feature", 1.0]
    assert feature[projections.BY_Y] > feature[projections.NONE] + 0.05


def test_the_remaining_noise_is_what_the_product_uses_after_its_projection():
    generator = np.random.default_rng(3)
    people = projections.simulate(25, 300, "independent", generator)
    promise = Promise(1.0, 1e-7, PrivacyUnit.FEATURE)
    noisy = product_methods.release(people.cohort, draw(25, 300, generator), promise)
    made = projections.projected(people, noisy, PrivacyUnit.FEATURE, None)[projections.BY_Y]()
    known = ESTIMATORS["known-noise"]
    here = product_weights.product_weights(made, people.cohort, known)
    product = product_weights.product_weights(
        noisy, people.cohort, known, method="reuse-cov-proj-y"
    )
    assert people.r_squared(here) == pytest.approx(people.r_squared(product), abs=0.002)
    plain = product_weights.product_weights(noisy, people.cohort, known)
    assert people.r_squared(plain) < people.r_squared(product) - 0.03
