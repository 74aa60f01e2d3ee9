"""Genotypes from arrays of the form that pandas-plink's ``read_plink1_bin`` returns."""

import dask.array
import numpy as np
import pytest
import xarray
from bed_reader import open_bed
from support.ingest_runs import bed_reader_dosages

from primo_scale.errors import InputError
from primo_scale.genotypes.pandas_plink import from_pandas_plink
from primo_scale.genotypes.store import open_genotypes


@pytest.fixture
def array_of(reference):
    """Return a function that reads a fileset into an array as read_plink1_bin does."""

    def read(name: str, chunks=(1024, 1024)) -> xarray.DataArray:
        prefix = reference / "data" / "edge" / "plink_made" / name
        with open_bed(f"{prefix}.bed") as bed:
            first = bed.read(dtype="float32")
        bim, fam = (np.loadtxt(f"{prefix}.{end}", dtype=str, ndmin=2).T for end in ("bim", "fam"))
        return xarray.DataArray(
            dask.array.from_array(2 - first, chunks=chunks),
            dims=("sample", "variant"),
            coords={
                "fid": ("sample", fam[0]),
                "iid": ("sample", fam[1]),
                "gender": ("sample", fam[4]),
                "chrom": ("variant", bim[0]),
                "snp": ("variant", bim[1]),
                "cm": ("variant", bim[2].astype(float)),
                "pos": ("variant", bim[3].astype(int)),
                "a0": ("variant", bim[4]),
                "a1": ("variant", bim[5]),
            },
        )

    return read


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
