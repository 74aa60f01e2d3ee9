"""Weights in raw units predict what lattice weights predict, person by person."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.methods.solve import round_in_place, to_dosage_scale
from primo_scale.outcomes.coding import CovariateBounds, PhenotypeBounds, code_outcomes
from primo_scale.privacy.planning import ClipResponse


def significant(value, digits):
    return float(f"{value:.{digits - 1}e}")


@given(
    st.lists(st.floats(-1e250, 1e250).filter(lambda x: x == 0 or abs(x) > 1e-290), min_size=1),
    st.integers(2, 6),
)
def test_rounded_numbers_are_near_and_have_no_more_digits(values, digits):
    exact = np.array(values)
    found = exact[:, None].copy()
    round_in_place(found, digits)
    error = np.abs(found[:, 0] - exact)
    assert np.all(error <= (0.5 + 1e-9) * 10.0 ** (1 - digits) * np.abs(exact))
    texts = [f"{value:.9g}" for value in found[:, 0].tolist()]
    assert texts == [f"{significant(value, digits):.9g}" for value in found[:, 0].tolist()]
    again = found.copy()
    round_in_place(again, digits)
    np.testing.assert_allclose(again, found, rtol=1e-15)


@pytest.mark.parametrize("digits", [None, 2])
def test_scores_in_raw_units_are_lattice_scores_decoded(digits):
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
    )
    of_codes, fixed_weights = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    response = ClipResponse(
        slope=np.array([0.7, 0.4]), offset=np.array([0.0, -0.2]), variance=np.ones(2)
    )
    lattice = of_codes, fixed_weights
    per_allele, intercept, covariates = to_dosage_scale(
        lattice, genotypes, outcomes, response, digits=digits
    )
    if digits is not None:
        units = k[:, None] * [9.0 / 0.7, 0.4 / 0.4] / outcomes.unit
        rounded = [[significant(w, digits) for w in row] for row in of_codes * units]
        np.testing.assert_allclose(per_allele, rounded, rtol=1e-12)
        of_codes = np.array(rounded) / units

    dosages, age, sex = rng.integers(0, 3, (50, 4)), rng.uniform(18, 90, 50), rng.integers(0, 2, 50)
    scales = [c.scale for c in outcomes.covariates]
    fixed = np.column_stack(
        [np.full(50, outcomes.constant), (age - 50) * scales[0], (sex - 0.5) * scales[1]]
    )
    clipped = (fixed @ fixed_weights + (k * dosages - m) @ of_codes) / outcomes.unit
    standardised = (clipped - response.offset) / response.slope
    expected = [170.0, 1.2] + standardised * [9.0, 0.4]
    ours = intercept + dosages @ per_allele + np.column_stack([age, sex]) @ covariates
    np.testing.assert_allclose(ours, expected, rtol=1e-9)
