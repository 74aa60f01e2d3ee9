"""One blow at a time, in the middle of tasks: what the command says, and that it continues."""

import os
import re
import shlex
import signal
from contextlib import ExitStack, contextmanager

import pytest
from support.chaos_runs import free_address, scheduler_at, worker_of
from support.command_io import digest_in, error_in
from support.processes import PATIENCE_SECONDS, kill_group, run, started, wait_until

from primo_scale.storage.files import exclusive_lock

pytestmark = pytest.mark.chaos


@pytest.fixture
def fired(cohort, journal, tmp_path):
    """Provide a function that starts the command and waits until its tasks are held at the gate."""
    environment = {**cohort.environment, **journal.environment()}

    @contextmanager
    def fire(command):
        journal.gate.touch()
        before = len(journal.begun())
        with started(command, environment, tmp_path / "stderr") as client:
            wait_until(lambda: len(journal.begun()) > before, of=client)
            assert client.poll() is None, (tmp_path / "stderr").read_text()
            yield client

    return fire


def last_error(tmp_path):
    return error_in((tmp_path / "stderr").read_text())


def finished_by(command, journal, environment):
    journal.gate.unlink(missing_ok=True)
    done = run(command, {**environment, **journal.environment()})
    assert done.returncode == 0, done.stderr
    return digest_in(done.stdout)


def test_a_signal_ends_with_the_command_to_continue(fired, cohort, undisturbed, journal, tmp_path):
    work = tmp_path / "work with a blank"
    with fired(cohort.command(work, "--workers", 1)) as client:
        client.send_signal(signal.SIGTERM)
        journal.gate.unlink()
        assert client.wait(PATIENCE_SECONDS) == 5
    says = re.fullmatch(r"error: interrupted\. To continue: (.*)", last_error(tmp_path))
    assert says
    assert not journal.workers()
    again = shlex.split(says[1])
    assert again == cohort.command(work, "--workers", 1)
    assert finished_by(again, journal, cohort.environment) == undisturbed.digest


def test_a_work_directory_has_one_client_and_ignores_file_times(
    fired, cohort, undisturbed, journal, tmp_path
):
    """A second client is refused while the first is alive; file times have no effect."""
    work = tmp_path / "work"
    command = cohort.command(work, "--workers", 1)
    with fired(command) as client:
        refused = run(command, cohort.environment)
        assert refused.returncode == 3
        assert "another run is using this directory" in error_in(refused.stderr)
        assert str(work) in error_in(refused.stderr)
        client.kill()  # its workers still run for a moment
        client.wait()
        with exclusive_lock(work / "lock"):
            pass
        journal.gate.unlink()
        wait_until(lambda: not journal.workers())
    ended = {event.task for event in journal.update() if event.kind == "end"}
    kept = [task for task in ended if journal.begun().count(task) == 1]
    for number, path in enumerate(sorted(work.rglob("*"))):
        moment = 4_102_444_800 if number % 2 else 0  # the years 2100 and 1970
        os.utime(path, (moment, moment))
    assert finished_by(command, journal, cohort.environment) == undisturbed.digest
    assert [journal.begun().count(task) for task in kept] == [1] * len(kept)


def test_the_run_waits_for_workers_and_ends_without_a_scheduler(
    fired, cohort, undisturbed, journal, tmp_path
):
    address = free_address()
    command = cohort.command(tmp_path / "work", "--scheduler", address)
    with ExitStack() as stack:
        scheduler = stack.enter_context(scheduler_at(address, tmp_path, journal))
        first = stack.enter_context(worker_of(address, tmp_path, journal))
        with fired(command) as client:
            kill_group(first)
            log = tmp_path / "stderr"
            wait_until(lambda: "no Dask workers: waiting" in log.read_text())
            stack.enter_context(worker_of(address, tmp_path, journal))
            wait_until(lambda: "Dask workers are connected" in log.read_text())
            assert client.poll() is None
            kill_group(scheduler)
            assert client.wait(PATIENCE_SECONDS) == 5
    assert log.read_text().count("no Dask workers: waiting") == 1
    assert re.fullmatch(
        r"error: the connection to the Dask scheduler was lost\. Start .*\. To continue: .*",
        last_error(tmp_path),
    )
    again = shlex.split(last_error(tmp_path).partition(" To continue: ")[2])
    with scheduler_at(address, tmp_path, journal), worker_of(address, tmp_path, journal):
        assert finished_by(again, journal, cohort.environment) == undisturbed.digest
