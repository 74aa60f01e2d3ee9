"""More than thirty kills over one accumulation: the same integers, and hardly any work twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest
from commands import (
    PATIENCE_SECONDS,
    Journal,
    digest_in,
    error_in,
    kill,
    kill_group,
    started,
    wait_until,
)
from conftest import BLOCK, N_VARIANTS, Cohort

SEED = 5
N_TASKS = 1 + N_VARIANTS // BLOCK
KILLS = [
    *["one worker"] * 17, *["all workers"] * 4, *["the client"] * 4, *["everything"] * 4,
    *["terminate"] * 2,
]  # fmt: skip
MOST_BETWEEN = 2 * N_TASKS // len(KILLS) - 4


@pytest.mark.chaos
def test_chaos(cohort: Cohort, undisturbed: str, journal: Journal, tmp_path: Path) -> None:
    choice = random.Random(SEED)
    kills = choice.sample(KILLS, len(KILLS))
    command = cohort.command(tmp_path / "work", "--workers", 2)
    environment, log = {**cohort.environment, **journal.environment()}, tmp_path / "stderr"
    in_flight = 0
    while kills:
        with started(command, environment, log) as client:
            while kills and client.poll() is None:
                # Most kills hit in the middle of the work, some while processes are starting.
                target = journal.computed() + choice.randint(0, MOST_BETWEEN)
                wait_until(lambda target=target: journal.computed() >= target, of=client)
                wait_until(journal.workers, of=client)
                if client.poll() is not None:
                    # Killed while they were starting, which the client says.
                    assert client.returncode == 5, f"ended {len(kills)} kills before"
                    break
                before = journal.in_flight()
                strike(kills.pop(), client, journal, choice)
                in_flight += len(before & journal.in_flight())
    with started(command, environment, log) as client:
        stdout, _ = client.communicate(timeout=PATIENCE_SECONDS)
    assert client.returncode == 0, log.read_text()
    assert digest_in(stdout) == undisturbed

    assert "Traceback" not in log.read_text()
    begun = journal.begun()
    assert len(set(begun)) == N_TASKS
    recomputed = len(begun) - N_TASKS
    assert recomputed <= 1.1 * in_flight, f"{recomputed} recomputed, {in_flight} in flight"


def strike(
    kill_of: str, client: subprocess.Popen[str], journal: Journal, choice: random.Random
) -> None:
    workers = journal.workers()
    if kill_of == "one worker":
        kill([choice.choice(workers)])
    elif kill_of == "all workers":
        kill(workers)
    elif kill_of == "the client":
        kill([client.pid])  # its workers find out by themselves
        client.wait()
        wait_until(lambda: not journal.workers())
    elif kill_of == "everything":
        kill_group(client)
    else:
        client.send_signal(signal.SIGTERM)
        assert client.wait(PATIENCE_SECONDS) == 5
