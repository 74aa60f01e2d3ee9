"""Ten kills during one accumulation: the same integers, and little repeated work."""

import random
import signal
import sys
from pathlib import Path

import pytest
from support.chaos_runs import kill
from support.command_io import digest_in
from support.processes import PATIENCE_SECONDS, kill_group, started, wait_until

SEED = 5
KILLS = [
    *["one worker"] * 4, *["all workers"] * 2, *["the client"] * 2, "everything", "terminate",
]  # fmt: skip
N_TASKS = 6 + 6 * 12 * 13 // 2
MOST_BETWEEN = 14


@pytest.mark.chaos
def test_chaos(cohort, undisturbed, journal, tmp_path):
    choice = random.Random(SEED)
    kills = choice.sample(KILLS, len(KILLS))
    program = Path(__file__).with_name("accumulation.py")
    command = [sys.executable, str(program), str(undisturbed.work), str(tmp_path / "work")]
    environment = {**cohort.environment, **journal.environment()}
    log = tmp_path / "stderr"
    while kills:
        with started(command, environment, log) as client:
            while kills:
                # Most kills occur during the work, some while processes are starting.
                target = journal.computed() + choice.randint(0, MOST_BETWEEN)
                wait_until(lambda target=target: journal.computed() >= target, of=client)
                workers = wait_until(journal.workers, of=client)
                assert client.poll() is None, f"{len(kills)} kills too early: {log.read_text()}"
                kill_of = kills.pop()
                if kill_of == "one worker":
                    workers = [choice.choice(workers)]
                strike(kill_of, client, journal, workers)
                if client.poll() is not None:
                    break
    with started(command, environment, log) as client:
        stdout, _ = client.communicate(timeout=PATIENCE_SECONDS)
    assert client.returncode == 0, log.read_text()
    assert digest_in(stdout) == undisturbed.digest
    assert "Traceback" not in log.read_text()

    begun = journal.begun()
    assert len(set(begun)) == N_TASKS
    recomputed, in_flight = len(begun) - N_TASKS, len(journal.in_flight())
    # Besides the tasks that were cut short, at most a fiftieth of all is computed twice.
    assert recomputed <= in_flight + N_TASKS / 50, f"{recomputed} again, {in_flight} cut short"


def strike(kill_of, client, journal, workers):
    if kill_of in ("one worker", "all workers"):
        kill(workers)
    elif kill_of == "the client":
        kill([client.pid])  # its workers end by themselves
        client.wait()
        wait_until(lambda: not journal.workers())
    elif kill_of == "everything":
        kill_group(client)
    else:
        client.send_signal(signal.SIGTERM)
        assert client.wait(PATIENCE_SECONDS) == 5
