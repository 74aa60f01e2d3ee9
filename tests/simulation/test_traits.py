"""Traits against the model that made them. False-alarm probabilities as in test_mosaic.py."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from primo_scale.errors import InputError
from primo_scale.simulation.cohort import TraitModel, draw_effects, simulate_people

FALSE_ALARM = 1e-6
LARGEST_Z = float(stats.norm.isf(FALSE_ALARM / 2))
N_PEOPLE = 30_000
MODEL = TraitModel(n_quantitative=2, prevalence=0.2, heritability=0.4, causal_fraction=0.05)


def joined(slabs):
    _, *columns = zip(*slabs, strict=True)
    names = "sex", "age", "genetic_value", "trait"
    return SimpleNamespace(**dict(zip(names, map(np.concatenate, columns), strict=True)))


def effects_for(panel, mosaic, model, seed):
    return draw_effects(mosaic, panel.a1_frequency[mosaic.panel_row], model, seed=seed)


@pytest.fixture(scope="module")
def cohort(panel, mosaic_of):
    mosaic = mosaic_of(n_variants=3_000, mean_segment=200)
    effects = effects_for(panel, mosaic, MODEL, seed=3)
    return joined(simulate_people(mosaic, N_PEOPLE, MODEL, effects))


def assert_mean(sample, expected):
    z = (sample.mean() - expected) / (sample.std() / np.sqrt(len(sample)))
    assert abs(z) < LARGEST_Z


@pytest.mark.parametrize("trait", [0, 1])
def test_heritability_is_as_requested(cohort, trait):
    genetic, value = cohort.genetic_value[:, trait], cohort.trait[:, trait]
    assert_mean(genetic, 0)
    assert_mean(genetic**2, MODEL.heritability)
    assert_mean(value, 0)
    assert_mean(value**2, 1)
    fit = stats.linregress(genetic, value)
    assert abs(fit.slope - 1) < LARGEST_Z * fit.stderr
    # R^2 of the true genetic value; its standard error is about 2 sqrt(R^2/n) (1 - R^2).
    error = 2 * np.sqrt(MODEL.heritability / N_PEOPLE) * (1 - MODEL.heritability)
    assert abs(fit.rvalue**2 - MODEL.heritability) < LARGEST_Z * error


def test_cases_have_the_prevalence_and_a_higher_genetic_liability(cohort):
    case, liability = cohort.trait[:, 2], cohort.genetic_value[:, 2]
    assert set(case) == {0, 1}
    # Liabilities are normal up to the finite number of causal variants: 2 points of tolerance.
    assert abs(case.mean() - 0.2) < 0.02
    # Mean genetic liability of cases: h2 phi(t) / K (Falconer 1965).
    expected = 0.4 * stats.norm.pdf(stats.norm.isf(0.2)) / 0.2
    assert liability[case == 1].mean() == pytest.approx(expected, rel=0.1)


def test_a_panel_without_variation_has_no_heritable_trait(mosaic_of):
    mosaic = mosaic_of(n_variants=5)
    with pytest.raises(InputError, match="no polymorphic variant"):
        draw_effects(mosaic, np.array([0.0, 1, 0, 1, 0]), MODEL, seed=1)
