"""The distribution of the keystream sampler's draws, which a correct one fails once in 10^6."""

import hashlib
import math

import numpy as np
import pytest
from scipy import stats
from support.noise_checks import KEY, RISK, correlated, has_scale
from support.opendp_noise import OpenDPNoise
from support.tiers import thinned

from primo_scale.gaussian import noise as noise_module
from primo_scale.gaussian.noise import KeystreamNoise

SCALE = 2.0**32 * 1.2345
BINS, TAIL = 64, 24
N_DRAWS = 4_000_000


@pytest.fixture(scope="module", params=thinned([2.0**57 * 1.3, SCALE], every=2))
def standard(request):
    """Draws over their scale; float64 keeps their upper 53 bits."""
    key = hashlib.sha256(b"law").digest()
    return KeystreamNoise(key).draw("a", N_DRAWS, request.param) / request.param


def fits(observed, probabilities):
    """Chi-square of counts in cells; the probabilities cover everything."""
    expected = observed.sum() * probabilities
    keep = expected > 10
    rest = [observed[~keep].sum(), expected[~keep].sum()]
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    statistic += (rest[0] - rest[1]) ** 2 / rest[1] if rest[1] > 10 else 0.0
    return stats.chi2.sf(statistic, keep.sum() - 1) > RISK


def bins_fit(z):
    edges = np.arange(-6, 6, 1 / BINS) + 1 / BINS
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    observed = np.histogram(np.clip(z, -50, 50), np.clip(edges, -99, 99))[0]
    return fits(observed, np.diff(stats.norm.cdf(edges)))


def outward_lean(z):
    """How draws lean to the outer sides of their bins, farther bins weighing more, in errors."""
    edges = np.arange(TAIL * BINS + 1) / BINS
    mass = -np.diff(2 * stats.norm.sf(edges))
    places = -np.diff(2 * stats.norm.pdf(edges)) * BINS - (np.arange(TAIL * BINS) + 0.5) * mass
    bins, place = np.divmod(np.abs(z) * BINS, 1)
    lean = bins * (place - 0.5) / BINS
    return (lean.mean() - (edges[:-1] * places).sum()) / lean.std() * math.sqrt(z.size)


def tail_fits(z):
    """Counts beyond 3, 3.5, ... 5 standard deviations, either side."""
    for limit in (3, 3.5, 4, 4.5, 5):
        for count in (np.sum(z > limit), np.sum(z < -limit)):
            low, high = stats.binom.ppf([RISK / 20, 1 - RISK / 20], z.size, stats.norm.sf(limit))
            if not low <= count <= high:
                return False
    return True


def test_scale(standard):
    assert has_scale(standard)
    assert not has_scale(standard[:60_000] * 1.03)
    assert not has_scale(standard[:60_000] * 0.97)


def test_mean_is_zero_and_signs_are_fair(standard):
    limit = stats.norm.isf(RISK / 2) / math.sqrt(N_DRAWS)
    assert abs(standard.mean()) < limit
    assert abs(np.sign(standard).mean()) < limit
    assert not correlated(np.sign(standard), np.abs(standard))


def test_shape_is_gaussian(standard):
    part = standard[:400_000]
    assert stats.kstest(part, "norm").pvalue > RISK
    assert stats.kstest(part * 1.03, "norm").pvalue < RISK
    assert stats.kstest(standard[:100_000], "t", args=(10,)).pvalue < RISK


def test_bins(standard):
    assert bins_fit(standard)
    assert not bins_fit(standard[:1_000_000] * 1.03)
    assert not bins_fit(standard[:1_000_000] * 0.97)


def test_places_within_bins(standard):
    """Rejection thins out the outer halves; without it they would be as full as the inner."""
    limit = stats.norm.isf(RISK / 2)
    assert abs(outward_lean(standard)) < limit
    uniform = np.random.default_rng(5).random(N_DRAWS)
    unthinned = (np.floor(np.abs(standard) * BINS) + uniform) / BINS
    assert outward_lean(unthinned) > limit


def test_tail(standard):
    assert tail_fits(standard)
    assert not tail_fits(standard * 1.03)
    assert not tail_fits(standard * 0.97)
    assert not tail_fits(np.clip(standard, -3.9, 3.9))


def test_draws_are_independent(standard):
    for lag in (1, 2, 3, 64, noise_module._CHUNK_DRAWS):
        assert not correlated(standard[lag:], standard[:-lag])
        assert not correlated(standard[lag:] ** 2, standard[:-lag] ** 2)
    doubled = np.repeat(standard[:1000], 2)
    assert correlated(doubled[1:], doubled[:-1])


@pytest.mark.parametrize("sigma", [SCALE, 2.0**57 * 1.3])
def test_low_bits_are_uniform(sigma):
    """So they are not in a float64 normal times a scale beyond its 53 bits."""
    noise = KeystreamNoise(KEY).draw("bits", 200_000, sigma)
    uniform = np.full(256, 1 / 256)
    assert fits(np.bincount(noise & 255, minlength=256), uniform)
    rounded = np.rint(np.random.default_rng(1).standard_normal(200_000) * sigma).astype(np.int64)
    if sigma > 2.0**56:
        assert not fits(np.bincount(rounded & 255, minlength=256), uniform)


def test_law_is_that_of_opendp():
    ours = KeystreamNoise(KEY).draw("a", 30_000, SCALE)
    theirs = OpenDPNoise().draw("a", 30_000, SCALE)
    assert stats.ks_2samp(ours, theirs).pvalue > RISK
    assert stats.ks_2samp(ours * 2, theirs).pvalue < RISK
