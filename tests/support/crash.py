"""Kill a process at a step of paying for a release, as a power loss would: without any handler."""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from primo_scale.ledger.ledger import AUDIT_EVENT, PaymentStep

# Steps of a release of one round without hold-out, in order.
_OTHERS = (PaymentStep.SECOND_ROUND_STORED, PaymentStep.HOLD_OUT_STORED)
STEPS = tuple(step for step in PaymentStep if step not in _OTHERS)
# Steps of paying for a release and adjusting its phenotypes, in order.
ADJUSTMENT_STEPS = STEPS[:5]

KILLED = 9
_FORK = multiprocessing.get_context("fork")
_LIMIT_S = 120


def killed_at(label: str, function: Callable[..., object], *arguments: Any) -> int:
    """Run the function in a child that dies at the first `PaymentStep` of a name, with `KILLED`."""

    def kill(reached: str) -> None:
        if reached == label:
            os._exit(KILLED)

    return _run_watched(function, arguments, kill)


def steps_passed(function: Callable[..., object], *arguments: Any) -> list[str]:
    """Return the steps of ``function(*arguments)``, in order, from a run in a child process."""
    with tempfile.TemporaryFile("w+") as record:

        def write(label: str) -> None:
            record.write(f"{label}\n")
            record.flush()

        assert _run_watched(function, arguments, write) == 0
        record.seek(0)
        return record.read().splitlines()


def _run_watched(
    function: Callable[..., object], arguments: Sequence[Any], on_step: Callable[[str], object]
) -> int:
    def child() -> None:
        sys.addaudithook(lambda event, values: event == AUDIT_EVENT and on_step(values[0]))
        function(*arguments)

    return exit_code(child)


def exit_code(child: Callable[[], object]) -> int:
    process = _FORK.Process(target=child)
    process.start()
    process.join(_LIMIT_S)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"a child ran for more than {_LIMIT_S} s")
    return process.exitcode
