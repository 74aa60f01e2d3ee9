"""Traits against the model that made them. False-alarm probabilities as in test_mosaic.py."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from primo_scale.errors import InputError
from primo_scale.simulation import cohort as cohort_module
from primo_scale.simulation.cohort import (
    AGE_MEAN,
    AGE_SD,
    TraitModel,
    draw_effects,
    simulate_people,
)

FALSE_ALARM = 1e-6
LARGEST_Z = float(stats.norm.isf(FALSE_ALARM / 2))
N_PEOPLE = 30_000
MODEL = TraitModel(n_quantitative=2, prevalence=0.2, heritability=0.4, causal_fraction=0.05)


def joined(slabs):
    """Return the columns of all slabs by name."""
    slabs, names = list(slabs), ("sex", "age", "genetic_value", "trait")
    return SimpleNamespace(
        **{name: np.concatenate([getattr(slab, name) for slab in slabs]) for name in names}
    )


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


def test_age_explains_a_twentieth_of_the_variance(cohort):
    z = (cohort.age - AGE_MEAN) / AGE_SD
    assert_mean(z, 0)
    assert_mean(z**2, 1)
    fit = stats.linregress(z, cohort.trait[:, 0])
    assert abs(fit.slope - np.sqrt(0.05)) < LARGEST_Z * fit.stderr


def test_both_sexes_are_equally_frequent(cohort):
    assert set(cohort.sex) == {1, 2}
    assert stats.binomtest(int((cohort.sex == 2).sum()), N_PEOPLE, 0.5).pvalue > FALSE_ALARM


def test_cases_have_the_prevalence_and_a_higher_genetic_liability(cohort):
    case, liability = cohort.trait[:, 2], cohort.genetic_value[:, 2]
    assert set(case) == {0, 1}
    # Liabilities are normal up to the finite number of causal variants: 2 points of tolerance.
    assert abs(case.mean() - 0.2) < 0.02
    # Mean genetic liability of cases: h2 phi(t) / K (Falconer 1965).
    expected = 0.4 * stats.norm.pdf(stats.norm.isf(0.2)) / 0.2
    assert liability[case == 1].mean() == pytest.approx(expected, rel=0.1)


def test_effects_are_sparse_and_on_polymorphic_variants(panel, mosaic_of):
    mosaic = mosaic_of(n_variants=3_000)
    effects = effects_for(panel, mosaic, MODEL, seed=3)
    polymorphic = (panel.a1_frequency > 0) & (panel.a1_frequency < 1)
    assert not polymorphic.all()  # otherwise the next line cannot fail
    assert polymorphic[effects.variant].all()
    assert np.bincount(effects.trait).tolist() == [round(0.05 * polymorphic.sum())] * 3
    assert (np.diff(effects.variant) >= 0).all()


def test_effects_depend_only_on_their_own_seed(panel, mosaic_of):
    one, same, other = (
        effects_for(panel, mosaic_of(seed=people), MODEL, seed=seed)
        for people, seed in ((1, 3), (2, 3), (1, 4))
    )
    np.testing.assert_array_equal(one.variant, same.variant)
    np.testing.assert_array_equal(one.beta, same.beta)
    assert not np.array_equal(one.variant, other.variant)


def test_results_do_not_depend_on_the_slab_size(panel, mosaic_of, monkeypatch):
    mosaic = mosaic_of()
    effects = effects_for(panel, mosaic, MODEL, seed=3)
    whole = list(simulate_people(mosaic, 1_001, MODEL, effects))
    monkeypatch.setattr(cohort_module, "_PEOPLE_PER_SLAB", 17)
    pieces = list(simulate_people(mosaic, 1_001, MODEL, effects))
    assert len(whole) == 1
    assert len(pieces) == 59
    np.testing.assert_equal(vars(joined(pieces)), vars(joined(whole)))


def test_a_panel_without_variation_has_no_heritable_trait(mosaic_of):
    mosaic = mosaic_of(n_variants=5)
    with pytest.raises(InputError, match="no polymorphic variant"):
        draw_effects(mosaic, np.array([0.0, 1, 0, 1, 0]), MODEL, seed=1)
