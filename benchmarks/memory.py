"""Run a program and sample the memory of all its processes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import psutil

from benchmarks.machine import clean_environment

_INTERVAL_SECONDS = 0.05
_LOOK_FOR_CHILDREN_SECONDS = 0.5
_LAST_LINES = 20


@dataclass(frozen=True)
class PeakMemory:
    """Largest resident sizes seen, in bytes; memory that processes share counts for each.

    Attributes
    ----------
    total
        Largest sum over all processes at one moment, in bytes.
    main
        Peak of the program itself, in bytes.
    child
        Largest peak of a process that it started, in bytes.
    """

    total: int
    main: int
    child: int


class CommandFailed(click.ClickException):
    """A program that was to be measured did not end well."""


def run_measured(command: Sequence[str], directory: Path | None = None) -> PeakMemory:
    """Run `command` to its end, its output going to the file ``last.log``.

    Raises
    ------
    CommandFailed
        The command failed; the error has the last lines of its output.
    """
    log = (directory or Path.cwd()) / "last.log"
    with log.open("w") as output:
        program = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=clean_environment()
        )
        try:
            peak = _watch(program)
        finally:
            if program.poll() is None:
                program.terminate()
                program.wait()
    if program.returncode != 0:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
        raise CommandFailed(f"{' '.join(command)} ended with {program.returncode}:\n{last}")
    return peak


def _watch(program: subprocess.Popen[bytes]) -> PeakMemory:
    main = psutil.Process(program.pid)
    children: list[psutil.Process] = []
    looked = -1.0
    peak = PeakMemory(0, 0, 0)
    while program.poll() is None:
        # To look for children is to read the whole process table: not every time.
        if time.monotonic() - looked > _LOOK_FOR_CHILDREN_SECONDS:
            with suppress(psutil.Error):
                children = main.children(recursive=True)
            looked = time.monotonic()
        own, others = sum(_sizes([main])), _sizes(children)
        peak = PeakMemory(
            max(peak.total, own + sum(others)),
            max(peak.main, own),
            max(peak.child, *others, 0),
        )
        time.sleep(_INTERVAL_SECONDS)
    return peak


def _sizes(processes: Iterable[psutil.Process]) -> list[int]:
    """Resident sizes of those that still run."""
    sizes = []
    for process in processes:
        with suppress(psutil.Error):
            sizes.append(int(process.memory_info().rss))
    return sizes
