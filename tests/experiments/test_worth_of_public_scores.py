"""Effects of the public cohort, and the fractions of the table."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from experiments.public_scores import _fraction, _sum_of_effects, main
from experiments.releases import DEMO, demo_panel, mosaic_of
from primo_scale.simulation.cohort import (
    Effects,
    ReferencePanel,
    TraitModel,
    draw_effects,
    population_variance,
)


def test_effects_of_the_public_cohort_have_the_correlation_and_the_heritability(panel):
    mosaic, model = mosaic_of(panel, 0), TraitModel(1, None, 0.3, 0.5)
    one, two = (draw_effects(mosaic, panel.a1_frequency, model, seed=seed) for seed in (1, 2))
    both = _sum_of_effects(one, two, 0.6)
    assert (np.diff(both.variant) >= 0).all()

    def variance(effects: Effects, sign: float, other: Effects) -> float:
        signed = Effects(other.variant, other.trait, other.a1_frequency, sign * other.beta)
        return population_variance(mosaic, _joined(effects, signed).scores())

    covariance = (variance(both, 1, one) - variance(both, -1, one)) / 4
    between = (variance(two, 1, one) - variance(two, -1, one)) / 4
    assert covariance == pytest.approx(0.6 * 0.3 + 0.8 * between)
    assert population_variance(mosaic, both.scores()) == pytest.approx(0.3 + 0.96 * between)


def _joined(one: Effects, two: Effects) -> Effects:
    scaled = _sum_of_effects(one, two, np.sqrt(0.5))
    return Effects(scaled.variant, scaled.trait, scaled.a1_frequency, scaled.beta * np.sqrt(2))


@pytest.fixture
def panel() -> ReferencePanel:
    whole = demo_panel()
    return ReferencePanel(whole.variants.select(np.arange(60)), whole.codes[:60])


def test_fractions_are_ratios_of_means_with_intervals_over_traits():
    reference = pd.Series([0.2, 0.1, 0.3])
    assert _fraction(reference / 2, reference) == "0.500 +- 0.000"
    values = reference / 2 + [0.02, -0.02, 0.0]
    assert _fraction(values, reference) == f"0.500 +- {1.96 * 0.1 / np.sqrt(3):.3f}"
    assert _fraction(values[:1], reference[:1]) == "0.600"


@pytest.mark.slow
def test_every_prior_of_a_cell_is_released_and_evaluated(tmp_path):
    options = "--private-people 600 --public-people 800 --traits 2 --most-releases 1 --cell 5 1"
    arguments = ["--folder", str(tmp_path), "--panel", str(DEMO), *options.split()]
    row = CliRunner().invoke(main, arguments, catch_exceptions=False).stdout.splitlines()[-1]
    label, traits, *fractions = (cell.strip() for cell in row.strip("|").split("|"))
    assert (label, traits) == ("5, 1", "1")
    alone, public, both, useless, cost = map(float, fractions)
    assert both > max(alone, public) - 0.1
    assert useless == pytest.approx(alone + cost, abs=2e-3)
