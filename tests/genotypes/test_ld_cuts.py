"""LD blocks of a panel: costs of cuts by brute force, and the division of least total cost."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.filesets import write_fileset_of

from primo_scale.genotypes.tables import read_bim
from primo_scale.panel import ld


@pytest.mark.parametrize("per_pass", [1, 7, 64])
def test_costs_are_the_sums_over_all_pairs_across_a_cut(per_pass, monkeypatch):
    monkeypatch.setattr(ld, "_VARIANTS_PER_PASS", per_pass)
    dosages = np.random.default_rng(1).integers(0, 3, (30, 20)).astype(np.int8)
    squares = np.corrcoef(dosages) ** 2 - 1 / 19
    expected = [
        sum(squares[i, j] for i in range(cut) for j in range(cut, 30) if j - i < 9)
        for cut in range(31)
    ]
    rows = ld.standardise(ld.centred(dosages))
    np.testing.assert_allclose(
        ld.crossing_ld(lambda part: rows[part], range(30), 9), expected, atol=1e-5
    )


@given(
    costs=st.lists(st.integers(-3, 9), min_size=1, max_size=12),
    least=st.integers(1, 4),
    wider=st.integers(0, 3),
)
def test_the_division_has_the_least_cost_of_all(costs, least, wider):
    most, n = 2 * least - 1 + wider, len(costs)
    cost = np.array([0.0, *costs])

    def total(cuts):
        return sum(cost[cut] for cut in cuts[1:-1])

    found = ld.least_cuts(cost, least, most)
    if n < least:
        assert found == [0, n]
        return
    inside = range(1, n)
    divisions = ([0, *chosen, n] for k in range(n) for chosen in itertools.combinations(inside, k))
    permitted = [
        cuts
        for cuts in divisions
        if all(least <= b - a <= most for a, b in itertools.pairwise(cuts))
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
    matched = ld.open_ld_panel((panel,), read_bim(panel.with_suffix(".bim")))
    assert ld.panel_boundaries(matched, (8, 16)) == tuple(np.cumsum([0, *sizes]).tolist())
