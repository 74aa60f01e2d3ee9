"""Reading the panel, and laying its variants out as the sites of a cohort."""

import numpy as np
import pytest
from bed_reader import open_bed
from support.command_io import PANEL

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import VariantTable
from primo_scale.simulation.cohort import ReferencePanel, lay_out_sites


def small_panel(chromosomes, positions):
    n = len(chromosomes)
    names = [f"rs{j}" for j in range(n)]
    variants = VariantTable.of(chromosomes, names, positions, ["A"] * n, ["G"] * n)
    return ReferencePanel(variants, np.zeros((n, 2), dtype=np.uint8))


def test_the_panel_equals_what_bed_reader_reads(panel):
    with open_bed(f"{PANEL}.bed") as bed:
        expected = bed.read(dtype="float64").T
        assert panel.variants.identifier.tolist() == bed.sid.tolist()
    np.testing.assert_array_equal(np.array([2, np.nan, 1, 0])[panel.codes], expected)
    np.testing.assert_allclose(panel.a1_frequency, np.nanmean(expected, axis=1) / 2)


@pytest.mark.parametrize("n_variants", [7, 30, 3 * 22, 3 * 100 + 1])
def test_tiling_makes_a_valid_bim(n_variants):
    variants, panel_row, starts = lay_out_sites(
        small_panel(["22"] * 3, [100, 200, 900]), n_variants
    )
    assert len(set(variants.identifier)) == n_variants
    assert variants.identifier[:4].tolist() == ["rs0", "rs1", "rs2", "rs0_2"]
    np.testing.assert_array_equal(panel_row, np.arange(n_variants) % 3)
    np.testing.assert_array_equal(starts, np.arange(n_variants) % 3 == 0)
    chromosome = variants.chromosome.astype(int)
    steps = np.diff(chromosome)
    assert set(steps) <= {0, 1} or n_variants < 3 * 22  # a few tiles skip chromosomes
    assert (steps >= 0).all()
    assert chromosome[0] == 1 and chromosome[-1] <= 22
    assert (np.diff(variants.position)[steps == 0] > 0).all()
    first_of_chromosome = np.append(True, steps > 0)
    assert set(variants.position[first_of_chromosome]) == {100}


def test_tiles_of_several_chromosomes_and_positions_beyond_plinks_limit_are_refused():
    with pytest.raises(InputError, match="several chromosomes"):
        lay_out_sites(small_panel(["1", "2"], [5, 5]), 3)
    with pytest.raises(InputError, match="above PLINK's limit"):
        lay_out_sites(small_panel(["1", "1"], [5, 2_000_000_000]), 2 * 22 * 2)
