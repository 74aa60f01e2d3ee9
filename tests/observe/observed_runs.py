"""Accumulations of many tiny tasks, in processes that tests watch."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from small_cohort import Cohort

ROOT = Path(__file__).resolve().parents[2]
D = 400  # variants, each of which is an LD block and a tile task
BLOCKS = ["--ld-blocks", "window:1"]
_LIMIT_S = 600
# Records every task, and dies without a word after it has recorded the twentieth.
_DIES = """
import os, sys
from primo_scale.cli import accumulate
from primo_scale.run import progress, run_log
from primo_scale.run.progress_file import ProgressFile

class Dying(ProgressFile):
    def emit(self, record):
        super().emit(record)
        if getattr(record, "fields", {}).get("done", 0) >= 20:
            os._exit(9)

progress._RECORD_GAP_SECONDS = 0
run_log.ProgressFile = Dying
accumulate.main(sys.argv[1:])
"""


def accumulate_and_die(cohort: Cohort, *options: str) -> None:
    """Accumulate in a process that dies in the midst of it."""
    words = [sys.executable, "-c", _DIES, *cohort.accumulation, *BLOCKS, *options]
    assert subprocess.run(words, cwd=ROOT, check=False).returncode == 9


def start(cohort: Cohort) -> subprocess.Popen[bytes]:
    """Start an accumulation with one worker."""
    words = [*cohort.accumulation, *BLOCKS, "--workers", "1"]
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.accumulate", *words], cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


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
