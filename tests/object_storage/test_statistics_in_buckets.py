"""Finished statistics in a bucket: completeness, encryption, damage, and claims."""

import gzip
import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.bucket_runs import BUDGET, contents, ledger, options, run
from support.command_io import digest_in
from support.faulty_proxy import seeded
from support.stores import write_matrices

from primo_scale import machine
from primo_scale.accumulation.statistics import finished_plan_digest, open_raw_statistics
from primo_scale.errors import InputError
from primo_scale.run.work_directory import STATISTICS
from primo_scale.storage import bucket_store
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.storage.locations import Location
from primo_scale.storage.stores import store_at

LAYOUT = BlockLayout((0, 3), n_fixed=1, n_phenotypes=2)
SMALL_DISK = 30_000  # bytes: less than partial sums, more than statistics with noise


def numbers(*shape: int) -> np.ndarray:
    """Return numbers whose bytes occur nowhere else; a square matrix of them is symmetric."""
    return 76543 + np.add.outer(np.arange(shape[0]), np.arange(shape[1]))


def summed(location: Location, inputs: dict[str, str] | None = None) -> None:
    (size,), q = LAYOUT.sizes, LAYOUT.n_outcomes
    writer = write_matrices(
        location, LAYOUT, [numbers(size, size)], [numbers(size, q)], numbers(q, q) + 1,
        np.array([7, 5, 6]),
    )  # fmt: skip
    writer.finish({"sha256": writer.sha256(), "inputs": inputs or {}, "plan_digest": "the plan's"})


def test_interrupted_statistics_never_count_as_complete(prefix, proxy, tmp_path):
    """For every k, the service refuses from the k-th PUT on, and the next run replaces all."""
    summed(tmp_path / "s")
    there = prefix / "s"
    put, refused_from = 0, 1000

    def choose(method: str, path: str, attempt: int) -> str | None:
        nonlocal put
        put += method == "PUT"
        return "status 403" if method == "PUT" and put > refused_from else None

    proxy(choose)
    summed(prefix / "counted")
    n_puts = put
    assert n_puts > 8  # every chunk and its array
    for refused_from in range(n_puts):  # noqa: B007
        put = 0
        with pytest.raises(InputError, match="refuses access"):
            summed(there)
        assert finished_plan_digest(there) is None
        with pytest.raises(InputError, match=r"unfinished|holds no statistics"):
            open_raw_statistics(there, LAYOUT, 9)
    refused_from = 1000
    store_at(there).put_if_absent("gram/99/c/0/0", b"of a plan that was given up")
    summed(there)
    assert contents(there) == contents(tmp_path / "s")
    assert finished_plan_digest(there) == "the plan's"


def weights(release: Path) -> bytes:
    return gzip.decompress((release / "weights.tsv.gz").read_bytes())


def test_a_small_work_directory_releases_through_a_faulty_bucket(
    cohort, prefix, proxy, tmp_path, monkeypatch
):
    """The run is interrupted during the summation, continued, and published by `finalize`."""
    disk, work, there = tmp_path / "disk", tmp_path / "work", prefix / "run"
    finish, genotypes = ("--non-private", "--out"), ["--genotypes", f"{cohort}.zarr"]
    plain = partial(options, cohort, budget=["--non-private"])
    digest = digest_in(run("accumulate", *genotypes, *plain(disk)))
    run("finalize", "--work-dir", disk, *finish, tmp_path / "expected")
    arguments = [*genotypes, *plain(work), "--object-store", str(there)]

    monkeypatch.setattr(machine, "free_disk", lambda where: SMALL_DISK)
    on_disk = run("accumulate", *genotypes, *plain(tmp_path / "refused"), exit_code=4)
    assert "not enough free disk" in on_disk
    proxy(lambda method, path, attempt: "status 403" if f"{STATISTICS}/gram/4/c" in path else None)
    run("accumulate", *arguments, exit_code=3)
    half, summed = contents(there / STATISTICS), contents(there / "partials.zarr")
    assert "gram/0/c/0/0" in half and b'"complete": false' in half["zarr.json"]
    assert ": accumulate, failed" in run("status", work, exit_code=3)
    assert "statistics store is unfinished" in run("finalize", "--work-dir", work, *finish,
                                        tmp_path / "early", exit_code=3)  # fmt: skip
    again = proxy(seeded(5, 0.1))
    assert digest_in(run("accumulate", *arguments)) == digest
    tiles = {f"/partials.zarr/{name}" for name in summed if "/gram/" in name}
    assert tiles and not any(path.endswith(tuple(tiles)) for path in again.paths_put())
    assert contents(there / STATISTICS) == contents(disk / STATISTICS)
    assert not list(work.glob("*.zarr"))
    run("finalize", "--work-dir", work, *finish, tmp_path / "release")
    assert weights(tmp_path / "release") == weights(tmp_path / "expected")
    n_faults = sum(number for fault, number in again.traffic.faults.items() if fault != "none")
    assert n_faults > 10  # a tenth of hundreds of requests

    # `status` sends no request, and `finalize` reports that the service is absent.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for name, value in {"ATTEMPTS": 2, "FIRST_PAUSE_S": 0.01}.items():
        monkeypatch.setattr(bucket_store, name, value)
    bucket_store.open_bucket.cache_clear()
    said = json.loads(run("status", work, "--json"))
    assert (said["stage"], said["state"]) == ("finalize", "finished")
    (tmp_path / "release").rename(tmp_path / "elsewhere")
    assert "no usable answer" in run("finalize", "--work-dir", work, *finish,
                                     tmp_path / "release", exit_code=5)  # fmt: skip


def test_the_payment_of_a_subsample_is_recorded_on_the_disk(cohort, prefix, key, tmp_path):
    """Without this record and the claim, its sums in the bucket are refused."""
    work, there, account = tmp_path / "work", prefix / "run", ledger(tmp_path)
    arguments = ("--genotypes", f"{cohort}.zarr", *options(cohort, work, BUDGET), "--subsample",
                 150, "--object-store", there, "--ledger", account, "--cohort", "c")  # fmt: skip
    digest = digest_in(run("accumulate", *arguments))
    assert ": accumulate, finished" in run("status", work)
    run("finalize", "--work-dir", work, "--ledger", account, "--cohort", "c", *BUDGET,
        "--out", tmp_path / "release")  # fmt: skip
    assert (work / "adjustment.json").is_file()
    assert not any("adjustment" in key for key in store_at(there).all_keys())
    shutil.rmtree(work)
    (tmp_path / "other").mkdir()
    arguments = (*arguments, "--ledger", ledger(tmp_path / "other"))  # whose budget is not spent
    assert "another work directory" in run("accumulate", *arguments, exit_code=3)
    store_at(there).remove("claim")
    refused = run("accumulate", *arguments, exit_code=3)
    assert "whose claim on them is gone" in refused and STATISTICS in refused
    store_at(there / STATISTICS).remove_below("")
    assert digest_in(run("accumulate", *arguments)) != digest  # a fresh one
