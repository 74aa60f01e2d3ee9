"""Noise on tiles and panels: every number gets one draw of its scale under a unique label."""

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.noise_checks import KEY, RISK, has_scale
from support.stores import pieces_of, write_matrices, zero_statistics

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.gaussian.noise import KeystreamNoise
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.privacy.mechanism import NoiseScales, Promise, Recipe
from primo_scale.privacy.private_statistics import privatise, smallest_eigenvalue
from primo_scale.storage.block_matrices import BlockLayout

# Large enough that the lattice is that of the integers, so that draws are added unchanged.
SIGMA = 2.0**40
HIDES_N = Promise(1.0, 1e-6, PrivacyUnit.FULL, Adjacency.ADD_REMOVE)
ABOVE = math.nextafter(SIGMA / math.sqrt(2), math.inf)


@dataclass
class Numbered:
    """Source that returns 1, 2, 3, ... and records the requested scales and labels."""

    labels: list[str] = field(default_factory=list)
    scales: list[float] = field(default_factory=lambda: [math.nan])

    def draw(self, label, count, scale):
        first = len(self.scales)
        self.labels.append(label)
        self.scales += [scale] * count
        return np.arange(first, first + count)


def scales_of(layout, **changes):
    everywhere = NoiseScales(
        gram=tuple(SIGMA * 2**block for block in range(layout.n_blocks)),
        phenotype_cross=5 * SIGMA, phenotype_gram=11 * SIGMA, observed=13 * SIGMA,
        smallest_eigenvalue=15 * SIGMA,
    )  # fmt: skip
    return replace(everywhere, **changes)


def mechanism_of(layout, scales, copies=1, promise=HIDES_N):
    bounds = SimpleNamespace(n_phenotypes=layout.n_phenotypes)
    recipe = Recipe(gram_copies=copies)
    return SimpleNamespace(scales=scales, recipe=recipe, bounds=bounds, promise=promise)


def drawn(folder, layout, scales, source, copies=1, promise=HIDES_N):
    mechanism = mechanism_of(layout, scales, copies, promise)
    raw = zero_statistics(folder / "raw", layout, largest_gram=0)
    return privatise(raw, mechanism, source, folder / "private", lambda *_: None).matrices


def svec(size, sigma):
    scales = np.full((size, size), math.nextafter(sigma / math.sqrt(2), math.inf))
    np.fill_diagonal(scales, sigma)
    return scales


def check_draws(matrices, scales, source):
    """Check that `Numbered` drew every number once, at its scale and under a label of its own."""
    layout, numbered = matrices.layout, []

    def expect(values, sigma):
        numbered.append((values.ravel(), np.broadcast_to(sigma, values.shape).ravel()))

    def expect_symmetric(matrix, sigmas):
        np.testing.assert_array_equal(matrix, matrix.T)
        upper = np.triu_indices(len(matrix))
        expect(matrix[upper], sigmas[upper])

    for block, sigma in enumerate(scales.gram):
        for copy in range(matrices.gram_copies):
            expect_symmetric(matrices.gram(block, copy), svec(layout.sizes[block], sigma))
        expect(matrices.cross(block), scales.phenotype_cross)
    expect_symmetric(matrices.outcome_gram(), svec(layout.n_phenotypes, scales.phenotype_gram))
    expect(matrices.observed(), scales.observed)
    expect(np.array([matrices.smallest_eigenvalue()]), scales.smallest_eigenvalue)
    numbers, expected = (np.concatenate(parts) for parts in zip(*numbered, strict=True))
    np.testing.assert_array_equal(np.array(source.scales)[numbers], expected)
    np.testing.assert_array_equal(np.sort(numbers), np.arange(1, len(source.scales)))
    assert len(set(source.labels)) == len(source.labels)


@settings(max_examples=8, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    side=st.sampled_from([5, 8, 10, 41]),
    copies=st.integers(1, 3),
    n_phenotypes=st.integers(1, 4),
)
def test_every_number_gets_one_draw_of_its_scale(
    tmp_path_factory, sizes, side, copies, n_phenotypes
):
    layout = BlockLayout(tuple(np.cumsum([0, *sizes]).tolist()), 0, n_phenotypes)
    source, scales = Numbered(), scales_of(layout)
    with pieces_of(side, 12):
        matrices = drawn(tmp_path_factory.mktemp("d"), layout, scales, source, copies)
        check_draws(matrices, scales, source)


LAYOUT = BlockLayout((0, 20, 33), 2, 3)


def test_the_smallest_eigenvalue_may_lie_in_any_block():
    grams = [np.diag([7, 9]), np.array([[2, 1], [1, 3]])]
    assert smallest_eigenvalue(grams) == 1  # rounded down from 1.38


def test_tiles_of_a_keystream_are_independent_and_of_their_scale(tmp_path):
    """420 variants in tiles of 64, twice: 30 whole tiles beside the diagonal, 122,880 draws."""
    layout = BlockLayout((0, 420), 0, 1)
    scales = scales_of(layout)
    with pieces_of(64, 4096):
        matrices = drawn(tmp_path, layout, scales, KeystreamNoise(KEY), copies=2)
        tiles = [
            whole[tile.selection].ravel()
            for whole in (matrices.gram(0, copy) for copy in range(2))
            for tile in layout.tiles(0)
            if not tile.on_diagonal and tile.shape == (64, 64)
        ]
    assert len(tiles) == 30
    beside = np.concatenate(tiles)
    assert has_scale(beside, ABOVE)
    for wrong in (SIGMA, ABOVE * 1.05, ABOVE / 1.05):
        assert not has_scale(beside, wrong)
    # The standard error of a correlation of 4,096 pairs is 1/64; 435 pairs of tiles.
    correlations = np.corrcoef(tiles) - np.eye(30)
    assert np.abs(correlations).max() < stats.norm.isf(RISK / 2 / 435) / 64
    assert np.abs(np.corrcoef(tiles[0], tiles[0] + tiles[1])[0, 1]) > 0.5


def test_a_public_statistic_is_unchanged_and_that_of_residuals_by_covariates_is_left_out(tmp_path):
    public, rng = scales_of(LAYOUT, gram=(0.0, 0.0)), np.random.default_rng(1)
    grams = [rng.integers(0, 9, (size, size)) for size in LAYOUT.sizes]
    grams = [gram + gram.T for gram in grams]
    crosses = [rng.integers(1, 9, (size, 5)) for size in LAYOUT.sizes]
    outcomes = np.full((5, 5), 7)
    writer = write_matrices(tmp_path / "raw", LAYOUT, grams, crosses, outcomes, np.arange(4))
    raw = RawStatistics(writer.finish({}), 1000, "digest", {})
    label = Promise(1.0, 1e-6, PrivacyUnit.LABEL)
    mechanism = mechanism_of(LAYOUT, public, promise=label)
    private = privatise(raw, mechanism, KeystreamNoise(KEY), tmp_path / "private", lambda *_: None)
    matrices = private.matrices
    for block in range(2):
        np.testing.assert_array_equal(matrices.gram(block), grams[block])
        np.testing.assert_array_equal(matrices.cross(block)[:, :2], crosses[block][:, :2])
        assert (matrices.cross(block)[:, 2:] != crosses[block][:, 2:]).all()
    np.testing.assert_array_equal(matrices.outcome_gram()[:2, :2], 7)
    assert not matrices.outcome_gram()[:2, 2:].any() and not matrices.outcome_gram()[2:, :2].any()
    assert (matrices.outcome_gram()[2:, 2:] != 7).all()
    assert matrices.observed()[0] == 0 and (matrices.observed()[1:] != np.arange(1, 4)).all()


@pytest.mark.parametrize("unit", [PrivacyUnit.FULL, PrivacyUnit.FEATURE])
def test_private_covariates_are_in_no_sum(tmp_path, unit):
    with pytest.raises(ValueError, match="in no sum where they are private"):
        drawn(
            tmp_path, LAYOUT, scales_of(LAYOUT), KeystreamNoise(KEY), promise=Promise(1, 1e-6, unit)
        )
