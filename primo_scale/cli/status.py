"""``primo-scale status WORK_DIR``: print the progress of a run, from another terminal."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import DIRECTORY, flag
from primo_scale.errors import InputError, InterruptedRun

_EXIT_CODES = {"stopped": InterruptedRun.exit_code, "failed": InputError.exit_code}


@click.command(cls=ContractCommand)
@click.argument("work_dir", metavar="WORK_DIR", type=DIRECTORY)
@flag("--json", "as_json", help="Print one JSON object, for machines.")
def main(work_dir: Path, as_json: bool) -> None:
    """Print the stage of the run in WORK_DIR, the work that is left, and the time it takes.

    The command reads the run's own record and does not disturb the run. PRIVATE: the number of
    tasks reveals the number of people, so the output is for the operator's terminal alone.

    Exit code 0: the run goes on, finished, or is on another machine; 5: it stopped, and the same
    command continues it; 3: it failed, or WORK_DIR is not a work directory.
    """
    from primo_scale.run.status import read_status, status_lines

    status = read_status(work_dir)
    if as_json:
        click.echo(json.dumps({"work_dir": str(work_dir), **asdict(status)}))
    else:
        for line in status_lines(work_dir, status):
            click.echo(line)
    if status.state == "failed":
        click.echo(status.message, err=True)
    sys.exit(_EXIT_CODES.get(status.state, 0))
