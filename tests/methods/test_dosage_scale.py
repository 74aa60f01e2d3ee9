"""Weights in raw units predict what lattice weights predict, person by person."""

import numpy as np

from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.methods.dosage_scale import to_dosage_scale
from primo_scale.methods.solution import LatticeWeights
from primo_scale.outcomes.bounds import CovariateBounds, PhenotypeBounds
from primo_scale.outcomes.coding import code_outcomes
from primo_scale.privacy.clip_response import ClipResponse


def test_scores_in_raw_units_are_lattice_scores_decoded():
    rng = np.random.default_rng(1)
    k, m = np.array([3, 40, 17, 1]), np.array([2, 55, 3, 1])
    genotypes = GenotypeCoding(
        multiplier=k.astype(np.int16),
        centre=m.astype(np.int16),
        unit=16,
        variances=np.ones(4),
        source="test",
    )
    outcomes = code_outcomes(
        [
            PhenotypeBounds("height", 120.0, 220.0, 170.0, 9.0, "quantitative"),
            PhenotypeBounds("case", 1.0, 2.0, 1.2, 0.4, "binary"),
        ],
        [CovariateBounds("age", 18.0, 90.0, 50.0), CovariateBounds("sex", 0.0, 1.0, 0.5)],
        weight=0.25,
    )
    weights = LatticeWeights(rng.normal(size=(4, 2)), rng.normal(size=(3, 2)))
    response = ClipResponse(
        slope=np.array([0.7, 0.4]), offset=np.array([0.0, -0.2]), variance=np.ones(2)
    )
    raw = to_dosage_scale(weights, genotypes, outcomes, response)

    dosages, age, sex = rng.integers(0, 3, (50, 4)), rng.uniform(18, 90, 50), rng.integers(0, 2, 50)
    scales = [c.scale for c in outcomes.covariates]
    fixed = np.column_stack(
        [np.full(50, outcomes.constant), (age - 50) * scales[0], (sex - 0.5) * scales[1]]
    )
    clipped = (fixed @ weights.fixed + (k * dosages - m) @ weights.genotypes) / outcomes.unit
    standardised = (clipped - response.offset) / response.slope
    expected = [170.0, 1.2] + standardised * [9.0, 0.4]
    ours = raw.intercept + dosages @ raw.per_allele + np.column_stack([age, sex]) @ raw.covariates
    np.testing.assert_allclose(ours, expected, rtol=1e-9)
