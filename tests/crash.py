"""Kill a process at a step of paying for a release, as a power loss would.

A hook on the audit events of `primo_scale.ledger.payment_steps` observes every step
and ends the process with `os._exit`, so that no handler, no `finally` and no flush runs. A function
runs in a forked child, and a command in its own process as with ``python -m``.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from primo_scale.ledger.payment_steps import AUDIT_EVENT, PaymentStep

# Steps of a release, in order.
STEPS = (
    PaymentStep.KEY_STORED,
    PaymentStep.RESERVATION_WRITTEN,
    PaymentStep.RESERVATION_COMMITTED,
    PaymentStep.DRAW_STARTED,
    PaymentStep.BLOCK_WRITTEN,
    PaymentStep.STATISTICS_STORED,
    PaymentStep.DRAW_RECORD_WRITTEN,
    PaymentStep.DRAW_RECORD_COMMITTED,
    PaymentStep.KEY_REMOVED,
    PaymentStep.RELEASE_STAGED,
    PaymentStep.RELEASE_PUBLISHED,
    PaymentStep.PUBLICATION_RECORD_WRITTEN,
    PaymentStep.PUBLICATION_RECORD_COMMITTED,
)
# Steps of buying phenotype moments, in order.
MOMENTS_STEPS = (*STEPS[:4], PaymentStep.MOMENTS_STORED, *STEPS[6:9])
# Steps of opening a ledger of format version 1, in order.
UPGRADE_STEPS = (PaymentStep.UPGRADE_WRITTEN, PaymentStep.UPGRADE_COMMITTED)

KILLED = 9
# sys.argv: step at which to kill (or empty), its occurrence, file that records the steps (or
# empty), module, arguments. The file is opened for every step, so that a kill loses no record.
_PROGRAM = f"""
import os, runpy, sys
label, occurrence, record, module = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
passed = 0
def watch(event, arguments):
    global passed
    if event != {AUDIT_EVENT!r}:
        return
    if record:
        with open(record, "a") as file:
            file.write(arguments[0] + "\\n")
    if arguments[0] == label:
        passed += 1
        if passed == occurrence:
            os._exit({KILLED})
sys.addaudithook(watch)
sys.argv = sys.argv[4:]
sys.path.insert(0, os.getcwd())
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
_FORK = multiprocessing.get_context("fork")
_LIMIT_S = 120


def killed_at(
    label: str, function: Callable[..., object], *arguments: Any, occurrence: int = 1
) -> int:
    """Run ``function(*arguments)`` in a child that dies at an occurrence of a `PaymentStep`.

    The exit code is `KILLED`, 0 if the function ended first, or 1 if it raised an exception.
    """
    passed = 0

    def kill(reached: str) -> None:
        nonlocal passed
        passed += reached == label
        if passed == occurrence:
            os._exit(KILLED)

    return _exit_code(function, arguments, kill)


def steps_passed(function: Callable[..., object], *arguments: Any) -> list[str]:
    """Return the steps of ``function(*arguments)``, in order, from a run in a child process."""
    with tempfile.TemporaryFile("w+") as record:

        def write(label: str) -> None:
            record.write(f"{label}\n")
            record.flush()

        assert _exit_code(function, arguments, write) == 0
        record.seek(0)
        return record.read().splitlines()


def run_module(
    module: str,
    arguments: Sequence[str | Path],
    *,
    cwd: Path,
    kill_at: str = "",
    occurrence: int = 1,
    record: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m MODULE ARGUMENTS`` in `cwd`, and kill it when it reaches a step.

    The return code is then `KILLED`. Every step is appended to `record`, one per line.
    """
    options = [kill_at, str(occurrence), str(record or ""), module]
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *options, *(str(argument) for argument in arguments)],
        cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _exit_code(
    function: Callable[..., object], arguments: Sequence[Any], on_step: Callable[[str], object]
) -> int:
    def child() -> None:
        sys.addaudithook(lambda event, values: event == AUDIT_EVENT and on_step(values[0]))
        function(*arguments)

    process = _FORK.Process(target=child)
    process.start()
    process.join(_LIMIT_S)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"a child ran for more than {_LIMIT_S} s")
    return process.exitcode
