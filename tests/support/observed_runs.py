"""Accumulations of many tiny tasks in processes that tests watch, and commands that only log."""

import subprocess
import sys
from pathlib import Path

import click
from attrs import frozen
from click.testing import Result

from primo_scale.cli.command_line import ContractCommand
from primo_scale.run.run_log import LOGGER, about, run_logged, stage
from support.processes import ROOT
from support.small_cohort import BUDGET, Cohort, command

D = 150  # variants, in LD blocks that are too wide to share a task
BLOCKS, TILES = ["--ld-blocks", "window:10"], D // 10
# Records every task, and dies without a word after it has recorded the fifth.
_DIES = """
import logging, os, sys
from primo_scale.cli.commands import accumulate
from primo_scale.run import run_log

class Dying(logging.FileHandler):
    def handle(self, record):
        is_written = super().handle(record)
        if getattr(record, "fields", {}).get("done", 0) >= 5:
            os._exit(9)
        return is_written

run_log._FIRST_GAP_SECONDS = 0
logging.FileHandler = Dying
accumulate(sys.argv[1:])
"""


@frozen
class Asked:
    out: str = "/r"
    keep: Path | None = None
    workers: int = 0


def logged(
    work_dir: Path, *options: str, said: str = "24 people", error: Exception | None = None
) -> Result:
    """Return the result of a command with one stage, which logs a line and may raise an error."""

    @click.command(cls=ContractCommand)
    def main() -> None:
        with run_logged(work_dir, "accumulate", Asked()), stage("ingest"):
            LOGGER.info("%s", said, extra=about("filter", {"left": 24, "of": Path("x.fam")}))
            if error is not None:
                raise error

    return command(main, *options)


def accumulate_and_die(cohort: Cohort) -> None:
    words = [sys.executable, "-c", _DIES, *cohort.accumulation, *BLOCKS, *map(str, BUDGET)]
    assert subprocess.run(words, cwd=ROOT, check=False).returncode == 9


def committed_tiles(cohort: Cohort) -> int:
    return len(list((cohort.work / "partials.zarr").glob("**/gram/*/c/0/0/0")))
