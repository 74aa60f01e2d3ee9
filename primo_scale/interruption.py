"""Signals that ask a command to stop are noted; the command stops at its next step.

A handler that raised would raise at any instruction: inside a callback from C, where the exception
is lost and the run goes on, or inside `exec`, after which CPython ends with another exit code.
Here the handler sets a flag. `check` raises `InterruptedRun` at places where stopping is safe, and
where no such place comes for `GRACE_SECONDS` (an import, a compilation, a large decomposition) a
watching thread ends the process with the same exit code. That leaves what a kill would leave, which
the same command continues. While a charge is paid and its noise is drawn, both wait.

Only commands install handlers, with `signals_noted` or `note_signals_until_exit`. In a program that
calls the library, such as a notebook, the flag is never set and Ctrl-C works as everywhere.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TypeVar

from primo_scale.errors import InterruptedRun

SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE_SECONDS = 20.0
_BETWEEN_LOOKS_SECONDS = 0.5
_END_OF_WATCH = b"\0"

_Result = TypeVar("_Result")


@dataclass
class _Request:
    """Whether a signal came, whether it must wait, and what is logged if the process is ended."""

    came: bool = False
    deferrals: int = 0
    last_words: Callable[[], None] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_request = _Request()


def check() -> None:
    """Stop here if a signal has asked for it, unless interruptions are deferred.

    Raises
    ------
    InterruptedRun
        SIGTERM or SIGINT came.
    """
    if _request.came and not _request.deferrals:
        raise InterruptedRun("interrupted")


def check_before_charge() -> None:
    """Stop here if a signal has asked for it, deferred or not: nothing is paid yet.

    Raises
    ------
    InterruptedRun
        SIGTERM or SIGINT came.
    """
    if _request.came:
        raise InterruptedRun("interrupted")


@contextmanager
def deferred() -> Iterator[None]:
    """Let signals wait until the block is done, because stopping in it may cost budget.

    Raises
    ------
    InterruptedRun
        A signal came before the block, or during it, once it is done.
    """
    with _request.lock:
        check()
        _request.deferrals += 1
    try:
        yield
    finally:
        with _request.lock:
            _request.deferrals -= 1
    check()


def result_of(future: Future[_Result]) -> _Result:
    """Wait for the result of a future, and check meanwhile.

    Raises
    ------
    InterruptedRun
        As `check`; the future goes on.
    """
    while not wait([future], timeout=_BETWEEN_LOOKS_SECONDS).done:
        check()
    return future.result()


@contextmanager
def signals_noted(last_words: Callable[[], None]) -> Iterator[None]:
    """Note SIGTERM and SIGINT during the block, and restore the handlers that were there before.

    Parameters
    ----------
    last_words
        Called by the watching thread before it ends the process: it logs the interruption.

    Notes
    -----
    Outside the main thread, where Python installs no handlers, the block runs as it would without.
    Where signals are noted already, a block adds its last words alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = None if signal.getsignal(signal.SIGTERM) is _note else _Watch()
    outer, _request.last_words = _request.last_words, last_words
    try:
        yield
    finally:
        _request.last_words = outer
        if watch is not None:
            watch.end()


def note_signals_until_exit() -> None:
    """Note SIGTERM and SIGINT for the rest of this process, which runs one command.

    The last thing that the process does is to ignore both, so that a signal which comes while the
    interpreter shuts down does not replace the command's exit code.
    """
    _Watch()
    for number in SIGNALS:
        atexit.register(signal.signal, number, signal.SIG_IGN)


class _Watch:
    """Handlers of the main thread, and a thread that hears of a signal even if that one is busy.

    Python runs a handler between two instructions of the main thread. A call into C can take
    minutes, so the interpreter also writes each signal's number to a pipe at once (the wakeup
    descriptor), which the watching thread reads.
    """

    def __init__(self) -> None:
        self._heard, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interruption", daemon=True)
        self._thread.start()
        self._handlers = {number: signal.signal(number, _note) for number in SIGNALS}
        self._outer = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)

    def end(self) -> None:
        """Restore what was there before, and forget a signal that came."""
        signal.set_wakeup_fd(self._outer)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._ended.set()
        os.write(self._wakeup, _END_OF_WATCH)
        self._thread.join()
        for descriptor in (self._heard, self._wakeup):
            os.close(descriptor)
        _request.came = False

    def _run(self) -> None:
        if os.read(self._heard, 1) == _END_OF_WATCH:
            return
        _request.came = True
        left = GRACE_SECONDS
        while not self._ended.wait(_BETWEEN_LOOKS_SECONDS):
            with _request.lock:  # so that no charge begins between the look and the end
                left = GRACE_SECONDS if _request.deferrals else left - _BETWEEN_LOOKS_SECONDS
                if left <= 0:
                    _end_process()


def _note(signum: int, frame: FrameType | None) -> None:
    _request.came = True


def _end_process() -> None:
    """End with the exit code of an interruption, after a line in the log if that can be written."""
    if _request.last_words is not None:
        # The log may be what hangs.
        words = threading.Thread(target=_request.last_words, daemon=True)
        words.start()
        words.join(_BETWEEN_LOOKS_SECONDS)
    os._exit(InterruptedRun.exit_code)
