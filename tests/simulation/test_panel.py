"""The panel as it is read, its variants as sites of a cohort, and the .bed file of the cohort."""

import bed_reader
import numpy as np
import pytest
from bed_reader import open_bed
from support.command_io import PANEL

from primo_scale.errors import InputError
from primo_scale.genotypes.bed import write_bed
from primo_scale.genotypes.tables import VariantTable
from primo_scale.simulation import cohort as mosaic_module
from primo_scale.simulation.cohort import ReferencePanel, genotype_slabs, lay_out_sites


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


N_PEOPLE, N_VARIANTS = 1_003, 400


@pytest.mark.parametrize("people_per_stripe", [256, 1_000, N_PEOPLE])
def test_bed_reader_reads_the_genotypes_of_every_stripe(
    people_per_stripe, tmp_path, mosaic_of, raw_values, monkeypatch
):
    mosaic = mosaic_of(missing_rate=0.05)
    expected = raw_values(mosaic, N_PEOPLE)
    monkeypatch.setattr(mosaic_module, "PEOPLE_PER_STRIPE", people_per_stripe)
    monkeypatch.setattr(mosaic_module, "SLAB_BYTES", 10_000)
    slabs = genotype_slabs(mosaic, N_PEOPLE)
    write_bed(tmp_path / "cohort.bed", slabs, (N_VARIANTS, N_PEOPLE))
    with bed_reader.open_bed(
        tmp_path / "cohort.bed", iid_count=N_PEOPLE, sid_count=N_VARIANTS
    ) as bed:
        dosages = bed.read(dtype="float64").T
    copies_of_a1 = np.array([2, np.nan, 1, 0])
    np.testing.assert_array_equal(dosages, copies_of_a1[expected])


def test_an_unfinished_bed_does_not_replace_an_earlier_one(tmp_path, mosaic_of):
    mosaic = mosaic_of()
    path = tmp_path / "cohort.bed"
    write_bed(path, genotype_slabs(mosaic, 40), (N_VARIANTS, 40))
    before = path.read_bytes()

    def broken():
        yield from genotype_slabs(mosaic, 80)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_bed(path, broken(), (N_VARIANTS, 80))
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["cohort.bed"]
