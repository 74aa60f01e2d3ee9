"""LD blocks of a panel: costs of cuts by brute force, and the division of least total cost."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_io import PANEL
from support.filesets import write_fileset_of

from primo_scale.accumulation.plan import block_boundaries
from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.tables import read_bim
from primo_scale.panel import ld
from primo_scale.panel.ld import (
    BlockSizes,
    centred,
    crossing_ld,
    least_cuts,
    standardise,
    write_ld_blocks,
)


@pytest.mark.parametrize("per_pass", [1, 7, 64])
def test_costs_are_the_sums_over_all_pairs_across_a_cut(per_pass, monkeypatch):
    monkeypatch.setattr(ld, "_VARIANTS_PER_PASS", per_pass)
    dosages = np.random.default_rng(1).integers(0, 3, (30, 20)).astype(np.int8)
    squares = np.corrcoef(dosages) ** 2 - 1 / 19
    expected = [
        sum(squares[i, j] for i in range(cut) for j in range(cut, 30) if j - i < 9)
        for cut in range(31)
    ]
    rows = standardise(centred(dosages))
    np.testing.assert_allclose(
        crossing_ld(lambda part: rows[part], range(30), 9), expected, atol=1e-5
    )


def test_missing_dosages_are_the_mean_and_equal_ones_are_uncorrelated():
    dosages = np.array([[0, 2, -1, 1], [1, 1, 1, -1], [-1, -1, -1, -1]], dtype=np.int8)
    rows = standardise(centred(dosages))
    np.testing.assert_allclose(rows[0], np.array([-1, 1, 0, 0]) / math.sqrt(2), rtol=1e-6)
    assert not rows[1:].any()


@given(
    costs=st.lists(st.integers(-3, 9), min_size=1, max_size=12),
    least=st.integers(1, 4),
    wider=st.integers(0, 3),
)
def test_the_division_has_the_least_cost_of_all(costs, least, wider):
    sizes, n = BlockSizes(least, 2 * least - 1 + wider), len(costs)
    cost = np.array([0.0, *costs])

    def total(cuts):
        return sum(cost[cut] for cut in cuts[1:-1])

    found = least_cuts(cost, sizes)
    if n < least:
        assert found == [0, n]
        return
    inside = range(1, n)
    divisions = ([0, *chosen, n] for k in range(n) for chosen in itertools.combinations(inside, k))
    permitted = [
        cuts
        for cuts in divisions
        if all(sizes.least <= b - a <= sizes.most for a, b in itertools.pairwise(cuts))
    ]
    assert found in permitted
    assert total(found) == min(map(total, permitted))


def test_independent_groups_of_variants_become_the_blocks(tmp_path):
    """Neighbours inside a group differ in a tenth of the dosages."""
    rng, dosages = np.random.default_rng(2), []
    sizes = [9, 14, 11, 16, 8]
    for size in sizes:
        first = rng.binomial(2, 0.4, 200)
        dosages.append(first)
        for _ in range(size - 1):
            dosages.append(np.where(rng.random(200) < 0.1, rng.binomial(2, 0.4, 200), dosages[-1]))
    panel = write_fileset_of(
        tmp_path / "panel", np.array(dosages), list(range(100, 100 + sum(sizes)))
    )
    out = tmp_path / "blocks.tsv"
    assert write_ld_blocks(panel, out, BlockSizes(8, 16)) == len(sizes)
    starts = 100 + np.cumsum([0, *sizes])
    lines = [f"1\t{a}\t{b}" for a, b in itertools.pairwise(starts)]
    assert out.read_text().splitlines() == ["chr\tstart\tstop", *lines]


def test_the_table_gives_the_same_blocks_to_a_release(tmp_path):
    out, variants = tmp_path / "blocks.tsv", read_bim(PANEL.with_suffix(".bim"))
    n_blocks = write_ld_blocks(PANEL, out, BlockSizes(100, 250))
    boundaries = block_boundaries(str(out), variants)
    assert len(boundaries) == n_blocks + 1
    assert all(100 <= b - a <= 250 for a, b in itertools.pairwise(boundaries))


def test_variants_of_one_position_are_not_divided(tmp_path):
    dosages = np.random.default_rng(3).integers(0, 3, (8, 30))
    panel = write_fileset_of(tmp_path / "panel", dosages, [1, 2, 2, 2, 2, 2, 3, 4])
    out = tmp_path / "blocks.tsv"
    assert write_ld_blocks(panel, out, BlockSizes(1, 6)) >= 2
    assert "\t2\t2" not in out.read_text()
    with pytest.raises(InputError, match="too many variants of chromosome 1 share a position"):
        write_ld_blocks(panel, tmp_path / "none.tsv", BlockSizes(1, 4))
    assert not (tmp_path / "none.tsv").exists()


def test_unsorted_variants_and_impossible_sizes_are_refused(tmp_path):
    panel = write_fileset_of(tmp_path / "panel", np.ones((3, 4), int), [1, 3, 2])
    with pytest.raises(InputError, match="chromosome 1 are not sorted by position"):
        write_ld_blocks(panel, tmp_path / "out.tsv", BlockSizes(1, 2))
    with pytest.raises(UsageError, match="nearly twice as many variants as the smallest"):
        BlockSizes(300, 500)
