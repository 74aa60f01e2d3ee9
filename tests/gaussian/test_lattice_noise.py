"""The noise on integer arrays: a test is wrong about a sampler less than once in 10^6."""

import itertools
import math
import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.noise_checks import RISK, has_scale

from primo_scale.errors import UsageError
from primo_scale.gaussian import noise as drawing
from primo_scale.gaussian.noise import KeystreamNoise, fine_bits, off_diagonal_sigma, rounded_shift

SIGMA = 12_345.6
SOURCE, LABELS = KeystreamNoise(os.urandom(32)), map(str, itertools.count())


def lattice_noise(size, sigma):
    return drawing.lattice_noise(size, sigma, source=SOURCE, label=next(LABELS))


def add_lattice_noise(values, sigma):
    return drawing.add_lattice_noise(values, sigma, source=SOURCE, label=next(LABELS))


def add_symmetric_noise(gram, sigma):
    return drawing.add_symmetric_noise(gram, sigma, source=SOURCE, label=next(LABELS))


def test_scale():
    noise = lattice_noise(40_000, SIGMA)
    assert has_scale(noise, SIGMA)
    assert not has_scale(noise, SIGMA * 1.05)
    assert not has_scale(noise, SIGMA / 1.05)


@pytest.mark.parametrize("sigma", [0.3, 0.9, 2.0])
def test_small_noise_is_a_rounded_gaussian_not_a_discrete_one(sigma):
    """At these scales a Gaussian rounded to integers and a discrete Gaussian differ visibly."""
    n_draws = 20_000
    found = lattice_noise(n_draws, sigma)
    values = np.arange(-int(4 * sigma) - 1, int(4 * sigma) + 2)
    edges = np.concatenate([[-np.inf], values[:-1] + 0.5, [np.inf]])
    expected = n_draws * np.diff(stats.norm.cdf(edges, scale=sigma))
    clipped = np.clip(found, values[0], values[-1])
    observed = np.array([(clipped == value).sum() for value in values])
    keep = expected > 5
    assert observed[~keep].sum() <= 30
    statistic = ((observed - expected) ** 2 / expected)[keep].sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > RISK
    if sigma < 1:
        discrete = np.exp(-(values**2) / (2 * sigma**2))
        wrong = n_draws * discrete / discrete.sum()
        statistic = ((observed - wrong) ** 2 / wrong)[keep].sum()
        assert stats.chi2.sf(statistic, keep.sum() - 1) < RISK


@pytest.mark.parametrize("sigma", [2.0**33 * 1.1, 2.0**50, 2.0**58])
def test_large_noise_needs_no_finer_lattice_and_does_not_saturate(sigma):
    assert fine_bits(sigma) == 0
    noise = lattice_noise(2_000, sigma)
    assert has_scale(noise, sigma)
    assert np.abs(noise / sigma).max() < 6.5


@given(st.floats(2.0**-20, 2.0**58))
def test_lattice_is_the_coarsest_that_is_fine_enough(sigma):
    bits = fine_bits(sigma)
    assert sigma * 2.0**bits >= 2**32
    assert bits == 0 or sigma * 2.0 ** (bits - 1) < 2**32


@given(st.integers(-(2**61), 2**61), st.integers(0, 52))
def test_rounding_is_to_the_nearest_integer_ties_upward(fine, bits):
    found = int(rounded_shift(np.array([fine], dtype=np.int64), bits)[0])
    assert found == math.floor(Fraction(fine, 2**bits) + Fraction(1, 2))


def test_noise_of_any_shape_is_added_to_every_entry():
    values = np.full((3, 4, 5), 10**15, dtype=np.int64)
    noisy = add_lattice_noise(values, 2.0**40)
    assert noisy.shape == values.shape
    assert noisy.dtype == np.int64
    assert np.unique(noisy - values).size == values.size
    assert (values == 10**15).all()
    assert lattice_noise(0, 1.0).shape == (0,)


def test_symmetric_noise_has_the_svec_layout():
    gram = np.arange(40)[:, None] * np.arange(40)[None] * 1000
    noise = [add_symmetric_noise(gram, SIGMA) - gram for _ in range(25)]
    assert all(np.array_equal(matrix, matrix.T) for matrix in noise)
    above = np.concatenate([matrix[np.triu_indices(40, 1)] for matrix in noise])
    diagonal = np.concatenate([np.diag(matrix) for matrix in noise])
    assert has_scale(above, SIGMA / math.sqrt(2))
    assert has_scale(diagonal, SIGMA)
    # The 1,000 entries of the diagonal would show the other scale, and so would those above it.
    assert not has_scale(diagonal, SIGMA / math.sqrt(2))
    assert not has_scale(above, SIGMA)


def test_off_diagonal_scale_is_rounded_up():
    for sigma in (1.0, SIGMA, 3e17):
        assert 2 * Fraction(off_diagonal_sigma(sigma)) ** 2 >= Fraction(sigma) ** 2
        assert off_diagonal_sigma(sigma) == pytest.approx(sigma / math.sqrt(2), rel=1e-15)


class Asked:
    """A source that remembers the scales it is asked for, and draws zeros at any scale."""

    def __init__(self):
        self.scales = []

    def draw(self, label, count, scale):
        self.scales.append(scale)
        return np.zeros(count, dtype=np.int64)


@pytest.mark.parametrize("sigma", [0.0, -1.0, 2.0**-21, 2.0**58 * 1.01, math.inf, math.nan])
def test_scale_that_cannot_be_sampled_is_refused_whatever_the_source_can_draw(sigma):
    with pytest.raises(UsageError, match="cannot be sampled"):
        drawing.lattice_noise(1, sigma, source=Asked(), label="x")


@pytest.mark.parametrize("sigma", [8193.0, 9000.0, 11_585.0, 12_345.6, 16_383.0, 2.0**32 * 1.1])
def test_diagonal_and_off_diagonal_noise_lie_on_one_lattice_that_is_fine_enough(sigma):
    """Below 0.71 of a power of two, the smaller scale needs a finer lattice than the larger."""
    source = Asked()
    gram = np.zeros((3, 3), dtype=np.int64)
    drawing.add_symmetric_noise(gram, sigma, source=source, label="x")
    diagonal, above = source.scales
    assert above >= 2**32
    steps = diagonal / sigma
    assert math.frexp(steps)[0] == 0.5
    assert above == off_diagonal_sigma(sigma) * steps
