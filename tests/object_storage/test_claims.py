"""Claims on prefixes: what a purge deletes, and what it does not."""

import pytest
from support.bucket_runs import interrupted_at

from primo_scale.errors import InputError
from primo_scale.run.work_directory import (
    GENOTYPES,
    OUTCOMES,
    PARTIALS,
    STATISTICS,
    UNADJUSTED,
    claim,
    empty_claimed,
    last_claimed,
)
from primo_scale.storage.locations import ObjectUrl
from primo_scale.storage.stores import store_at


def fill(prefix: ObjectUrl) -> None:
    for name in (OUTCOMES, UNADJUSTED, PARTIALS, STATISTICS, GENOTYPES):
        store_at(prefix).put_if_absent(f"{name}/zarr.json", b"{}")
    store_at(prefix).put_if_absent("mine.txt", b"the user's own")


def names(prefix: ObjectUrl) -> set[str]:
    return set(store_at(prefix).all_keys())


def test_every_claimed_prefix_is_emptied(prefix, tmp_path):
    assert last_claimed(tmp_path) is None
    empty_claimed(tmp_path, genotypes=True)  # nothing was claimed
    first, second = prefix / "first", prefix / "second"
    for each in (first, second, first):
        claim(each, tmp_path)
        assert last_claimed(tmp_path) == str(each)
        fill(each)
    empty_claimed(tmp_path, genotypes=False)
    assert names(first) == names(second) == {"genotypes.zarr/zarr.json", "mine.txt"}
    claim(first, tmp_path)
    empty_claimed(tmp_path, genotypes=True)
    assert names(first) == {"mine.txt"}
    assert names(second) == {"genotypes.zarr/zarr.json", "mine.txt"}  # no longer claimed


def test_a_claim_of_another_work_directory_is_respected(prefix, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for work in (ours, theirs):
        work.mkdir()
    claim(prefix, theirs)
    fill(prefix)
    before = names(prefix)
    with pytest.raises(InputError, match="another work directory"):
        claim(prefix, ours)
    empty_claimed(ours, genotypes=True)
    assert names(prefix) == before


@pytest.mark.parametrize("sums", [PARTIALS, STATISTICS])
def test_sums_without_a_claim_are_refused(prefix, tmp_path, sums):
    """The sums may be of a used subsample, which only the lost work directory recorded."""
    store = store_at(prefix)
    store.put_if_absent(f"{OUTCOMES}/zarr.json", b"{}")
    store.put_if_absent(f"{sums}/zarr.json", b"{}")
    with pytest.raises(InputError, match=f"claim on them is gone.*delete {sums} there"):
        claim(prefix, tmp_path)
    assert "claim" not in names(prefix)
    store.remove_below(sums)
    claim(prefix, tmp_path)
    store.put_if_absent(f"{sums}/zarr.json", b"{}")
    claim(prefix, tmp_path)  # the work directory has the claim


def test_emptying_continues_after_an_interruption(prefix, tmp_path):
    """The claim is deleted last, so that the work directory owns what is left."""
    claim(prefix, tmp_path)
    fill(prefix)
    with interrupted_at(store_at(prefix), OUTCOMES):
        empty_claimed(tmp_path, genotypes=True)
    assert "claim" in names(prefix) and f"{PARTIALS}/zarr.json" not in names(prefix)
    empty_claimed(tmp_path, genotypes=True)
    assert names(prefix) == {"mine.txt"}
