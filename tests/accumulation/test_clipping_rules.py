"""Clipping rules satisfy the integer inequalities of the privacy guarantee for any record."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from primo_scale.accumulation.clipping_rules import ClippingRule
from primo_scale.kernels.products import UNCLIPPED, scale_entries

N_FIXED, N_PHENOTYPES, SIZES = 2, 3, (2, 3, 1)


def records(*, low=-127, high=127):
    width = sum(SIZES)
    return st.lists(
        st.tuples(
            st.lists(st.integers(low, high), min_size=width, max_size=width),
            st.lists(st.integers(-32767, 32767), min_size=N_PHENOTYPES, max_size=N_PHENOTYPES),
        ),
        min_size=1,
        max_size=6,
    )


def rules(long_records):
    norm = st.integers(1, 60_000)
    return st.builds(
        ClippingRule,
        st.just(long_records),
        norm,
        st.none() | st.tuples(*[norm] * len(SIZES)),
        st.integers(1, 10**9),
    )


STEPS = st.sampled_from([1, 256])


def apply(rule, people, step=1):
    """Return the records before and after clipping: codes (n, d), outcomes (n, q), blocks."""
    x = np.array([codes for codes, _ in people], dtype=np.int8)
    y = np.array([phenotypes for _, phenotypes in people], dtype=np.int16)
    z = np.hstack([np.full((len(x), N_FIXED), 50, np.int16), y])
    edges = [0, *itertools.accumulate(SIZES)]
    blocks = [slice(a, b) for a, b in itertools.pairwise(edges)]
    norms = np.stack([squared(x[:, block]) for block in blocks], axis=1)
    multipliers, record = rule.shrink(norms)
    clipped = x.copy()
    for number, block in enumerate(blocks):
        column = min(number, multipliers.shape[1] - 1)
        clipped[:, block] = scale_entries(x[:, block], multipliers[:, column][:, None])
    outcomes = rule.clip_outcomes(z, N_FIXED, record, norms, phenotype_step=step)
    assert (outcomes[:, N_FIXED:] % step == 0).all()
    return x, z, clipped, outcomes, blocks


def squared(rows):
    return (rows.astype(np.int64) ** 2).sum(axis=1)


@settings(max_examples=300)
@given(rules("record"), records(), STEPS)
def test_clipped_genotypes_satisfy_every_bound(rule, people, step) -> None:
    x, z, clipped, outcomes, blocks = apply(rule, people, step)
    assert squared(clipped).max() <= rule.row_norm
    if rule.block_norms is not None:
        for block, norm in zip(blocks, rule.block_norms, strict=True):
            assert squared(clipped[:, block]).max() <= norm
    assert squared(outcomes[:, N_FIXED:]).max() <= rule.phenotype_norm
    assert (np.abs(outcomes) <= np.abs(z.astype(int)) + step // 2).all()
    assert (np.abs(clipped) <= np.abs(x)).all()


@settings(max_examples=300)
@given(rules("phenotypes"), records(), STEPS)
def test_public_genotypes_are_kept_and_the_product_of_norms_is_bounded(rule, people, step) -> None:
    x, z, clipped, outcomes, _ = apply(rule, people, step)
    np.testing.assert_array_equal(clipped, x)
    np.testing.assert_array_equal(outcomes[:, :N_FIXED], z[:, :N_FIXED])
    lengths = squared(x)
    own = squared(outcomes[:, N_FIXED:])
    assert own.max() <= rule.phenotype_norm
    bound = rule.row_norm * rule.phenotype_norm
    assert max(int(a) * int(b) for a, b in zip(lengths, own, strict=True)) <= bound


def test_the_product_of_norms_is_bounded_where_a_quotient_is_rounded() -> None:
    """20 times 10 is above 19 times 10, whose quotient by 20 is 9.5."""
    rule = ClippingRule("phenotypes", 19, None, 10)
    own = rule.clip_outcomes(
        np.array([[7, 3, 1]], np.int16), 1, np.array([UNCLIPPED]), np.array([[20]])
    )
    assert 20 * squared(own[:, 1:])[0] <= 19 * 10 and own[0, 0] == 7 and own[0, 1:].any()


@given(records(low=-3, high=3))
def test_records_within_the_bounds_are_unchanged(people) -> None:
    rule = ClippingRule("record", 54, (18, 27, 9), 3 * 32767**2)
    x, z, clipped, outcomes, _ = apply(rule, people)
    np.testing.assert_array_equal(clipped, x)
    np.testing.assert_array_equal(outcomes, z)


def test_a_clipped_record_keeps_most_of_its_bound() -> None:
    """A rule that sets all values to zero would satisfy the inequalities above."""
    rule = ClippingRule("record", 20_000, (15_000, 15_000, 15_000), 10**6)
    people = [([120, 120, 10, 0, 0, 0], [20_000, 1, 1]), ([100, 0, 100, 0, 0, 0], [0, 0, 9])]
    x, _, clipped, outcomes, blocks = apply(rule, people)
    assert squared(clipped[:1, blocks[0]])[0] > 0.95 * 15_000
    assert squared(clipped[1:])[0] == squared(x[1:])[0] == 20_000
    assert squared(outcomes[:1, N_FIXED:])[0] > 0.99 * 10**6
    assert outcomes[0, 0] == 50  # a long block does not shrink the rest of the record


def test_norms_are_needed_only_if_a_record_can_be_too_long() -> None:
    rule = ClippingRule("record", 100, (60, 60), 1)
    assert not rule.needs_norms(np.array([50, 50]))
    assert rule.needs_norms(np.array([61, 1]))
    assert rule.needs_norms(np.array([60, 41]))


def test_a_record_within_its_bounds_has_the_neutral_multiplier() -> None:
    rule = ClippingRule("record", 100, (60, 60), 1)
    blocks, record = rule.shrink(np.array([[60, 40], [61, 0]]))
    assert record.tolist() == [UNCLIPPED, UNCLIPPED]
    assert blocks[0].tolist() == [UNCLIPPED, UNCLIPPED]
    assert blocks[1, 0] < UNCLIPPED and blocks[1, 1] == UNCLIPPED


contributors = st.lists(
    st.tuples(
        st.lists(st.integers(-32767, 32767), min_size=3, max_size=3),
        st.lists(st.integers(0, 2**40), min_size=3, max_size=3),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=300)
@given(people=contributors, row=st.integers(1, 2**40), phenotype=st.integers(1, 2**34))
def test_no_contribution_of_a_person_exceeds_its_bound(people, row, phenotype):
    """In integers of any size; whoever is within the bound keeps the phenotypes."""
    rule = ClippingRule("contributions", row, None, phenotype)
    y = np.array([each for each, _ in people], dtype=np.int16)
    norms = np.array([each for _, each in people], dtype=np.int64)
    clipped = rule.clip_contributions(y, norms)
    for before, after, lengths in zip(y.tolist(), clipped.tolist(), norms.tolist(), strict=True):
        whole = sum(a * a * n for a, n in zip(before, lengths, strict=True))
        kept = sum(a * a * n for a, n in zip(after, lengths, strict=True))
        assert kept <= row * phenotype
        if whole * (1 + 2**-19) + 1 <= row * phenotype:
            assert after == before
        elif whole <= 2**50:
            share = (row * phenotype / (whole + 1)) ** 0.5
            assert all(abs(a) >= abs(b) * share - 2 for a, b in zip(after, before, strict=True))


def test_every_pair_of_small_people_is_within_the_sensitivity_and_some_attain_it():
    """Own columns of two phenotypes: docs/maths/rounds.md, Theorem 1."""
    row, phenotype = 8, 90_000
    rule = ClippingRule("contributions", row, None, phenotype)
    values = (-500, -90, 0, 200, 500), (-3, -1, 0, 2, 3)
    people = np.array(list(itertools.product(*values, *values)))  # y_1, x_1, y_2, x_2
    y, x = people[:, ::2].astype(np.int16), people[:, 1::2]
    seen = rule.clip_contributions(y, x**2) * x
    moved = ((seen[:, None] - seen) ** 2).sum(axis=2)
    assert 0.98 * 4 * row * phenotype < moved.max() <= 4 * row * phenotype
    assert 0.98 * row * phenotype < (seen**2).sum(axis=1).max() <= row * phenotype
