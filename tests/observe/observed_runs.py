"""Accumulations of many tiny tasks, in processes that tests watch."""

from __future__ import annotations

import subprocess
import sys

from processes import ROOT, command_of
from small_cohort import Cohort

D = 400  # variants, each of which is an LD block and a tile task
BLOCKS = ["--ld-blocks", "window:1"]
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
    words = command_of("accumulate", [*cohort.accumulation, *BLOCKS, "--workers", "1"])
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def committed_tiles(cohort: Cohort) -> int:
    """Count the tiles on the disk, by the layout of the store."""
    return len(list((cohort.work / "partials.zarr").glob("**/gram/*/c/0/0/0")))
