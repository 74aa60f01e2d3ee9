"""Claims on prefixes: what a purge finds by them, and what it leaves to others."""

from __future__ import annotations

import pytest

from primo_scale.errors import InputError, InterruptedRun
from primo_scale.run.work_directory import (
    OUTCOMES,
    PARTIALS,
    STATISTICS,
    STORE,
    claim,
    empty_claimed,
    last_claimed,
)
from primo_scale.storage.locations import ObjectUrl
from primo_scale.storage.stores import store_at


def fill(prefix: ObjectUrl) -> None:
    """What a run may leave, and a file of the user's."""
    for name in (OUTCOMES, PARTIALS, STATISTICS, STORE):
        store_at(prefix).put_if_absent(f"{name}/zarr.json", b"{}")
    store_at(prefix).put_if_absent("mine.txt", b"the user's own")


def names(prefix: ObjectUrl) -> set[str]:
    return set(store_at(prefix).all_keys())


def test_every_prefix_that_was_claimed_is_emptied_by_name(prefix, tmp_path):
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
    assert names(second) == {"genotypes.zarr/zarr.json", "mine.txt"}  # not claimed any more


def test_what_another_work_directory_claims_is_left_alone(prefix, tmp_path):
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
def test_sums_that_nobody_claims_are_nobodys(prefix, tmp_path, sums):
    """They may be of a subsample that served: only the work directory that lost them knew."""
    store = store_at(prefix)
    store.put_if_absent(f"{OUTCOMES}/zarr.json", b"{}")
    store.put_if_absent(f"{sums}/zarr.json", b"{}")
    with pytest.raises(InputError, match=f"claim on them is gone.*delete {sums} there"):
        claim(prefix, tmp_path)
    assert "claim" not in names(prefix)
    store.remove_below(sums)
    claim(prefix, tmp_path)
    store.put_if_absent(f"{sums}/zarr.json", b"{}")
    claim(prefix, tmp_path)  # its own by now


def test_emptying_goes_on_after_an_interruption(prefix, tmp_path, monkeypatch):
    """The claim goes last: as long as anything is left, the work directory owns it."""
    claim(prefix, tmp_path)
    fill(prefix)
    store = type(store_at(prefix))
    whole = store.remove_below

    def interrupted(self, below: str) -> None:
        if below == OUTCOMES:
            raise InterruptedRun("the object store gave no usable answer")
        whole(self, below)

    monkeypatch.setattr(store, "remove_below", interrupted)
    with pytest.raises(InterruptedRun):
        empty_claimed(tmp_path, genotypes=True)
    assert "claim" in names(prefix) and f"{PARTIALS}/zarr.json" not in names(prefix)
    monkeypatch.setattr(store, "remove_below", whole)
    empty_claimed(tmp_path, genotypes=True)
    assert names(prefix) == {"mine.txt"}
