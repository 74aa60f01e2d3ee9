"""The planner and the forecast, against closed forms, searches, simulations and real genotypes."""

import math
from dataclasses import replace
from itertools import pairwise

import bed_reader
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import chi2

from primo_scale.errors import UsageError
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.privacy.mechanism import Promise, PublicBounds, Recipe, calibrate
from primo_scale.privacy.planning import (
    PRIOR_HERITABILITY,
    Measurement,
    PublicSizes,
    choose_phenotype_clip,
    clipped_phenotype,
    expected_r2_sum,
    fill,
    forecast_of,
    noise_variance,
    phenotype_norm,
    spectrum_shape,
    split_for,
)

SIZES = PublicSizes(
    n_samples=100_000,
    n_variants=17_259,
    n_phenotypes=1,
    largest_block=500,
    row_norm=7_800,
    variant_variance=0.4,
    phenotype_scale=1024,
)
UNLINKED = np.ones(1)
UNBOUNDED = replace(SIZES, row_norm=100 * SIZES.row_norm)
ROUNDED = 1 + 1e-12


def forecast(sizes, eigenvalues, **noise):
    return forecast_of(Measurement(sizes, eigenvalues, **noise), sizes.n_variants)


@pytest.mark.parametrize("clip", [0.3, 0.8, 2.0])
@pytest.mark.parametrize("n_phenotypes", [1, 7])
def test_clipped_moments_are_those_of_clipped_normal_rows(clip, n_phenotypes):
    rows = np.random.default_rng(3).standard_normal((400_000, n_phenotypes))
    bound = clip * math.sqrt(n_phenotypes)
    clipped = rows * np.minimum(1, bound / np.linalg.norm(rows, axis=1))[:, None]
    simulated = np.mean(rows * clipped), np.mean(clipped**2)
    assert clipped_phenotype(clip, n_phenotypes) == pytest.approx(simulated, rel=0.01)


@pytest.mark.parametrize("clip", [0.1, 0.5, 1.0, 3.0])
def test_attenuation_of_one_phenotype_has_a_closed_form(clip):
    assert clipped_phenotype(clip, 1)[0] == pytest.approx(math.erf(clip / math.sqrt(2)), rel=1e-12)


def cross_sigma(sizes, norm):
    """Noise on X'Y at a bound on phenotype rows, through the calibrated mechanism itself."""
    n_phenotypes = sizes.n_phenotypes
    bounds = PublicBounds(
        sizes.row_norm, None, norm, (sizes.n_variants,), sizes.n_samples, n_phenotypes
    )
    split = split_for(sizes, phenotype_norm=norm, adjacency=Adjacency.REPLACE_ONE, block_norm=None)
    return calibrate(bounds, Promise(5.0, 1e-10), Recipe(), split=split).scales.phenotype_cross


def planned(sizes, clip):
    """Effective sample size at a clip, for unlinked variants."""
    sigma = cross_sigma(sizes, phenotype_norm(sizes, clip=clip))
    return forecast(sizes, UNLINKED, clip=clip, cross_sigma=sigma).effective_sample_size


@pytest.mark.parametrize("n_samples", [343, 100_000, 5_000_000])
@pytest.mark.parametrize("n_phenotypes", [1, 10, 100])
def test_chosen_clip_is_the_best(n_samples, n_phenotypes):
    sizes = replace(SIZES, n_samples=n_samples, n_phenotypes=n_phenotypes)
    chosen = choose_phenotype_clip(sizes, lambda norm: cross_sigma(sizes, norm))
    others = [planned(sizes, clip) for clip in np.linspace(0.26, 4.0, 60)]
    assert planned(sizes, chosen) >= 0.999 * max(others)


def test_phenotype_norm_is_the_least_of_its_three_limits():
    scale = 1024**2
    sizes = replace(SIZES, n_phenotypes=10)
    assert phenotype_norm(sizes, clip=0.5) == math.floor(scale * 2.5)
    assert phenotype_norm(sizes, clip=9.0, largest_norm=3.0) == 3 * scale
    assert phenotype_norm(sizes, clip=9.0, largest_norm=2.7) == 2_831_155  # of 2,831,155.2


@pytest.mark.parametrize("l", [1, 2, 10, 1000])
def test_phenotype_norm_leaves_99_percent_of_normal_rows(l):  # noqa: E741
    norm = phenotype_norm(replace(SIZES, n_phenotypes=l), clip=9.0)
    assert norm == pytest.approx(1024**2 * chi2.ppf(0.99, l), rel=0.01)


def test_phenotype_bounds_that_round_to_zero_are_refused():
    with pytest.raises(UsageError, match="rounds to zero"):
        phenotype_norm(SIZES, clip=1.0, largest_norm=0.0)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("block_norm", [None, 400])
def test_split_gives_many_phenotypes_to_the_cross_products(adjacency, block_norm):
    splits = [
        split_for(
            replace(SIZES, n_phenotypes=count),
            phenotype_norm=1024**2 * (1 + count),
            adjacency=adjacency,
            block_norm=block_norm,
        )
        for count in (1, 100, 10_000)
    ]
    assert splits == sorted(splits)
    assert splits[0] == (0.7 if block_norm is None else 1.2)
    assert 1.5 < splits[-1] <= 2


@pytest.mark.parametrize("cross_sigma", [0.0, 2e5, 1e7])
def test_unlinked_variants_have_a_closed_form(cross_sigma):
    found = forecast(UNBOUNDED, UNLINKED, clip=0.7, cross_sigma=cross_sigma)
    noise = float(noise_variance(SIZES, np.array(cross_sigma)))
    kept, left = clipped_phenotype(0.7, 1)
    size = SIZES.n_samples * kept**2 / (left + noise)
    assert found.effective_sample_size == pytest.approx(size, rel=1e-9)
    odds = size * PRIOR_HERITABILITY / SIZES.n_variants
    assert found.r_squared == pytest.approx(PRIOR_HERITABILITY * odds / (1 + odds), rel=1e-9)


@given(
    n_samples=st.integers(10, 10**7),
    mean_square=st.floats(1, 500),
    clip=st.floats(0.3, 4),
    digits=st.floats(0, 9),
)
def test_noise_and_clipping_only_lose_people(n_samples, mean_square, clip, digits):
    sizes = replace(SIZES, n_samples=n_samples)
    eigenvalues = spectrum_shape(mean_square * sizes.n_variants, sizes.n_variants)
    less = forecast(sizes, eigenvalues, clip=clip, cross_sigma=10**digits)
    more = forecast(sizes, eigenvalues, clip=clip, cross_sigma=2 * 10**digits)
    assert 0 <= more.r_squared <= less.r_squared <= less.without_noise < PRIOR_HERITABILITY
    assert 0 < more.effective_sample_size <= less.effective_sample_size <= n_samples
    assert (
        0.99 * less.effective_sample_size < less.stated_size <= less.effective_sample_size * ROUNDED
    )


@pytest.mark.parametrize("cross_sigma", [0.0, 60.0, 250.0])
def test_the_forecast_is_the_accuracy_of_a_simulated_release(cross_sigma):
    """Linked genotypes, a clipped phenotype, noise on X'Y, weights for known noise."""
    generator = np.random.default_rng(5)
    n, d, clip, traits, neighbours = 4_000, 200, 0.8, 40, 0.9
    distance = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    correlation = neighbours**distance
    root = np.linalg.cholesky(correlation)
    genotypes = generator.standard_normal((n, d)) @ root.T
    effects = generator.standard_normal((d, traits)) * math.sqrt(PRIOR_HERITABILITY / d)
    residual = math.sqrt(1 - PRIOR_HERITABILITY) * generator.standard_normal((n, traits))
    phenotypes = genotypes @ effects + residual
    noisy = genotypes.T @ np.clip(phenotypes, -clip, clip)
    noisy = noisy + cross_sigma * generator.standard_normal((d, traits))
    kept, left = clipped_phenotype(clip, 1)
    values, vectors = np.linalg.eigh(correlation)
    signal = kept * PRIOR_HERITABILITY / d * n * values
    factors = signal / (kept * signal * n * values + left * n * values + cross_sigma**2)
    weights = vectors @ (factors[:, None] * (vectors.T @ noisy))
    covariances = (effects * (correlation @ weights)).sum(axis=0)
    explained = covariances**2 / (weights * (correlation @ weights)).sum(axis=0)
    sizes = replace(UNBOUNDED, n_samples=n, n_variants=d, variant_variance=1.0, phenotype_scale=1)
    mean_square = (correlation**2).sum()
    expected = forecast(sizes, spectrum_shape(mean_square, d), clip=clip, cross_sigma=cross_sigma)
    assert expected.r_squared == pytest.approx(explained.mean(), rel=0.1)


def test_the_bound_on_rows_divides_the_noise_by_what_it_leaves_of_products():
    """Against normal rows of the mean norm V and the same spectrum, whose products are summed."""
    d, share = 40, 0.9
    eigenvalues = np.repeat([3.0, 0.2], [10, 30])
    eigenvalues /= eigenvalues.mean()
    rows = np.random.default_rng(2).standard_normal((200_000, d)) * np.sqrt(eigenvalues)
    norms = (rows**2).sum(axis=1)
    kept = np.minimum(norms, share * d).mean() / d
    sizes = replace(SIZES, n_samples=2_000, n_variants=d, variant_variance=1.0)
    bounded = forecast(
        replace(sizes, row_norm=round(share * d)), eigenvalues, clip=0.7, cross_sigma=1e5
    )
    unbounded = replace(sizes, row_norm=100 * d)
    expected = forecast(unbounded, eigenvalues, clip=0.7, cross_sigma=1e5 / kept)
    assert bounded.r_squared == pytest.approx(expected.r_squared, rel=3e-3)
    less = forecast(unbounded, eigenvalues, clip=0.7, cross_sigma=1e5)
    assert bounded.r_squared < 0.97 * less.r_squared


def test_pairs_in_a_block_and_on_a_chromosome_are_summed():
    chromosome = np.array(["1", "1", "1", "2", "2", "2", "2"], dtype=object)
    position = np.array([1_000, 3_000, 9_000, 5_000, 5_000, 0, 0])
    blocks = (0, 2, 5, 7)
    # 2 x 1.2e-8 x 10,000 x 2,000 base pairs: the first two; the fourth and fifth coincide.
    expected = 7 + 2 / (1 + 4 * 10_000 * 1.2e-8 * 2_000) + 2
    assert expected_r2_sum(chromosome, position, blocks) == pytest.approx(expected, rel=1e-12)


def test_positions_that_number_the_rows_imply_no_linkage():
    """A simulated fileset, such as REGENIE's example, has its variants one base pair apart."""
    chromosome = np.full(1_000, "1", dtype=object)
    assert expected_r2_sum(chromosome, np.arange(1, 1_001), (0, 1_000)) == 1_000
    assert expected_r2_sum(chromosome, np.arange(1, 1_001) * 10, (0, 1_000)) > 100_000


@pytest.mark.parametrize("mean_square", [1.0, 3.0, 13.0, 200.0])
def test_the_spectrum_has_the_moments_asked_for(mean_square):
    values = spectrum_shape(100 * mean_square, 100)
    assert values.min() > 0
    assert values.mean() == pytest.approx(1, rel=1e-12)
    assert (values**2).mean() == pytest.approx(mean_square, rel=1e-6)


def test_expected_linkage_is_that_of_real_genotypes(reference):
    """Within a third, for 343 Europeans and chromosome 22 in blocks of 500 variants."""
    prefix = reference / "data" / "real" / "1000g_eur343_chr22" / "eur343_chr22"
    with bed_reader.open_bed(f"{prefix}.bed", num_threads=1) as bed:
        genotypes, position = bed.read(dtype="float64"), bed.bp_position
    blocks = (*range(0, len(position), 500), len(position))
    chromosome = np.full(len(position), "22", dtype=object)
    expected = expected_r2_sum(chromosome, position.astype(np.int64), blocks)
    measured = 0.0
    for start, stop in pairwise(blocks):
        centred = genotypes[:, start:stop] - genotypes[:, start:stop].mean(axis=0)
        spread = centred.std(axis=0)
        centred = centred[:, spread > 0] / spread[spread > 0]
        squared = (centred.T @ centred / len(centred)) ** 2
        # By chance alone r^2 is 1/n between unlinked variants.
        measured += squared.sum() - (squared.size - len(squared)) / len(centred)
    print(f"expected {expected:.0f}, measured {measured:.0f}")
    assert expected == pytest.approx(measured, rel=0.33)


def explained(energies, shares, signal, residual, noise):
    odds = signal * energies / (residual * energies + noise)
    return float((shares * odds / (1 + odds)).sum())


def components(seed, size=8):
    rng = np.random.default_rng(seed)
    shares = np.sort(rng.gamma(0.5, 1, size) + 1e-3)[::-1]
    return shares / shares.sum()


@pytest.mark.parametrize("noise", [1e-4, 0.01, 0.3, 5.0])
@pytest.mark.parametrize("people", [3.0, 100.0])
def test_no_other_division_explains_more(noise, people):
    shares = components(int(people))
    signal = people * shares
    found = fill(shares, signal, 0.6, noise)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()

    def loss(roots):
        return -explained(roots**2 / (roots**2).sum(), shares, signal, 0.6, noise)

    starts = (np.sqrt(found), np.ones(len(shares)), np.sqrt(shares))
    best = min(minimize(loss, start, method="BFGS").fun for start in starts)
    value = explained(found, shares, signal, 0.6, noise)
    assert value >= -best - 1e-7
    assert value > explained(shares, shares, signal, 0.6, noise)
