"""The response to clipping, compared with simulated rows."""

import numpy as np
import pytest

from primo_scale.privacy.clip_response import clip_response, no_clipping


@pytest.mark.parametrize("clip", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("n_normal", [0, 1, 7])
@pytest.mark.parametrize("prevalence", [0.05, 0.5])
def test_slope_and_offset_are_those_of_simulated_rows(clip, n_normal, prevalence):
    rng = np.random.default_rng(7)
    n = 100_000
    sd = np.sqrt(prevalence * (1 - prevalence))
    levels = (-prevalence / sd, (1 - prevalence) / sd)
    case = rng.random(n) < prevalence
    rows = np.column_stack([np.where(case, levels[1], levels[0]), rng.normal(size=(n, n_normal))])
    bound = clip * np.sqrt(1 + n_normal)
    norms = np.linalg.norm(rows, axis=1)
    clipped = rows * np.minimum(1, bound / norms)[:, None]
    response = clip_response(clip, [levels, *[None] * n_normal], np.ones(1 + n_normal))
    # Least squares of the clipped on the original values is the definition of slope and offset.
    for j in range(1 + n_normal):
        slope, offset = np.polyfit(rows[:, j], clipped[:, j], 1)
        standard_error = clipped[:, j].std() / np.sqrt(n)
        if j == 0:
            assert response.slope[j] == pytest.approx(slope, abs=6 * standard_error + 1e-3)
            assert response.offset[j] == pytest.approx(offset, abs=6 * standard_error + 1e-3)
        elif n_normal == 7:
            # The norm of the others treats the binary phenotype as normal, an approximation.
            assert response.slope[j] == pytest.approx(slope, rel=0.06)
            assert abs(offset) < 6 * standard_error


def test_the_response_without_clipping_is_the_identity():
    response = no_clipping(3)
    np.testing.assert_array_equal(response.slope, [1, 1, 1])
    np.testing.assert_array_equal(response.offset, [0, 0, 0])
    far = clip_response(50.0, [(-0.5, 2.0), None], np.ones(2))
    np.testing.assert_allclose(far.slope, 1, atol=1e-9)
    np.testing.assert_allclose(far.offset, 0, atol=1e-9)


@pytest.mark.parametrize("n_phenotypes", [3, 10, 40])
@pytest.mark.parametrize("share", [0.4, 0.7])
def test_missing_values_make_rows_shorter_and_the_slope_larger(n_phenotypes, share):
    rng = np.random.default_rng(8)
    n = 50_000
    complete = rng.normal(size=(n, n_phenotypes))
    rows = complete * (rng.random((n, n_phenotypes)) < share)
    norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    clipped = rows * np.minimum(1, 0.5 * np.sqrt(n_phenotypes) / norms)
    observed = rows[:, 0] != 0
    slope = np.polyfit(rows[observed, 0], clipped[observed, 0], 1)[0]
    levels = [None] * n_phenotypes
    response = clip_response(0.5, levels, np.full(n_phenotypes, share))
    assert response.slope[0] == pytest.approx(slope, rel=0.05)
    ignored = clip_response(0.5, levels, np.ones(n_phenotypes))
    assert abs(ignored.slope[0] / slope - 1) > abs(response.slope[0] / slope - 1)
