"""Every case of the calibration: neighbours are at most mu apart, in units of the noise."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support.neighbours import outer, parts, rows_within, upper_weights, within_blocks

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import composed_epsilon, mu_for, release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.privacy.mechanism import (
    Promise,
    PublicBounds,
    Recipe,
    calibrate,
    counts_share,
    rounded_up,
)

FULL, LABEL, FEATURE = PrivacyUnit
REPLACE, ADD = Adjacency
BOUNDS = PublicBounds(
    row_norm=20_000,
    block_norms=None,
    phenotype_norm=40_000,
    block_sizes=(30, 40),
    n_samples=343,
    n_phenotypes=70,
)
# Small enough for every record: two blocks of two variants, one or two phenotypes.
SMALL = [
    PublicBounds(4, None, 4, (2, 2), 10, 1),
    PublicBounds(4, (2, 4), 4, (2, 2), 10, 1),
    PublicBounds(5, (4, 1), 4, (2, 2), 10, 1),
    PublicBounds(5, (4, 1), 4, (1, 2), 10, 2),
    PublicBounds(3, (1, 1, 1), 4, (1, 1, 2), 10, 1),
    PublicBounds(2, None, 9, (1, 1), 10, 2),
    PublicBounds(9, (4, 5), 1, (1, 1), 10, 1),
    PublicBounds(7, None, 3, (1,), 10, 1),
]


def records(bounds, privacy):
    d = sum(bounds.block_sizes)
    genotypes = rows_within(d, bounds.row_norm)
    if bounds.block_norms is not None:
        genotypes = within_blocks(genotypes, bounds.block_sizes, bounds.block_norms)
    if privacy is LABEL:  # genotypes are as long as they are
        genotypes = rows_within(d, 2 * bounds.row_norm)
    phenotypes = rows_within(bounds.n_phenotypes, bounds.phenotype_norm)
    rows = np.array([np.hstack(r) for r in itertools.product(genotypes, phenotypes)])
    if privacy is LABEL:
        known = (rows[:, :d] ** 2).sum(1)
        own = (rows[:, d:] ** 2).sum(1)
        rows = rows[known * own <= bounds.row_norm * bounds.phenotype_norm]
    return rows


def contributions(rows, bounds, scales):
    """Return contributions in units of the noise, shape (records, k), and those without noise."""
    d = sum(bounds.block_sizes)
    x, y = rows[:, :d], rows[:, d:]
    blocks = zip(parts(x, bounds.block_sizes), scales.gram, strict=True)
    statistics = [
        *((block, block, sigma, True) for block, sigma in blocks),
        (x, y, scales.phenotype_cross, False),
        (y, y, scales.phenotype_gram, True),
    ]
    noisy, exact = [np.zeros((len(rows), 1))], [np.zeros((len(rows), 1))]
    for left, right, sigma, symmetric in statistics:
        entries = outer(left, right)
        if symmetric:  # each unordered pair of entries is released once, with half the variance
            entries = entries * np.sqrt(upper_weights(entries.shape[1], off_diagonal=2))
        flat = entries.reshape(len(rows), -1)
        (exact if sigma == 0 else noisy).append(flat if sigma == 0 else flat / sigma)
    return np.hstack(noisy), np.hstack(exact)


def neighbours(rows, bounds, promise):
    """Return the group of neighbours of every record, and the protected part of a record."""
    d = sum(bounds.block_sizes)
    # Residuals of the phenotypes change with the covariates, which feature privacy protects.
    protected = slice(d if promise.unit is LABEL else 0, None)
    known = np.ones(rows.shape[1], dtype=bool)
    known[protected] = False
    _, group = np.unique(rows[:, known], axis=0, return_inverse=True)
    return group.reshape(-1), protected


def largest_shift(bounds, promise, scales):
    rows = records(bounds, promise.unit)
    group, protected = neighbours(rows, bounds, promise)
    worst = 0.0
    for number in np.unique(group):
        members = rows[group == number]
        noisy, exact = contributions(members, bounds, scales)
        if promise.adjacency is ADD:
            without = members.copy()
            without[:, protected] = 0
            noisy_without, exact_without = contributions(without, bounds, scales)
            assert (exact == exact_without).all()
            worst = max(worst, ((noisy - noisy_without) ** 2).sum(1).max())
            continue
        assert (exact == exact[:1]).all(), "a statistic without noise changes"
        squared = (noisy**2).sum(1)
        for start in range(0, len(noisy), 500):
            part = slice(start, start + 500)
            distances = squared[part, None] + squared - 2 * noisy[part] @ noisy.T
            worst = max(worst, distances.max())
    return worst


# Label privacy uses no split.
@pytest.mark.parametrize(
    ("privacy", "split"), [(LABEL, 2.0), *itertools.product((FULL, FEATURE), (0.25, 2.0))]
)
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("bounds", SMALL, ids=str)
def test_no_neighbours_are_further_apart_than_mu(bounds, privacy, adjacency, split) -> None:
    promise = Promise(1.0, 1e-6, privacy, adjacency)
    found = calibrate(bounds, promise, Recipe(), split=split)
    allowed = found.cost.mu_squared * (1 - counts_share(promise))
    worst = largest_shift(bounds, promise, found.scales)
    assert worst <= allowed * (1 + 1e-12)
    # Integer records reach every bound at once in the first case, and at t = 2 the worst angle.
    if bounds is SMALL[0] and (adjacency is ADD or split == 2.0):
        assert worst >= 0.99 * allowed
    assert worst >= 0.1 * allowed, "the noise is far too large"


@pytest.mark.parametrize(("privacy", "share"), [(FULL, 0.01), (LABEL, 0.01), (FEATURE, 0.0)])
def test_who_has_a_phenotype_is_public_under_feature_privacy_alone(privacy, share) -> None:
    assert counts_share(Promise(1.0, 1e-6, privacy, ADD)) == share


def test_dense_noise_is_that_of_the_documentation() -> None:
    found = calibrate(BOUNDS, Promise(5.0, 1e-8), Recipe(), split=2.0)
    mu = release_mu(5.0, 1e-8)
    gram_mu = mu * math.sqrt(0.99)
    scales, close = found.scales, lambda value: pytest.approx(value, rel=1e-12)
    assert scales.gram == close((2 * math.sqrt(2) * 20_000 / gram_mu,) * 2)
    assert scales.phenotype_cross == close(2 * math.sqrt(20_000 * 40_000) / gram_mu)
    assert scales.phenotype_gram == close(2 * math.sqrt(2) * 40_000 / gram_mu)
    assert scales.observed == close(10 * math.sqrt(70) / mu)
    assert found.cost.mu_squared == mu**2


def test_blocks_get_less_noise_than_the_dense_matrix() -> None:
    by_block = replace(BOUNDS, block_norms=(1_500,) * 20, block_sizes=(10,) * 20)
    dense = replace(by_block, block_norms=None)
    promise = Promise(5.0, 1e-8)
    noise, free = (calibrate(b, promise, Recipe(), split=2.0).scales for b in (by_block, dense))
    mu = release_mu(5.0, 1e-8) * math.sqrt(0.99)
    assert noise.gram[0] == pytest.approx(4 * math.sqrt(1_500 * 20_000) / mu, rel=1e-12)
    assert noise.phenotype_cross == pytest.approx(free.phenotype_cross, rel=1e-12)
    assert noise.gram[0] < free.gram[0] / 2


def test_shares_of_mu_squared_add_up() -> None:
    plain = calibrate(BOUNDS, Promise(1.0, 1e-6), Recipe(), split=1.0)
    third = calibrate(BOUNDS, Promise(1.0, 1e-6), Recipe(eigenvalue_share=1 / 3), split=1.0)
    ratio = math.sqrt((1 - 0.01) / (1 - 0.01 - 1 / 3))
    assert third.scales.phenotype_cross == pytest.approx(
        ratio * plain.scales.phenotype_cross, rel=1e-12
    )
    change = 20_000 + 1 + 32 * 40 * 343 * 20_000 / 2**53
    mu = release_mu(1.0, 1e-6)
    assert third.scales.smallest_eigenvalue == pytest.approx(
        change / (mu / math.sqrt(3)), rel=1e-12
    )
    rest = calibrate(BOUNDS, Promise(1.0, 1e-6, share=0.95), Recipe(), split=1.0)
    assert rest.cost.mu_squared == pytest.approx(0.95 * mu**2, rel=1e-12)


@pytest.mark.parametrize(("adjacency", "people"), [(REPLACE, 343), (ADD, 2**33)])
def test_noise_on_the_eigenvalue_covers_the_longest_block_and_a_private_number_of_people(
    adjacency, people
) -> None:
    """Theorem 1 (b) of docs/maths/sensitivity.md, with more people than live under add-remove."""
    bounds = replace(BOUNDS, block_norms=(300, 1_500), block_sizes=(10, 30))
    promise, recipe = Promise(1.0, 1e-6, FULL, adjacency), Recipe(eigenvalue_share=1 / 3)
    found = calibrate(bounds, promise, recipe, split=1.0).scales.smallest_eigenvalue
    change = 1_500 + 1 + 32 * 30 * people * 1_500 / 2**53
    assert found == pytest.approx(change / (release_mu(1.0, 1e-6) / math.sqrt(3)), rel=1e-12)


@pytest.mark.parametrize("sigma", [1.0, 0.1, 12_345.6, math.nextafter(2.0, 0), 3e17])
def test_a_scale_is_rounded_up_by_more_than_the_roundings_before_it(sigma) -> None:
    least = Fraction(sigma) * (1 + Fraction(1, 2**50))
    assert least <= Fraction(rounded_up(sigma)) < least * (1 + Fraction(1, 2**50))


def test_naive_composition_pays_for_every_copy() -> None:
    """The mean of k copies with independent noise has a k-th of the variance."""
    one = calibrate(BOUNDS, Promise(1.0, 1e-6), Recipe(), split=1.0).scales
    many = calibrate(BOUNDS, Promise(1.0, 1e-6), Recipe(gram_copies=70), split=1.0).scales
    assert many.gram[0] / math.sqrt(70) == pytest.approx(one.gram[0], rel=1e-12)
    assert many.gram[0] / math.sqrt(70) >= one.gram[0]
    assert many.phenotype_cross == one.phenotype_cross


def test_subsample_is_amplified_as_proved_and_costs_the_promise() -> None:
    bounds = replace(BOUNDS, n_samples=10_000)
    found = calibrate(bounds, Promise(5.0, 4e-8), Recipe(subsample=1_000), split=1.0)
    amplified = math.log(1 + (math.exp(2.5) - 1) * 10)
    mu = mu_for(amplified * (1 - 1e-6), 2e-7)
    assert found.scales.gram[0] == pytest.approx(math.sqrt(2) * 20_000 / mu, rel=1e-9)
    assert (found.cost.epsilon, found.cost.delta) == (2.5, 2e-8)
    assert composed_epsilon(found.cost, 4e-8) == pytest.approx(5.0, rel=3e-6)
    left = calibrate(bounds, Promise(5.0, 4e-8, share=0.98), Recipe(subsample=1_000), split=1.0)
    assert left.scales.gram == found.scales.gram, "the adjustment is paid from the other half"
    assert left.cost == replace(found.cost, mu_squared=left.cost.mu_squared)
    assert left.cost.mu_squared == pytest.approx(0.98 * mu_for(2.5 * (1 - 1e-6), 2e-8) ** 2)
    assert left.scales.phenotype_cross == pytest.approx(
        found.scales.phenotype_cross / math.sqrt(0.98), rel=1e-12
    )
    # The paper's Algorithm 4 would take epsilon n/s, with far less noise.
    wrong = mu_for(2.5 * 10, 2e-7)
    assert found.scales.gram[0] > 2 * math.sqrt(2) * 20_000 / wrong
    # Relative to its size, a subsample never has less noise (docs/maths/subsampling.md).
    full = calibrate(bounds, Promise(5.0, 4e-8), Recipe(), split=1.0)
    assert found.scales.gram[0] / 1_000 > full.scales.gram[0] / 10_000


@pytest.mark.parametrize(
    ("name", "value"),
    [("row_norm", 0), ("phenotype_norm", 0), ("n_samples", 0), ("n_phenotypes", 0),
     ("block_norms", (5, 0)),
     *(("split", split) for split in (0.0, -1.0, 2.1, math.nan))],
)  # fmt: skip
def test_splits_and_bounds_out_of_range_are_refused(name, value) -> None:
    changes, split = ({}, value) if name == "split" else ({name: value}, 1.0)
    with pytest.raises(UsageError, match=name.replace("_", " ")):
        calibrate(replace(BOUNDS, **changes), Promise(1.0, 1e-6), Recipe(), split=split)


@pytest.mark.parametrize(
    ("promise", "recipe"),
    [
        (Promise(1.0, 1e-6, LABEL), Recipe(subsample=10)),
        (Promise(1.0, 1e-6, LABEL), Recipe(eigenvalue_share=0.3)),
        (Promise(1.0, 1e-6, FULL, ADD), Recipe(subsample=10)),
        (Promise(1.0, 1e-6), Recipe(subsample=343)),
        (Promise(1.0, 1e-6), Recipe(subsample=0)),
        (Promise(1.0, 1e-6), Recipe(subsample=10, gram_copies=2)),
        (Promise(1.0, 1e-6), Recipe(subsample=10, eigenvalue_share=0.1)),
        (Promise(1.0, 1e-6), Recipe(eigenvalue_share=0.99)),  # the counts take 0.01
        (Promise(1.0, 1e-6), Recipe(eigenvalue_share=0.999)),
    ],
)
def test_recipes_without_a_proof_are_refused(promise, recipe) -> None:
    with pytest.raises(UsageError):
        calibrate(BOUNDS, promise, recipe, split=1.0)


def test_sums_that_could_wrap_around_are_refused() -> None:
    bounds = replace(BOUNDS, row_norm=2**44, n_samples=2**19)
    with pytest.raises(UsageError, match="64-bit integers"):
        calibrate(bounds, Promise(1.0, 1e-6), Recipe(), split=1.0)
    calibrate(replace(bounds, n_samples=2**18), Promise(1.0, 1e-6), Recipe(), split=1.0)


@pytest.mark.parametrize(
    ("changes", "privacy", "recipe"),
    [
        ({"row_norm": 2**57, "n_samples": 1}, FULL, Recipe()),
        ({"phenotype_norm": 2**58, "n_samples": 1}, LABEL, Recipe()),
        ({}, FULL, Recipe(eigenvalue_share=1e-30)),
    ],
    ids=["X'X", "Y'Y", "smallest eigenvalue"],
)
def test_noise_beyond_the_sampler_is_refused(changes, privacy, recipe) -> None:
    """Before it is paid for: any statistic whose noise cannot be drawn would end the release."""
    with pytest.raises(UsageError, match="64-bit sampling"):
        calibrate(replace(BOUNDS, **changes), Promise(1.0, 1e-6, privacy), recipe, split=1.0)


def test_sums_leave_room_for_the_tail_of_the_noise() -> None:
    """The largest sum plus 32 standard deviations fits in 64 bits, but not with one more person."""
    row_norm = 2**50
    bounds = replace(BOUNDS, row_norm=row_norm, block_norms=None, n_samples=1)
    sigma = max(calibrate(bounds, Promise(1.0, 1e-6), Recipe(), split=1.0).scales.gram)
    most = (2**63 - 1 - 32 * math.ceil(sigma)) // row_norm
    assert most * row_norm < 2**63 - 30 * sigma
    whole = calibrate(replace(bounds, n_samples=most), Promise(1.0, 1e-6), Recipe(), split=1.0)
    assert max(whole.scales.gram) == sigma
    with pytest.raises(UsageError, match="would not fit 64-bit integers"):
        calibrate(replace(bounds, n_samples=most + 1), Promise(1.0, 1e-6), Recipe(), split=1.0)
