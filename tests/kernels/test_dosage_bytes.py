"""Dosages of one byte: their codes, which are those of a table of 256 entries, and their norms."""

from fractions import Fraction

import numpy as np
from support.dosage_definition import nearest_byte

from primo_scale.accumulation.clipping_rules import ClippingRule
from primo_scale.kernels.dosage_bytes import (
    MISSING_BYTE,
    STEPS,
    UNITS,
    add_squared_norms,
    byte_of_units,
    bytes_of_copies,
    count_dosages,
    decode_into,
    select,
    steps_or_missing,
)
from primo_scale.kernels.products import UNCLIPPED, scale_columns, spread_rows

EVERY_BYTE = np.arange(256, dtype=np.uint8)


def decode(dosages, table):
    return decode_into(spread_rows(*dosages.shape), dosages, table)


def tables(*pairs):
    k, m = np.array(pairs).T
    return np.stack([2 * k - m, 0 * k, k - m, -m], axis=1).astype(np.int8)


def code_table(k, m):
    return [*(round(Fraction(k * t, STEPS)) - m for t in range(MISSING_BYTE)), 0]


def every_coding():
    """Return all multipliers and centres whose codes are within [-127, 127]."""
    return [(k, m) for k in range(1, 128) for m in range(max(0, 2 * k - 127), min(2 * k, 127) + 1)]


def test_codes_are_those_of_the_table_for_every_coding_and_byte():
    """A code is within those of 0 and 2 copies, so that the bounds on norms are unchanged."""
    pairs = every_coding()[::7]
    codes = decode(np.tile(EVERY_BYTE, (len(pairs), 1)), tables(*pairs))
    np.testing.assert_array_equal(codes, [code_table(k, m) for k, m in pairs])
    ends = np.abs(tables(*pairs)[:, [0, 3]].astype(int)).max(axis=1)
    assert (np.abs(codes.astype(int)).max(axis=1) <= ends).all()


def test_squared_norms_are_those_of_the_codes():
    rng = np.random.default_rng(1)
    pairs = every_coding()
    dosages = rng.integers(0, 256, (len(pairs), 37), dtype=np.uint8)
    norms = np.arange(37)
    add_squared_norms(norms, dosages, tables(*pairs))
    codes = decode(dosages, tables(*pairs)).astype(np.int64)
    np.testing.assert_array_equal(norms, np.arange(37) + (codes**2).sum(axis=0))


def test_norms_of_many_variants_do_not_wrap_around():
    """The largest codes of 150,000 variants reach 2.4 10^9, more than an int32 holds."""
    n_variants = 150_000
    dosages = np.tile(np.array([0, 254, MISSING_BYTE], np.uint8), (n_variants, 1))
    norms = np.zeros(3, dtype=np.int64)
    add_squared_norms(norms, dosages, np.tile(tables((127, 127)), (n_variants, 1)))
    assert norms.tolist() == [127**2 * n_variants, 127**2 * n_variants, 0]
    assert norms.max() >= 2**31


def test_every_dosage_of_plink2_gets_the_nearest_step():
    """The other allele has 254 less the step, and whole copies are exact."""
    found = [int(byte_of_units(units)) for units in range(2 * UNITS + 1)]
    assert found[::7] == [nearest_byte(units) for units in range(0, 2 * UNITS + 1, 7)]
    assert found == [254 - byte for byte in reversed(found)]
    assert [found[copies * UNITS] for copies in (0, 1, 2)] == [0, STEPS, 2 * STEPS]
    errors = np.abs(np.array(found) / STEPS - np.arange(2 * UNITS + 1) / UNITS)
    np.testing.assert_allclose(errors.max(), 1 / (2 * STEPS), rtol=1e-12)
    assert byte_of_units(-1) == MISSING_BYTE


def test_numbers_of_copies_become_bytes_or_are_found_impossible():
    found = np.empty((2, 4), np.uint8)
    copies = np.array([[0, 0.5, 1.5, 2], [np.nan, -9, 1 / 127, 1.99999]], dtype=np.float32)
    assert bytes_of_copies(copies, found)
    assert found.tolist() == [[0, 64, 190, 254], [255, 255, 1, 254]]
    assert not bytes_of_copies(copies + np.float32(0.001), found)


def test_counts_and_selections_are_those_of_the_steps():
    rng = np.random.default_rng(2)
    dosages = rng.choice(np.array([0, 1, 127, 253, 254, 255], np.uint8), (20, 50))
    dosages[:, [3, 7]] = MISSING_BYTE
    steps = steps_or_missing(dosages, 49)
    assert steps.shape == (20, 49) and steps.min() == -1 and steps.max() == 254
    counts = [[(s == 254).sum(), (s == -1).sum(), ((s > 0) & (s < 254)).sum(), (s == 0).sum()]
              for s in steps]  # fmt: skip
    np.testing.assert_array_equal(count_dosages(dosages, 49), counts)
    np.testing.assert_array_equal(select(dosages, np.array([9, 2])), dosages[:, [9, 2]])


def clipped_rows(limit, add_norms=add_squared_norms):
    """Return the clipped rows of two variants for all 65,536 pairs of bytes, shape (rows, 2)."""
    dosages = np.stack([np.repeat(EVERY_BYTE, 256), np.tile(EVERY_BYTE, 256)])
    coding = tables((23, 23), (27, 18))
    norms = np.zeros((65536, 1), dtype=np.int64)
    add_norms(norms[:, 0], dosages, coding)
    rule = ClippingRule("record", limit, None, 1)
    codes, multipliers = decode(dosages, coding), rule.shrink(norms)[0][:, 0]
    assert (multipliers != UNCLIPPED).sum() > 10_000
    scale_columns(codes, multipliers)
    return np.unique(codes.T.astype(np.int64), axis=0)


def largest_change(rows):
    """Return the largest squared Frobenius norm of x x' - z z' over all pairs of rows."""
    norms = (rows**2).sum(axis=1)
    return int((norms[:, None] ** 2 + norms**2 - 2 * (rows @ rows.T) ** 2).max())


def test_no_pair_of_people_with_any_dosages_changes_a_sum_by_more_than_the_sensitivity():
    """The bounds are N_x on a row, and the square of sqrt(2) N_x on the change of X'X."""
    limit = 300
    rows = clipped_rows(limit)
    assert 0.9 * limit < (rows**2).sum(axis=1).max() <= limit
    assert 0.8 * 2 * limit**2 < largest_change(rows) <= 2 * limit**2
