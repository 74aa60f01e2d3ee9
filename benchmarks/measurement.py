"""Wall times of calls, and the peak memory of programs, in a neutral environment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import psutil

_SLOW_SECONDS = 10.0
_REPETITIONS_IF_SLOW = 3
_INTERVAL_SECONDS = 0.05
_LOOK_FOR_CHILDREN_SECONDS = 0.5
_LAST_LINES = 20
# They may select the BLAS kernels of another processor, which halves the speed of every program.
_NOT_PASSED_ON = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def wall_seconds(function: Callable[[], object], repetitions: int) -> list[float]:
    """Return the wall times of `repetitions` calls after a warm-up.

    If a call takes more than ten seconds, the first call counts, and there are at most three.
    """
    first = seconds_of(function)
    if first > _SLOW_SECONDS:
        more = min(repetitions, _REPETITIONS_IF_SLOW) - 1
        return [first, *(seconds_of(function) for _ in range(more))]
    return [seconds_of(function) for _ in range(repetitions)]


def seconds_of(function: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def peak_bytes() -> int:
    """Return the peak resident size of this process (`ru_maxrss` may include its parent's)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def module_command(module: str, *words: object) -> list[str]:
    """Return a command line that runs one of this project's modules."""
    return [sys.executable, "-m", module, *map(str, words)]


@dataclass(frozen=True)
class PeakMemory:
    """Largest resident sizes, in bytes; memory that processes share counts for each of them.

    `total` is the largest sum over all processes at one moment, `main` the peak of the program
    itself, and `child` the largest peak of a process that it started.
    """

    total: int
    main: int
    child: int


def run_measured(command: Sequence[str], directory: Path) -> PeakMemory:
    """Run `command` to its end, with its output in the file ``last.log`` of `directory`.

    If it fails, the error has the last lines of its output.
    """
    log = directory / "last.log"
    environment = {name: text for name, text in os.environ.items() if name not in _NOT_PASSED_ON}
    with log.open("w") as output:
        program = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            peak = _watch(program)
        finally:
            if program.poll() is None:
                program.terminate()
                program.wait()
    if program.returncode != 0:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
        raise click.ClickException(f"{' '.join(command)} ended with {program.returncode}:\n{last}")
    return peak


def _watch(program: subprocess.Popen[bytes]) -> PeakMemory:
    main = psutil.Process(program.pid)
    children: list[psutil.Process] = []
    looked = -1.0
    peak = PeakMemory(0, 0, 0)
    while program.poll() is None:
        # A search for children reads the whole process table, so it is done less often.
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
    """Return the resident sizes of the processes that still run."""
    sizes = []
    for process in processes:
        with suppress(psutil.Error):
            sizes.append(int(process.memory_info().rss))
    return sizes
