"""`open_genotypes`: lazy reading, labels, and no private data in task names."""

import pickle
from pathlib import Path

import dask
import numpy as np
import pytest
from support.ingest_runs import run

import primo_scale
from primo_scale.genotypes.store import GenotypeStore


@pytest.fixture
def store(base: Path, tmp_path: Path) -> GenotypeStore:
    return run(base, tmp_path / "g.zarr")


def test_labels_and_shape(store, base):
    array = primo_scale.open_genotypes(str(store.path))
    assert array.dims == ("variant", "sample")
    assert array.dtype == np.int8
    assert array.shape == (61, 43)
    assert dask.is_dask_collection(array.data)
    assert array.data.chunks == ((16, 16, 16, 13), (12, 12, 12, 7))
    bim, fam = (Path(f"{base}.{kind}").read_text().split() for kind in ("bim", "fam"))
    assert array["variant"].values.tolist() == bim[1::6]
    assert array["chrom"].values.tolist() == bim[0::6]
    assert array["pos"].values.tolist() == [int(position) for position in bim[3::6]]
    assert array["a1"].values.tolist() == bim[4::6]
    assert array["a2"].values.tolist() == bim[5::6]
    assert array["fid"].values.tolist() == fam[0::6]
    assert array["sample"].values.tolist() == fam[1::6]


def test_task_names_and_payloads_hold_no_identifier(store):
    graph = primo_scale.open_genotypes(store.path).data.__dask_graph__()
    public = repr(dict(graph)).encode() + pickle.dumps(dict(graph))
    assert store.samples.individual[0].encode() not in public
    assert store.variants.identifier[0].encode() not in public
    assert store.identity_digest.encode() not in public


def test_a_store_is_pickled_as_its_path(store):
    assert len(store.samples) == 43
    payload = pickle.dumps(store)
    assert store.samples.individual[0].encode() not in payload
    assert pickle.loads(payload) == store
