"""What ``pipelines.status`` says, against files counted on the disk, and what it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from observed_runs import Cohort, D, kill_all, wait_until

from pipelines import status
from pipelines.work_directory import read_status
from primo_scale.accumulate import commits
from primo_scale.errors import InputError
from primo_scale.genotypes.filters import Selection
from primo_scale.genotypes.ingest import ingest
from primo_scale.storage.encryption import KEY_VARIABLE, make_key_file
from primo_scale.storage.files import exclusive_lock
from primo_scale.storage.groups import create_group, mark_complete
from primo_scale.storage.lock_owner import lock_owner

ROOT = Path(__file__).resolve().parents[2]
ORDER = ["outcomes", "accumulate", "reduce", "summed", "finalize", "published"]


def asked(work: Path, *options: str):
    return CliRunner().invoke(status.main, [str(work), *options])


def answer(work: Path, exit_code: int) -> dict:
    result = asked(work, "--json")
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def copy_of(cohort, tmp_path: Path) -> Path:
    work = tmp_path / "work"
    shutil.copytree(cohort.work, work)
    return work


def test_what_is_done_is_what_lies_on_the_disk(killed) -> None:
    said = answer(killed.work, 5)
    assert (said["stage"], said["state"]) == ("accumulate", "stopped")
    tiles = len(killed.chunks("gram/*/c/0/0/0"))
    assert said["counts"] == {
        "row tasks": {"done": 1, "total": 1, "left": 0},
        "tile tasks": {"done": tiles, "total": D, "left": D - tiles},
    }
    assert len(killed.chunks("outcome_gram/c/*/0/0")) == 1
    assert 0 < said["work_done"] < 1
    assert said["per_second"] > 0 and said["seconds_left"] > 0
    newest = max(path.stat().st_mtime for path in killed.chunks("gram/*/c/0/0/0"))
    assert said["last_commit"][:19] == time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(newest))
    assert said["process"]["command"] == "accumulate"
    assert said["process"]["host"] == socket.gethostname()


def test_disk_used_is_what_find_adds_up(killed) -> None:
    said = answer(killed.work, 5)
    found = subprocess.run(
        ["find", killed.work, "-type", "f", "-printf", "%b\n"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sum(said["disk_bytes"].values()) == 512 * sum(map(int, found.stdout.split()))
    assert {"partials.zarr", "outcomes.zarr", "run.log"} <= said["disk_bytes"].keys()


def test_people_read_the_same(killed) -> None:
    result = asked(killed.work)
    assert result.exit_code == 5
    tiles = len(killed.chunks("gram/*/c/0/0/0"))
    lines = result.stdout.splitlines()
    assert lines[0] == f"{killed.work}: accumulate, stopped; the same command continues it"
    assert f"{tiles} of {D}, {D - tiles} left" in lines[2]
    assert "at the last rate" in lines[3]


def test_nothing_outside_the_work_directory_is_looked_at(killed) -> None:
    """Genotypes may lie in a bucket that this process cannot reach."""
    genotypes, aside = killed.folder / "genotypes.zarr", killed.folder / "aside.zarr"
    before = answer(killed.work, 5)
    genotypes.rename(aside)
    try:
        assert answer(killed.work, 5)["work_done"] == before["work_done"]
    finally:
        aside.rename(genotypes)


def test_a_store_that_lost_an_array_is_one_line(killed, tmp_path) -> None:
    work = copy_of(killed, tmp_path)
    (header,) = (work / "partials.zarr").glob("*/outcome_gram/zarr.json")
    header.unlink()
    result = asked(work)
    assert result.exit_code == 3
    assert "outcome_gram: the store is damaged" in result.stderr
    assert result.stderr.count("\n") == 1


def test_temporary_and_foreign_files_are_no_commits(killed, tmp_path) -> None:
    work = copy_of(killed, tmp_path)
    before = answer(work, 5)["counts"]
    chunk = next((work / "partials.zarr").glob("**/gram/*/c/0/0/0"))
    for name in (".0.tmp", "0.partial", "7.9f3c.partial", ".0abc"):
        (chunk.parent / name).write_bytes(b"x")
    assert answer(work, 5)["counts"] == before
    chunk.unlink()
    assert answer(work, 5)["counts"]["tile tasks"]["done"] == before["tile tasks"]["done"] - 1


def test_looking_changes_nothing_and_takes_no_lock(killed) -> None:
    def everything() -> dict[Path, tuple[int, int, int]]:
        found = [killed.work, *killed.work.rglob("*")]
        return {p: (s.st_mtime_ns, s.st_ctime_ns, s.st_size) for p in found if (s := p.lstat())}

    taken, listening = [], True

    def listen(event: str, arguments: tuple) -> None:
        if listening and event in ("fcntl.flock", "fcntl.lockf"):
            taken.append(event)

    sys.addaudithook(listen)
    before = everything()
    read_status(killed.work)
    assert (everything(), taken) == (before, [])
    with exclusive_lock(killed.work / "lock"):
        assert taken == ["fcntl.flock"]  # the hook would have heard
        listening = False


def test_a_held_lock_is_seen_and_whose_it_is(killed) -> None:
    with exclusive_lock(killed.work / "lock"):
        said = answer(killed.work, 0)
        assert (said["state"], said["process"]["pid"]) == ("running", os.getpid())
        assert lock_owner(killed.work / "lock").pid == os.getpid()
    assert lock_owner(killed.work / "lock") is None
    assert lock_owner(killed.work / "no such lock") is None
    assert answer(killed.work, 5)["state"] == "stopped"


def test_probing_never_makes_a_starting_run_fail(tmp_path) -> None:
    """A probe that takes the lock, however shortly, fails this within a second."""
    lock, over = tmp_path / "lock", threading.Event()
    program = (
        "import sys; from pathlib import Path\n"
        "from primo_scale.storage.files import exclusive_lock\n"
        "for _ in range(3000):\n    with exclusive_lock(Path(sys.argv[1])): pass\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(lock)], cwd=ROOT)
    probes = 0
    while process.poll() is None and not over.is_set():
        lock_owner(lock)
        probes += 1
    assert process.returncode == 0
    assert probes > 0


def test_a_run_on_another_machine_is_not_called_dead(killed, tmp_path) -> None:
    work = copy_of(killed, tmp_path)
    log = (work / "run.log").read_text()
    (work / "run.log").write_text(log.replace(f" on {socket.gethostname()})", " on node17)"))
    said = answer(work, 0)
    assert (said["state"], said["process"]["host"]) == ("unknown", "node17")
    with (work / "run.log").open("a") as file:
        file.write("2026-11-21T17:00:00+0000 error: interrupted. Run the same command again\n")
    assert answer(work, 5)["state"] == "stopped"  # it said that it ended


@pytest.mark.slow
def test_a_run_is_watched_from_its_resumption_to_its_release(killed, tmp_path) -> None:
    """Looks in quick succession, while stores appear, grow and vanish."""
    cohort = Cohort(tmp_path / "copy")
    shutil.copytree(killed.folder, cohort.folder)
    before = len(cohort.chunks("gram/*/c/0/0/0"))
    process = cohort.start("accumulate")
    wait_until(lambda: lock_owner(cohort.work / "lock") is not None, process)
    seen = []
    while process.poll() is None:
        seen.append(read_status(cohort.work))
        time.sleep(0.02)
    running = [look for look in seen if look.state == "running"]
    assert {look.owner.pid for look in running if look.owner} == {process.pid}
    stages = [ORDER.index(look.stage) for look in running]
    assert stages == sorted(stages)
    done = [look.counts["tile tasks"][0] for look in running if look.stage == "accumulate"]
    assert done == sorted(done) and done[0] >= before
    assert process.returncode == 0

    said = answer(cohort.work, 0)
    assert (said["stage"], said["state"]) == ("summed", "finished")
    cohort.run("finalize")
    said = answer(cohort.work, 0)
    assert (said["stage"], said["state"]) == ("published", "finished")
    assert said["process"]["command"] == "finalize"
    shutil.rmtree(cohort.folder / "release")
    assert answer(cohort.work, 5)["stage"] == "finalize"


@pytest.mark.slow
def test_an_encrypted_run_is_looked_at_with_its_key(killed, tmp_path, monkeypatch) -> None:
    cohort = Cohort(tmp_path / "copy")
    shutil.copytree(killed.folder, cohort.folder, ignore=shutil.ignore_patterns("work"))
    key = tmp_path / "user.key"
    make_key_file(key)
    process = cohort.start("accumulate", "--encryption-key", key)
    wait_until(lambda: len(cohort.chunks("gram/*/c/0/0/0")) >= 5, process)
    kill_all(process)
    monkeypatch.setenv(KEY_VARIABLE, "")  # what is set below goes with the test
    without = asked(cohort.work)
    assert (without.exit_code, without.stderr.count("\n")) == (3, 1)
    assert "is encrypted" in without.stderr and "--encryption-key" in without.stderr
    said = asked(cohort.work, "--json", "--encryption-key", str(key))
    assert said.exit_code == 5
    tiles = len(cohort.chunks("gram/*/c/0/0/0"))
    assert json.loads(said.stdout)["counts"]["tile tasks"]["done"] == tiles < D


def test_partial_sums_that_vanish_while_they_are_counted_are_summed(
    killed, tmp_path, monkeypatch
) -> None:
    """The last step of an accumulation falls between two steps of a look."""
    work, count = copy_of(killed, tmp_path), commits.read_commits

    def counted_too_late(partials: Path) -> object:
        group = create_group(work / "statistics.zarr", "statistics", {})
        mark_complete(group, {"plan_digest": "of the plan"})
        for half in partials.glob("*/gram/1*"):
            shutil.rmtree(half)
        return count(partials)

    monkeypatch.setattr(commits, "read_commits", counted_too_late)
    said = read_status(work)
    assert (said.stage, said.counts) == ("summed", {})


def test_an_ingest_is_counted_by_its_records(killed, tmp_path) -> None:
    work = tmp_path / "work"
    work.mkdir(0o700)
    (work / "run.log").touch()

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(
            [killed.folder / "cohort"], work / "genotypes.zarr", selection=Selection(),
            on_progress=stop, chunk_shape=(30, 16),
        )  # fmt: skip
    said = answer(work, 5)
    records = len(list((work / "genotypes.zarr.partial" / "partitions").iterdir()))
    whole = -(-D // 30)
    assert said["stage"] == "ingest"
    assert said["counts"] == {
        "partitions": {"done": records, "total": whole, "left": whole - records}
    }


def test_what_is_no_work_directory_is_bad_input(tmp_path) -> None:
    for path in (tmp_path / "none", tmp_path):
        result = asked(path)
        assert result.exit_code == 3
        assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
        with pytest.raises(InputError):
            read_status(path)


def test_help_says_that_it_is_private() -> None:
    assert "PRIVATE" in CliRunner().invoke(status.main, ["--help"]).stdout


def test_a_killed_probe_target_frees_the_lock(tmp_path) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from primo_scale.storage.files import exclusive_lock\n"
        "with exclusive_lock(Path(sys.argv[1])): time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "lock")], cwd=ROOT, start_new_session=True
    )
    wait_until(lambda: lock_owner(tmp_path / "lock") is not None, process)
    assert lock_owner(tmp_path / "lock").pid == process.pid
    kill_all(process)
    assert lock_owner(tmp_path / "lock") is None
