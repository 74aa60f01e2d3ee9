"""Genotypes from arrays of the form that pandas-plink's ``read_plink1_bin`` returns."""

import numpy as np
import pytest
from support.ingest_runs import bed_reader_dosages, read_plink1_bin

from primo_scale.errors import InputError
from primo_scale.genotypes.pandas_plink import from_pandas_plink
from primo_scale.genotypes.store import open_genotypes


@pytest.fixture
def array_of(reference):
    made = reference / "data" / "edge" / "plink_made"
    return lambda name, chunks=(1024, 1024): read_plink1_bin(made / name, chunks)


@pytest.mark.parametrize("name", ["base_n43_m61", "n1_m61"])
def test_the_store_has_the_genotypes_that_bed_reader_reads(name, array_of, reference, tmp_path):
    array = array_of(name, chunks=(16, 20))
    store = from_pandas_plink(array, tmp_path / "store")
    expected = bed_reader_dosages(reference / "data/edge/plink_made" / name)
    np.testing.assert_array_equal(open_genotypes(tmp_path / "store").values, expected)
    assert store.samples.individual.tolist() == array.iid.values.tolist()
    assert store.variants.allele1.tolist() == array.a0.values.tolist()
    assert store.variants.position.tolist() == array.pos.values.tolist()
    assert {path.name for path in tmp_path.iterdir()} == {"store"}


def test_chunks_that_pandas_plink_reads_wrongly_are_refused(array_of, tmp_path):
    with pytest.raises(InputError, match="multiple of 4"):
        from_pandas_plink(array_of("base_n43_m61", chunks=(10, 20)), tmp_path / "store")
    assert not list(tmp_path.iterdir())


def test_a_dosage_or_another_array_is_refused(array_of, tmp_path):
    array = array_of("n40_m61")
    with pytest.raises(InputError, match="no number of copies"):
        from_pandas_plink(array * 0.5, tmp_path / "store")
    for other in (array.T, array.drop_vars("snp")):
        with pytest.raises(InputError, match="read_plink1_bin"):
            from_pandas_plink(other, tmp_path / "store")
    assert not list(tmp_path.iterdir()), "no copy of the genotypes is left"
