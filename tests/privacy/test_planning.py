"""The planner, compared with simulated clipped phenotypes and with a search for its optimum."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from public_sizes import SIZES
from scipy.stats import chi2

from primo_scale.errors import UsageError
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.privacy.accuracy import forecast
from primo_scale.privacy.mechanism import Promise, PublicBounds, Recipe
from primo_scale.privacy.planning import (
    attenuation,
    choose_phenotype_clip,
    phenotype_norm,
    split_for,
    variance_left,
)
from primo_scale.privacy.scales import calibrate

FIXED_NORM = 1024**2
REPLACE, ADD = Adjacency


@pytest.mark.parametrize("clip", [0.3, 0.8, 2.0])
@pytest.mark.parametrize("n_phenotypes", [1, 7])
def test_clipped_moments_are_those_of_clipped_normal_rows(clip, n_phenotypes):
    rows = np.random.default_rng(3).standard_normal((400_000, n_phenotypes))
    bound = clip * math.sqrt(n_phenotypes)
    clipped = rows * np.minimum(1, bound / np.linalg.norm(rows, axis=1))[:, None]
    assert attenuation(clip, n_phenotypes) == pytest.approx(np.mean(rows * clipped), rel=0.01)
    assert variance_left(clip, n_phenotypes) == pytest.approx(np.mean(clipped**2), rel=0.01)


@pytest.mark.parametrize("clip", [0.1, 0.5, 1.0, 3.0])
def test_attenuation_of_one_phenotype_has_a_closed_form(clip):
    assert attenuation(clip, 1) == pytest.approx(math.erf(clip / math.sqrt(2)), rel=1e-12)


def cross_sigma(sizes, norm, *, epsilon=5.0, adjacency=REPLACE):
    """Noise on X'Y at a bound on phenotype rows, through the calibrated mechanism itself."""
    bounds = PublicBounds(
        sizes.row_norm, None, FIXED_NORM, norm, (sizes.n_variants,), sizes.n_samples,
        sizes.n_phenotypes,
    )  # fmt: skip
    split = split_for(sizes, outcome_norm=bounds.outcome_norm, adjacency=adjacency, block_norm=None)
    promise = Promise(epsilon, 1e-10, adjacency=adjacency)
    return calibrate(bounds, promise, Recipe(), split=split).scales.phenotype_cross


def planned(sizes, clip):
    """Effective sample size at a clip, for unlinked variants."""
    sigma = cross_sigma(sizes, phenotype_norm(sizes, clip=clip))
    return forecast(sizes, np.ones(1), clip=clip, cross_sigma=sigma).effective_sample_size


@pytest.mark.parametrize("n_samples", [343, 100_000, 5_000_000])
@pytest.mark.parametrize("n_phenotypes", [1, 10, 100])
def test_chosen_clip_is_the_best(n_samples, n_phenotypes):
    sizes = replace(SIZES, n_samples=n_samples, n_phenotypes=n_phenotypes)
    chosen = choose_phenotype_clip(sizes, lambda norm: cross_sigma(sizes, norm))
    others = [planned(sizes, clip) for clip in np.linspace(0.26, 4.0, 60)]
    assert planned(sizes, chosen) >= 0.999 * max(others)


def test_effective_sample_size_is_that_of_a_simulated_release():
    """The squared correlation of noisy with true covariances, over many unlinked variants."""
    generator = np.random.default_rng(8)
    sizes = replace(
        SIZES,
        n_samples=2_000,
        phenotype_scale=1,
        variant_variance=1.0,
        row_norm=SIZES.n_variants * 100,
    )
    clip, sigma, n_variants = 0.7, 40.0, 4_000
    phenotype = generator.standard_normal(2_000)
    clipped = np.clip(phenotype, -clip, clip)
    # Every variant has correlation rho with the phenotype.
    rho = 0.1
    variants = rho * phenotype + math.sqrt(1 - rho**2) * generator.standard_normal(
        (n_variants, 2_000)
    )
    noisy = variants @ clipped + sigma * generator.standard_normal(n_variants)
    signal_to_noise = noisy.mean() ** 2 / noisy.var()
    predicted = forecast(sizes, np.ones(1), clip=clip, cross_sigma=sigma).effective_sample_size
    assert signal_to_noise == pytest.approx(rho**2 * predicted, rel=0.12)


def test_phenotype_norm_is_the_least_of_its_three_limits():
    scale = 1024**2
    sizes = replace(SIZES, n_phenotypes=10)
    assert phenotype_norm(sizes, clip=0.5) == math.floor(scale * 2.5)
    assert phenotype_norm(sizes, clip=9.0) == math.floor(scale * chi2.ppf(0.99, 10))
    assert phenotype_norm(sizes, clip=9.0, largest_norm=3.0) == 3 * scale


def test_phenotype_bounds_that_round_to_zero_are_refused():
    with pytest.raises(UsageError, match="rounds to zero"):
        phenotype_norm(SIZES, clip=1.0, largest_norm=0.0)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("block_norm", [None, 400])
def test_split_gives_many_phenotypes_to_the_cross_products(adjacency, block_norm):
    splits = [
        split_for(
            replace(SIZES, n_phenotypes=count),
            outcome_norm=1024**2 * (1 + count),
            adjacency=adjacency,
            block_norm=block_norm,
        )
        for count in (1, 100, 10_000)
    ]
    assert splits == sorted(splits)
    assert splits[0] == (0.7 if block_norm is None else 1.2)
    assert 1.5 < splits[-1] <= 2
