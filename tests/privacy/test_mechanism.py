"""The calibrated mechanism against brute force over neighbours, and its integer limits."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from primo_scale.errors import UsageError
from primo_scale.privacy.calibration import release_mu
from primo_scale.privacy.mechanism import PublicBounds, calibrate

BOUNDS = PublicBounds(row_norm=20_000, outcome_norm=50_000, n_samples=343, n_phenotypes=70)


def rows_within(n_columns, norm):
    side = range(-math.isqrt(norm), math.isqrt(norm) + 1)
    rows = np.array(list(itertools.product(side, repeat=n_columns)), dtype=float)
    return rows[(rows**2).sum(1) <= norm]


def squared_shift(left, right, sigma, off_diagonal_sigma=None):
    """Squared length, in units of the noise, of every change of one row's contribution."""
    statistics = np.einsum("ij,ik->ijk", left, right)
    changes = statistics[:, None] - statistics[None]
    variances = np.full(statistics.shape[1:], sigma**2)
    if off_diagonal_sigma is not None:  # each unordered pair of entries is released once
        variances = np.where(np.eye(len(variances)) == 1, sigma**2, off_diagonal_sigma**2)
        variances[np.tril_indices(len(variances), -1)] = np.inf
    return (changes**2 / variances).sum((2, 3))


@pytest.mark.parametrize("split", [0.05, 0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    ("row_norm", "outcome_norm", "n_columns", "n_outcomes"),
    [(4, 4, 2, 2), (9, 4, 2, 1), (2, 9, 1, 2), (2, 1, 3, 1), (7, 3, 1, 1)],
)
def test_no_neighbours_are_further_apart_than_mu(
    split, row_norm, outcome_norm, n_columns, n_outcomes
):
    bounds = PublicBounds(row_norm, outcome_norm, n_samples=10, n_phenotypes=n_outcomes)
    found = calibrate(bounds, epsilon=1.0, delta=1e-6, split=split)
    left, right = rows_within(n_columns, row_norm), rows_within(n_outcomes, outcome_norm)
    x, z = np.repeat(left, len(right), 0), np.tile(right, (len(left), 1))
    shift = squared_shift(x, x, found.gram_sigma, found.gram_off_diagonal_sigma)
    shift += squared_shift(x, z, found.cross_sigma)
    shift += squared_shift(z, z, found.outcome_sigma, found.outcome_off_diagonal_sigma)
    counts_shift = n_outcomes / found.counts_sigma**2
    assert shift.max() + counts_shift <= found.mu**2
    if split == 2.0 and n_columns > 1:
        assert shift.max() + counts_shift >= 0.99 * found.mu**2


def test_noise_is_that_of_the_documentation():
    found = calibrate(BOUNDS, epsilon=5.0, delta=1e-8, split=2.0)
    mu = release_mu(5.0, 1e-8) * math.sqrt(0.99)
    assert found.gram_sigma == pytest.approx(2 * math.sqrt(2) * 20_000 / mu, rel=1e-12)
    assert found.cross_sigma == pytest.approx(2 * math.sqrt(20_000 * 50_000) / mu, rel=1e-12)
    assert found.outcome_sigma == pytest.approx(2 * math.sqrt(2) * 50_000 / mu, rel=1e-12)
    assert found.counts_sigma == pytest.approx(10 * math.sqrt(70) / found.mu, rel=1e-12)
    assert found.mu == release_mu(5.0, 1e-8)


def test_public_parameters_are_json_and_complete():
    found = calibrate(BOUNDS, epsilon=5.0, delta=1e-8, split=0.7)
    public = json.loads(json.dumps(found.as_public_parameters()))
    assert asdict(found).items() <= public.items()
    assert public["adjacency"] == "replace-one"
    assert public["gram_off_diagonal_sigma"] == found.gram_off_diagonal_sigma


@pytest.mark.parametrize("split", [0.0, -1.0, 2.1, math.nan])
def test_split_out_of_range_is_refused(split):
    with pytest.raises(UsageError, match="split"):
        calibrate(BOUNDS, epsilon=1.0, delta=1e-6, split=split)


@pytest.mark.parametrize("name", ["row_norm", "outcome_norm", "n_samples", "n_phenotypes"])
def test_bounds_that_are_not_positive_are_refused(name):
    with pytest.raises(UsageError, match=name.replace("_", " ")):
        calibrate(replace(BOUNDS, **{name: 0}), epsilon=1.0, delta=1e-6, split=1.0)


def test_sums_that_could_wrap_around_are_refused():
    bounds = replace(BOUNDS, row_norm=2**44, n_samples=2**19)
    with pytest.raises(UsageError, match="64-bit integers"):
        calibrate(bounds, epsilon=1.0, delta=1e-6, split=1.0)
    calibrate(replace(bounds, n_samples=2**18), epsilon=1.0, delta=1e-6, split=1.0)


def test_noise_beyond_the_sampler_is_refused():
    bounds = replace(BOUNDS, row_norm=2**57, n_samples=1)
    with pytest.raises(UsageError, match="64-bit sampling"):
        calibrate(bounds, epsilon=1.0, delta=1e-6, split=1.0)
