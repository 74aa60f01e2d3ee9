"""Clocks that are wrong, and that are set during a run.

libfaketime changes the time of day, but not the monotonic clock. Clocks are set while no messages
are sent: between two messages Dask waits for some time of day (docs/architecture.md).
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.chaos_runs import free_address, scheduler_at, worker_of
from support.command_io import digest_in
from support.processes import run, started, wait_until
from support.tiers import missing

pytestmark = [pytest.mark.alone, pytest.mark.chaos]

SECONDS_UNTIL_SEEN = 1  # libfaketime reads the file of a clock so often
SELDOM_HEARTBEATS = {"DASK_DISTRIBUTED__CLIENT__HEARTBEAT": "1h"}


@dataclass(frozen=True)
class Clock:
    """Time of day of a process and its child processes, some days off the true one."""

    file: Path
    library: Path

    def set(self, days):
        """Change the day of all processes with this clock; return the environment of new ones."""
        beside = self.file.with_suffix(".new")
        beside.write_text(f"{days:+d}d\n")
        beside.rename(self.file)
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": str(SECONDS_UNTIL_SEEN),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


@pytest.fixture
def clock(tmp_path):
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        missing("libfaketime")
    return lambda name: Clock(tmp_path / f"{name}.clock", found[0])


def wait_for_silence():
    """Wait until the messages about started tasks, which are held at the gate, have arrived."""
    time.sleep(1)


def wait_until_seen():
    time.sleep(2 * SECONDS_UNTIL_SEEN)


def days_ahead(work):
    stamp = (work / "run.log").read_text().splitlines()[-1].split()[0]
    return (datetime.fromisoformat(stamp) - datetime.now(UTC)).total_seconds() / 86400


def test_clocks_that_disagree_and_are_set(clock, cohort, undisturbed, journal, tmp_path):
    """The client is a year ahead, the worker two days behind; clocks are set, the client killed."""
    address = free_address()
    work, log = tmp_path / "work", tmp_path / "stderr"
    command = cohort.command(work, "--scheduler", address)
    clients, workers, schedulers = clock("client"), clock("worker"), clock("scheduler")
    environment = {
        **cohort.environment, **SELDOM_HEARTBEATS, **journal.environment(), **clients.set(+365),
    }  # fmt: skip
    journal.gate.touch()
    with ExitStack() as stack:
        for start, seen in ((scheduler_at, schedulers.set(0)), (worker_of, workers.set(-2))):
            stack.enter_context(start(address, tmp_path, journal, {**cohort.environment, **seen}))
        with started(command, environment, log) as client:
            wait_until(journal.begun, of=client)
            assert client.poll() is None, log.read_text()
            assert 364 < days_ahead(work) < 366
            wait_for_silence()
            clients.set(-3650)
            workers.set(+40)
            schedulers.set(+1)
            wait_until_seen()
            journal.gate.unlink()
            wait_until(journal.computed, of=client)
            client.kill()
            client.wait()
        clients.set(+700)
        continued = run(command, environment)
    assert continued.returncode == 0, continued.stderr
    assert digest_in(continued.stdout) == undisturbed.digest
    assert 699 < days_ahead(work) < 701
    assert len(tasks_done_once(journal)) == 2


def tasks_done_once(journal):
    """Return the tasks that ended, none of which began again."""
    over: set[str] = set()
    for event in journal.update():
        assert event.kind != "begin" or event.task not in over
        over |= {event.task} if event.kind == "end" else set()
    return over
