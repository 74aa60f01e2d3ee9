"""The .bed file of a simulated cohort is complete or absent, and the same for any stripe size."""

import bed_reader
import numpy as np
import pytest

from primo_scale.genotypes.bed import write_bed
from primo_scale.simulation import cohort as mosaic_module
from primo_scale.simulation.cohort import genotype_slabs

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
