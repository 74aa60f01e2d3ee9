"""Accumulations of many tiny tasks, in processes that tests watch and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from small_cohort import Cohort

ROOT = Path(__file__).resolve().parents[2]
D = 400  # variants, each of which is an LD block and a tile task
BLOCKS = ["--ld-blocks", "window:1"]
_LIMIT_S = 600


def start(cohort: Cohort, *options: object) -> subprocess.Popen[bytes]:
    """Start an accumulation with one worker, in a process group of its own."""
    words = [*cohort.accumulation, *BLOCKS, "--workers", "1", *map(str, options)]
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.accumulate", *words], cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its workers as a crash of the machine would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(condition, process: subprocess.Popen[bytes]) -> None:
    """Wait for something that a living process is about to do."""
    end = time.monotonic() + _LIMIT_S
    while not condition():
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def committed_tiles(cohort: Cohort) -> int:
    """Count the tiles on the disk, by the layout of the store."""
    return len(list((cohort.work / "partials.zarr").glob("**/gram/*/c/0/0/0")))
