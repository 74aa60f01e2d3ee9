"""Partial sums in a bucket: encryption, committed tasks, and deletion."""

import numpy as np
import pytest
from support.bucket_runs import contents, interrupted_at
from support.partials import partials_below

from primo_scale.accumulation.partials import KIND
from primo_scale.accumulation.plan import default_plan
from primo_scale.accumulation.statistics import remove_partials
from primo_scale.errors import InputError
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.storage.groups import is_complete, read_block
from primo_scale.storage.stores import KEY_VARIABLE, make_key_file, store_at

N_PEOPLE, SUBSAMPLE = 60, 20
SECRET_DIGEST = "digest-that-would-confirm-a-guess"
LAYOUT = BlockLayout((0, 3, 8), n_fixed=1, n_phenotypes=2)
CODES = np.tile(np.array([-1, 0, 1, 0], dtype=np.int8), (LAYOUT.n_variants, 1))


def opened(where, *, subsample=None, genotypes="genotypes"):
    return partials_below(
        where, default_plan(LAYOUT, N_PEOPLE), CODES, subsample=subsample, genotypes=genotypes,
        outcomes_digest=SECRET_DIGEST,
    )  # fmt: skip


def telling(task, columns):
    """Return numbers whose bytes occur nowhere else."""
    size = LAYOUT.size(task.block)
    return 76543 + np.arange(size * columns, dtype=np.int64).reshape(size, columns)


def commit_all(partials):
    q, n = LAYOUT.n_outcomes, N_PEOPLE
    for task in partials.plan.row_tasks():
        multipliers, planes = np.zeros((n, 1), dtype=np.int64), np.zeros((2 * q, n), dtype=np.int8)
        partials.commit_read(slice(0, n), multipliers, planes)
        partials.commit_rows(task, np.ones((q, q), dtype=np.int64))
    for tile in [tile for task in partials.plan.tile_tasks() for tile in task.tiles]:
        partials.commit_cross(tile, telling(tile, q))
        partials.commit_tile(tile, telling(tile, LAYOUT.size(tile.block)).astype(np.int32))
    return {*partials.plan.row_tasks(), *partials.plan.tile_tasks()}


def test_encrypted_partial_sums_reveal_no_sums_or_digests(prefix, key, tmp_path, monkeypatch):
    partials = opened(prefix)
    assert partials.committed() == set()
    done = commit_all(partials)
    assert opened(prefix).committed() == done == {t for t in done if partials.is_committed(t)}
    tile = next(partials.plan.tile_tasks())
    sums = telling(tile, LAYOUT.n_outcomes)
    np.testing.assert_array_equal(
        read_block(opened(prefix).array("cross/0"), (slice(0, 1), slice(None), slice(None)))[0],
        sums,
    )
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(InputError, match="is encrypted"):
        opened(prefix)
    commit_all(opened(prefix / "plain"))
    for words in (sums.tobytes(), SECRET_DIGEST.encode()):
        assert words in b"".join(contents(prefix / "plain" / "partials.zarr").values())
        assert words not in b"".join(contents(prefix / "partials.zarr").values())
    make_key_file(tmp_path / "another.key")
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "another.key"))
    with pytest.raises(InputError, match="another key"):
        is_complete(prefix / "partials.zarr", KIND)


def test_tasks_read_genotypes_at_the_location_of_the_last_run(prefix, encrypted):
    partials = opened(prefix)
    done = commit_all(partials)
    assert partials.inputs.genotypes == prefix / "genotypes"
    resumed = opened(prefix, genotypes="another-place")
    for known in (partials, resumed):
        assert known.inputs.genotypes == prefix / "another-place"
        assert known.committed() == done
    header = contents(prefix / "partials.zarr")["zarr.json"]
    assert (b"another-place" in header) == (not encrypted)


@pytest.fixture(params=["disk", "bucket"])
def location(request, tmp_path):
    return tmp_path if request.param == "disk" else request.getfixturevalue("prefix")


def test_the_subsample_list_is_deleted_first(location):
    partials = opened(location, subsample=SUBSAMPLE)
    chosen = partials.sampled(slice(0, N_PEOPLE))
    assert chosen is not None and len(chosen) == SUBSAMPLE
    commit_all(partials)
    before = contents(partials.path).keys()
    with interrupted_at(store_at(partials.path), ""):
        remove_partials(partials.path)
    gone = before - contents(partials.path).keys()
    listed = {f"{partials.store_id}/in_subsample/{name}" for name in ("zarr.json", "c/0")}
    assert gone == listed
    remove_partials(partials.path)
    assert contents(partials.path) == {}
    remove_partials(partials.path)  # does nothing
