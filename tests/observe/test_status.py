"""What ``pipelines.status`` prints of runs that go on, end, fail, are killed or are elsewhere."""

import json
import logging
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.observed_runs import TILES, D, accumulate_and_die, committed_tiles, start
from support.processes import ROOT, wait_until
from support.small_cohort import Cohort, command, refused, write_cohort

from primo_scale.cli.commands import status
from primo_scale.errors import InputError
from primo_scale.run.progress_file import PROGRESS_FILE, ProgressFile, read_progress
from primo_scale.run.run_log import about
from primo_scale.run.status import read_status
from primo_scale.storage.encryption import make_key_file
from primo_scale.storage.files import exclusive_lock, lock_is_held

ORDER = ["", "outcomes", "accumulate", "finalize"]


def answer(work: Path, exit_code: int) -> dict:
    result = command(status, work, "--json")
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


@pytest.mark.slow
def test_a_killed_run_is_stopped_at_what_it_recorded(killed) -> None:
    """A few more tasks may have been committed."""
    said = answer(killed.work, 5)
    assert said["state"] == "stopped"
    run = said["run"]
    assert (run["command"], run["stage"]) == ("accumulate", "accumulate")
    assert (run["host"], run["outcome"], run["of_what"]) == (socket.gethostname(), None, "tasks")
    assert 0 < run["done"] <= committed_tiles(killed) + 1  # and the row task
    assert run["total"] == TILES + 1
    assert 0 < run["work_done"] < 1
    assert stat.S_IMODE((killed.work / PROGRESS_FILE).stat().st_mode) == 0o600


@pytest.mark.slow
def test_disk_used_is_what_find_adds_up(killed) -> None:
    said = answer(killed.work, 5)
    found = subprocess.run(
        ["find", killed.work, "-type", "f", "-printf", "%b\n"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sum(said["disk"].values()) == 512 * sum(map(int, found.stdout.split()))
    assert {"partials.zarr", "outcomes.zarr", "run.log"} <= said["disk"].keys()


@pytest.mark.slow
def test_people_read_the_same(killed) -> None:
    result = command(status, killed.work)
    assert result.exit_code == 5
    run = read_progress(killed.work)
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        f"{killed.work}: accumulate, stopped; the same command continues it (accumulate, process"
    )
    assert f"{run.done} of {TILES + 1} tasks, {TILES + 1 - run.done} left" in lines[1]
    assert "ago" in lines[1]
    assert "used (" in lines[2] and "free" in lines[2]


@pytest.mark.slow
def test_looking_changes_nothing(killed) -> None:
    def everything() -> dict[Path, tuple[int, int, int]]:
        found = [killed.work, *killed.work.rglob("*")]
        return {p: (s.st_mtime_ns, s.st_ctime_ns, s.st_size) for p in found if (s := p.lstat())}

    before = everything()
    read_status(killed.work)
    assert everything() == before


@pytest.mark.slow
def test_a_held_lock_means_that_the_run_goes_on(killed) -> None:
    with exclusive_lock(killed.work / "lock"):
        assert answer(killed.work, 0)["state"] == "running"
    assert not lock_is_held(killed.work / "no such lock")
    assert answer(killed.work, 5)["state"] == "stopped"


@pytest.mark.slow
def test_probing_never_makes_a_starting_run_fail(tmp_path) -> None:
    """A lock that is not tried again fails this within a second."""
    lock = tmp_path / "lock"
    program = (
        "import sys; from pathlib import Path\n"
        "from primo_scale.storage.files import exclusive_lock\n"
        "for _ in range(3000):\n    with exclusive_lock(Path(sys.argv[1])): pass\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(lock)], cwd=ROOT)
    while process.poll() is None:
        lock_is_held(lock)
    assert process.returncode == 0


def test_a_run_on_another_machine_is_not_called_dead(tmp_path) -> None:
    run = Recorder(tmp_path)
    run.start(host="node17")
    said = answer(tmp_path, 0)
    assert (said["state"], said["run"]["host"]) == ("unknown", "node17")
    run.note("error", exit_code=5)
    assert answer(tmp_path, 5)["state"] == "stopped"


@pytest.mark.slow
def test_a_run_is_watched_from_its_resumption_to_its_release(killed, tmp_path) -> None:
    cohort = killed.copy_to(tmp_path / "copy")
    before = read_progress(cohort.work).done
    process = start(cohort)
    wait_until(lambda: lock_is_held(cohort.work / "lock"), of=process)
    seen = []
    while process.poll() is None:
        seen.append(read_status(cohort.work))
        time.sleep(0.02)
    ours = [look.run for look in seen if look.state == "running" and look.run.pid == process.pid]
    stages = [ORDER.index(run.stage) for run in ours]
    assert stages == sorted(stages)
    done = [run.done for run in ours if run.stage == "accumulate" and run.total]
    assert done == sorted(done) and done[0] >= before
    assert process.returncode == 0

    said = answer(cohort.work, 0)
    assert (said["state"], said["run"]["done"], said["run"]["outcome"]) == (
        "finished", TILES + 1, "finished",
    )  # fmt: skip
    assert cohort.finalize().exit_code == 0
    said = answer(cohort.work, 0)
    assert (said["state"], said["run"]["command"]) == ("finished", "finalize")
    assert said["run"]["out"] == str(cohort.out)


@pytest.mark.slow
def test_an_encrypted_run_is_read_without_its_key(tmp_path) -> None:
    cohort = Cohort(write_cohort(tmp_path / "cohort", n_variants=D))
    cohort.ingest()
    make_key_file(tmp_path / "user.key")
    accumulate_and_die(cohort, "--encryption-key", str(tmp_path / "user.key"))
    assert answer(cohort.work, 5)["run"]["total"] == TILES + 1


class Recorder:
    """A run of this process that records what a test makes it log."""

    def __init__(self, work: Path) -> None:
        self.log = logging.Logger("recorded", 1)
        self.log.addHandler(ProgressFile(work))

    def note(self, event: str, **fields: object) -> None:
        self.log.debug("%s is logged", event, extra=about(event, fields))

    def start(self, host: str | None = None) -> None:
        host = host or socket.gethostname()
        self.note("start", command="ingest", pid=os.getpid(), host=host)


def test_an_error_is_recorded_and_tells_failure_from_interruption(tmp_path) -> None:
    for exit_code, state in ((3, "failed"), (5, "stopped")):
        run = Recorder(tmp_path)
        run.start()
        run.note("stage begins", stage="ingest")
        run.note("error", exit_code=exit_code)
        said = answer(tmp_path, exit_code)
        assert (said["state"], said["run"]["message"]) == (state, "error is logged")
        assert said["run"]["stage"] == "ingest"


def test_a_new_stage_forgets_the_counts_of_the_last(tmp_path) -> None:
    run = Recorder(tmp_path)
    run.start()
    run.note("stage begins", stage="ingest")
    run.note("progress", of_what="partitions", done=3, total=4, work_done=0.75)
    assert read_progress(tmp_path).done == 3
    run.note("stage begins", stage="outcomes")
    record = read_progress(tmp_path)
    assert (record.stage, record.done, record.total, record.work_done) == ("outcomes", 0, 0, None)


def test_what_a_run_waits_for_is_shown_until_it_makes_progress(tmp_path) -> None:
    run = Recorder(tmp_path)
    run.start()
    with exclusive_lock(tmp_path / "lock"):
        assert "waiting is logged" not in command(status, tmp_path).stdout
        run.note("waiting")
        assert "waiting is logged" in command(status, tmp_path).stdout
    run.note("progress", of_what="tasks", done=1, total=4)
    assert read_progress(tmp_path).message is None


def test_the_last_words_of_a_run_do_not_overwrite_the_next(tmp_path) -> None:
    """A run logs its error after it has released the lock."""
    first = Recorder(tmp_path)
    first.start()
    Recorder(tmp_path).start(host="another")
    first.note("error", exit_code=3)
    assert read_progress(tmp_path).outcome is None


def test_a_full_disk_does_not_bring_the_run_down(tmp_path, monkeypatch) -> None:
    run = Recorder(tmp_path)
    run.start()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    run.note("stage begins", stage="ingest")
    assert read_progress(tmp_path).stage == ""


def test_what_is_not_a_work_directory_is_bad_input(tmp_path) -> None:
    for path in (tmp_path / "none", tmp_path):
        refused(command(status, path), 3, str(path))
        with pytest.raises(InputError):
            read_status(path)
