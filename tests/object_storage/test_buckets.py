"""Stores in a bucket: conditional commits, faults of the service, damage, refusals."""

import pickle
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.faulty_proxy import FAULTS, SECRET, seeded
from support.stores import VALUES, write_store

from primo_scale.errors import DamagedChunk, InputError, InterruptedRun, UsageError
from primo_scale.run.work_directory import claim
from primo_scale.storage import bucket_store, groups
from primo_scale.storage.locations import Location, ObjectUrl
from primo_scale.storage.stores import store_at

RACERS, ROUNDS = 8, 5
SHORT = {"ATTEMPTS": 4, "FIRST_PAUSE_S": 0.01, "CONNECT_S": 2, "ANSWER_S": 1}


def written(location: Location, offset: int = 0):
    """Write a store, and return its first array, which holds `VALUES` plus the offset."""
    return groups.array_of(
        groups.open_group(write_store(location, offset=offset), "statistics"), "a"
    )


def test_a_store_in_a_bucket_equals_one_on_disk(prefix, tmp_path):
    local, remote = written(tmp_path / "s"), written(prefix / "s")
    on_disk, in_bucket = store_at(tmp_path / "s"), store_at(prefix / "s")
    assert sorted(in_bucket.all_keys()) == sorted(on_disk.all_keys())
    for key in on_disk.all_keys():
        assert in_bucket.read(key) == on_disk.read(key), key
    np.testing.assert_array_equal(groups.read_block(remote), groups.read_block(local))
    names = groups.read_strings(groups.open_group(prefix / "s", "statistics"), "names")
    assert names.tolist() == ["x0", "y"]


def test_one_of_several_concurrent_commits_wins(prefix, proxy):
    proxy(lambda method, path, attempt: None)  # makes conditional puts atomic
    layout = groups.ArrayLayout((ROUNDS, 4), (1, 4), np.int64)
    groups.create_array(groups.create_group(prefix, "partial statistics", {}), "a", layout)
    barrier = threading.Barrier(RACERS)

    def race(number: int) -> list[bool]:
        bucket_store.open_bucket.cache_clear()  # separate connections, as in separate processes
        store = store_at(prefix)
        array = groups.array_of(
            groups.open_group(prefix, "partial statistics", complete=False), "a"
        )
        first = []
        for turn in range(ROUNDS):
            barrier.wait()
            groups.commit_chunk(array, (turn, 0), np.full((1, 4), number))
            first.append(store.put_if_absent(f"claims/{turn}", str(number).encode()))
        return first

    with ThreadPoolExecutor(RACERS) as threads:
        first = np.array(list(threads.map(race, range(1, RACERS + 1))))
    np.testing.assert_array_equal(first.sum(axis=0), 1)
    for turn, winner in enumerate(first.argmax(axis=0) + 1):
        assert store_at(prefix).read(f"claims/{turn}") == str(winner).encode()
    array = groups.array_of(groups.open_group(prefix, "partial statistics", complete=False), "a")
    kept = groups.read_block(array)
    assert set(kept.ravel()) <= set(range(1, RACERS + 1))
    assert (kept == kept[:, :1]).all()
    groups.commit_chunk(
        array, (0, 0), np.zeros((1, 4), dtype=np.int64)
    )  # a late commit has no effect
    np.testing.assert_array_equal(groups.read_block(array), kept)
    groups.drop_chunk(array, (0, 0))
    assert not store_at(prefix).holds("a/c/0/0")
    groups.commit_chunk(array, (0, 0), np.zeros((1, 4), dtype=np.int64))
    assert not groups.read_block(array, (slice(0, 1), slice(None))).any()


@pytest.mark.parametrize("key", ["a/c/1/0", "a/c/0/0"])
def test_reading_a_missing_object_is_an_error(prefix, key):
    array = written(prefix)
    store_at(prefix).remove(key)
    with pytest.raises(DamagedChunk, match=rf"{prefix}/{key}: a stored chunk is missing"):
        groups.read_block(array)


def test_faults_of_the_service_do_not_change_the_result(prefix, proxy):
    """A third of the answers are errors, late, truncated or lost after the request was done."""
    faulty = proxy(seeded(1, 0.33))
    array = written(prefix)
    reads = 0
    while reads < 8 or (set(faulty.traffic.faults) != {*FAULTS, "none"} and reads < 80):
        np.testing.assert_array_equal(groups.read_block(array), VALUES)
        reads += 1
    assert set(faulty.traffic.faults) == {*FAULTS, "none"}


def test_a_commit_whose_answer_is_lost_is_committed_once(prefix, proxy):
    group = groups.create_group(prefix, "partial statistics", {})
    array = groups.create_array(group, "a", groups.ArrayLayout((4,), (4,), np.int64))
    faulty = proxy(
        lambda method, path, attempt: "lost answer" if (method, attempt) == ("PUT", 0) else None
    )
    array = groups.array_of(groups.open_group(prefix, "partial statistics", complete=False), "a")
    groups.commit_chunk(array, (0,), np.arange(4))
    np.testing.assert_array_equal(groups.read_block(array), np.arange(4))
    puts = [status for method, _, status in faulty.traffic.answered if method == "PUT"]
    assert puts == [412]  # the second attempt found the first one's object


def test_a_service_that_never_answers_interrupts_the_run(prefix, proxy, monkeypatch):
    for name, value in SHORT.items():
        monkeypatch.setattr(bucket_store, name, value)
    written(prefix)
    for fault in ("status 500", "truncated"):
        faulty = proxy(lambda method, path, attempt, fault=fault: fault)
        with pytest.raises(InterruptedRun, match="4 attempts") as caught:
            store_at(prefix).read("a/c/0/0")
        assert faulty.traffic.faults[fault] == SHORT["ATTEMPTS"]
        assert "secret-of-the-service" not in "".join(traceback.format_exception(caught.value))


def test_refusals_are_reported_at_once(prefix, environment, monkeypatch):
    nowhere = ObjectUrl("s3", "no-such-bucket", "x")
    with pytest.raises(InputError, match="the bucket does not exist"):
        store_at(nowhere).put_if_absent("claim", b"x")
    with pytest.raises(InputError, match="HTTP 404"):
        list(store_at(nowhere).all_keys())
    environment.delenv("AWS_ALLOW_HTTP")
    bucket_store.open_bucket.cache_clear()
    with pytest.raises(UsageError, match="unencrypted"):
        store_at(prefix)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (301, "HTTP 301"), (400, "HTTP 400"), (401, "does not accept the credentials"),
        (403, "refuses access"), (501, "conditional put"),
    ],
)  # fmt: skip
def test_permanent_errors_are_not_retried(prefix, proxy, status, said):
    faulty = proxy(lambda method, path, attempt: f"status {status}")
    with pytest.raises(InputError, match=said) as caught:
        store_at(prefix).put_if_absent("claim", b"x")
    assert sum(faulty.traffic.faults.values()) == 1
    assert "secret-of-the-service" not in "".join(traceback.format_exception(caught.value))


def test_a_service_that_ignores_conditions_is_refused(prefix, proxy, tmp_path):
    claim(prefix, tmp_path)
    claim(prefix, tmp_path)
    proxy(lambda method, path, attempt: "no conditions")
    with pytest.raises(InputError, match="conditional put"):
        claim(prefix / "elsewhere", tmp_path)


def test_credentials_stay_in_the_environment(prefix, proxy):
    store, faulty = store_at(prefix), proxy(lambda method, path, attempt: None)
    assert SECRET not in repr(store) + str(store) + repr(prefix) + repr(vars(store))
    assert pickle.loads(pickle.dumps(prefix)) == prefix
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(store)
    written(prefix)
    assert any("Credential=loopback/" in header for header in faulty.traffic.headers)
    assert not any(SECRET in header for header in faulty.traffic.headers)
