"""The public int8 coding of genotypes."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from bed_reader import open_bed
from hypothesis import given
from hypothesis import strategies as st

from primo_scale.genotypes.coding import (
    SMALLEST_FREQUENCY,
    GenotypeCoding,
    MatchCounts,
    MatchedFrequencies,
    default_row_norm,
    largest_block_norms,
    largest_code,
    read_reference_frequencies,
    reference_coding,
    uninformative_coding,
)
from primo_scale.genotypes.tables import read_bim

DOSAGE_OF_RAW_VALUE = (2, None, 1, 0)


def coding_of(frequencies: npt.ArrayLike) -> GenotypeCoding:
    a1_frequency = np.atleast_1d(np.asarray(frequencies, dtype=np.float64))
    counts = MatchCounts(len(a1_frequency), len(a1_frequency))
    return reference_coding(MatchedFrequencies(a1_frequency, counts, Path("panel.afreq"), "0" * 64))


def test_uninformative_codes():
    coding = uninformative_coding(3)
    np.testing.assert_array_equal(coding.code_table, [[1, 0, 0, -1]] * 3)
    assert (coding.max_code, coding.unit, coding.variance) == (1, 1, 1.5)
    assert default_row_norm(coding) == 3


@given(st.lists(st.floats(0, 1) | st.just(np.nan), min_size=1, max_size=20))
def test_every_frequency_gives_codes_within_int8(frequencies):
    coding = coding_of(frequencies)
    k, m = coding.multiplier.astype(int), coding.centre.astype(int)
    for raw, dosage in enumerate(DOSAGE_OF_RAW_VALUE):
        exact = 0 * k if dosage is None else k * dosage - m
        np.testing.assert_array_equal(coding.code_table[:, raw], exact)  # nothing wrapped around
        assert np.abs(exact).max() <= 127
    assert k.min() >= 1
    assert coding.max_code <= 127


def test_codes_from_a_panel_are_never_within_one():
    """Every variant has a code of at least 23, so that panels need a kernel for all int8 codes."""
    coding = coding_of([*np.linspace(0, 1, 20_001), np.nan])
    assert np.abs(coding.code_table.astype(int)).max(axis=1).min() == 23


def test_codes_on_a_fine_grid_of_frequencies():
    p = np.linspace(0, 1, 200_001)
    coding = coding_of(p)
    k, m = coding.multiplier.astype(int), coding.centre.astype(int)
    assert np.maximum(m, 2 * k - m).max() == 127  # the range is used, and never left
    common = (p > 0.04) & (p < 0.96)
    np.testing.assert_allclose((k * np.sqrt(2 * p * (1 - p)))[common], 16, rtol=0.03)
    np.testing.assert_allclose(coding.centre_dosage, 2 * p, rtol=0, atol=0.5 / k.min())


def test_unmatched_variants_are_coded_at_one_half():
    half, unmatched = coding_of(0.5), coding_of(np.nan)
    np.testing.assert_array_equal(half.code_table, unmatched.code_table)
    assert half.centre_dosage == 1


def test_codes_are_centred_and_have_the_stated_variance(reference):
    data = reference / "data/real/1000g_eur343_chr22"
    variants = read_bim(data / "eur343_chr22.bim")
    coding = reference_coding(read_reference_frequencies(data / "truth/chr22.afreq.gz", variants))
    genotypes = open_bed(data / "eur343_chr22.bed").read(dtype="int8").astype(np.int64)
    codes = coding.multiplier * genotypes - coding.centre
    assert np.abs(codes).max() == coding.max_code <= 127
    assert np.abs(codes.mean(axis=0)).max() <= 0.51 + 0.002 * 127  # centre rounded, p clamped
    norms = (codes**2).sum(axis=1)
    assert norms.mean() == pytest.approx(coding.variance, rel=0.02)
    # The default row norm is just above the mean, and takes 2% of the products of all rows.
    assert default_row_norm(coding) == pytest.approx((1 + 17_489**-0.5) * coding.variance, rel=1e-6)
    left = np.minimum(1, default_row_norm(coding) / norms) * norms
    assert 0.97 < left.mean() / norms.mean() < 0.99


def test_row_norm_is_at_most_the_largest_possible_norm():
    one = coding_of(0.5)  # 2 V is the square of the largest code
    assert default_row_norm(one) == one.max_squared_norm == one.max_code**2
    for p in np.linspace(SMALLEST_FREQUENCY, 1 - SMALLEST_FREQUENCY, 5000):
        assert default_row_norm(coding_of(p)) <= coding_of(p).max_squared_norm


def test_largest_norms_take_the_largest_code_of_each_variant():
    """Variants whose largest code is that of two, one or no copies of A1."""
    table = np.array([[5, 0, 1, -3], [1, 0, -4, 2], [2, 0, 1, -7]], dtype=np.int8)
    assert largest_block_norms(table, (0, 2, 3)).tolist() == [5**2 + 4**2, 7**2]
    assert largest_code(table) == 7
