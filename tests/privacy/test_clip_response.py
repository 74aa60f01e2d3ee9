"""The response to clipping, compared with simulated rows."""

import numpy as np
import pytest

from primo_scale.accumulation.clipping_rules import ClippingRule
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.privacy.planning import clip_response, response_of_scaled_records


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
            assert response.variance[j] == pytest.approx(clipped[:, j].var(), rel=0.02)
        elif n_normal == 7:
            # The norm of the others treats the binary phenotype as normal, an approximation.
            assert response.slope[j] == pytest.approx(slope, rel=0.06)
            assert response.variance[j] == pytest.approx(clipped[:, j].var(), rel=0.1)
            assert abs(offset) < 6 * standard_error


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


@pytest.mark.parametrize("clip", [0.5, 3.0])
@pytest.mark.parametrize("bound", [0.6, 1.0])
@pytest.mark.parametrize(
    ("privacy", "long_records"),
    [
        (PrivacyUnit.FULL, "record"),
        (PrivacyUnit.FEATURE, "record"),
        (PrivacyUnit.LABEL, "phenotypes"),
    ],
)
def test_weights_of_scaled_records_have_the_slope(clip, bound, privacy, long_records):
    rng, degrees, unit = np.random.default_rng(9), 12, 4_000
    people, effect = 200_000, 0.1
    codes = np.rint(30 * rng.standard_normal((people, degrees))).astype(np.int64)
    norms = (codes**2).sum(axis=1, keepdims=True)
    genetic = effect * codes.sum(axis=1) / 30
    noise = rng.standard_normal((people, 3))
    noise[:, 0] *= np.sqrt(1 - degrees * effect**2)
    rows = np.rint(unit * (noise + np.outer(genetic, [1, 0, 0]))).astype(np.int16)
    row_norm, phenotype_norm = round(bound * 900 * degrees), round(3 * (clip * unit) ** 2)
    rule = ClippingRule(long_records, row_norm, None, phenotype_norm)
    _, record = rule.shrink(norms)
    clipped = rule.clip_outcomes(rows, 0, record, norms)[:, 0]
    scaled = codes * (record[:, None] / 2**31)
    direction = np.ones(degrees)
    found = direction @ (scaled.T @ clipped) / (direction @ (scaled.T @ scaled) @ direction)
    levels, observed = [None] * 3, np.ones(3)
    response = response_of_scaled_records(
        lambda factor: clip_response(factor * clip, levels, observed),
        degrees,
        bound,
        privacy,
    )
    slope = found / (effect / 30 * unit)
    assert response.slope[0] == pytest.approx(slope, rel=0.015)
    assert response.gram_share == pytest.approx((scaled**2).sum() / (codes**2).sum(), rel=0.01)
    lengths = (scaled**2).sum(axis=1)
    variance = lengths @ (clipped / unit) ** 2 / lengths.sum()
    assert response.variance[0] == pytest.approx(variance, rel=0.02)
