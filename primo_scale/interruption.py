"""Interruption of commands by SIGTERM, SIGINT and SIGHUP at safe points.

A signal handler that raises an exception can do so at any instruction: inside a callback from C,
which loses the exception, or inside `exec`, after which CPython ends with another exit code. The
handler here only sets a flag, and `check` raises `InterruptedRun` at points where stopping is safe.
If no such point is reached within `GRACE_SECONDS` (during an import, a compilation or a large
decomposition), a watching thread ends the process with the same exit code. As after a kill, the
same command continues the run. Both wait while a charge is paid and its noise is drawn.

Only commands install handlers, with `signals_noted` or `note_signals_until_exit`. Programs that
call the library, such as a notebook, keep Python's handling of Ctrl-C.
"""

from __future__ import annotations

import atexit
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TypeVar

from primo_scale.errors import InterruptedRun

SIGNALS: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT)
if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
    SIGNALS += (signal.SIGHUP,)  # the end of a login
GRACE_SECONDS = 20.0
_BETWEEN_LOOKS_SECONDS = 0.5
_END_OF_WATCH = b"\0"

_Result = TypeVar("_Result")


@dataclass
class _State:
    """State of the interruption of this process."""

    requested: bool = False  # whether a signal came
    deferrals: int = 0  # number of nested blocks of `deferred`, guarded by `lock`
    log: Callable[[], None] | None = None  # logs an interruption by the watching thread
    lock: threading.Lock = field(default_factory=threading.Lock)


_state = _State()


def check() -> None:
    """Raise InterruptedRun if a signal came, unless interruptions are deferred."""
    if _state.requested and not _state.deferrals:
        raise InterruptedRun("interrupted")


def check_before_charge() -> None:
    """Raise InterruptedRun if a signal came, even if deferred, because nothing is paid yet."""
    if _state.requested:
        raise InterruptedRun("interrupted")


@contextmanager
def deferred() -> Iterator[None]:
    """Defer interruptions to the end of the block, in which stopping may cost budget.

    InterruptedRun is raised before the block if a signal came before it, and after it otherwise.
    """
    with _state.lock:
        check()
        _state.deferrals += 1
    try:
        yield
    finally:
        with _state.lock:
            _state.deferrals -= 1
    check()


def result_of(future: Future[_Result]) -> _Result:
    """Return the result of a future; `check` is called regularly and does not cancel the future."""
    check()
    while not wait([future], timeout=_BETWEEN_LOOKS_SECONDS).done:
        check()
    return future.result()


@contextmanager
def signals_noted(log_interruption: Callable[[], None]) -> Iterator[None]:
    """Handle `SIGNALS` during the block, and restore the previous handlers.

    The watching thread calls `log_interruption` before it ends the process. Outside the main
    thread, Python cannot install handlers, and the block runs without them. A nested block only
    replaces `log_interruption`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = None if signal.getsignal(signal.SIGTERM) is _note else _Watch()
    outer, _state.log = _state.log, log_interruption
    try:
        yield
    finally:
        _state.log = outer
        if watch is not None:
            watch.end()


def note_signals_until_exit() -> None:
    """Handle `SIGNALS` for the rest of this process, which runs one command.

    At exit all are ignored, so that a signal during the shutdown of the interpreter does not
    change the exit code.
    """
    _Watch()
    for number in SIGNALS:
        atexit.register(signal.signal, number, signal.SIG_IGN)


class _Watch:
    """Signal handlers, and a thread that watches for signals while the main thread is busy.

    Python runs a handler between two instructions of the main thread, but a call into C can take
    minutes. The interpreter therefore also writes each signal's number to a pipe at once (the
    wakeup descriptor), which the watching thread reads.
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
        """Restore the previous handlers, and reset the flag."""
        signal.set_wakeup_fd(self._outer)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._ended.set()
        os.write(self._wakeup, _END_OF_WATCH)
        self._thread.join()
        for descriptor in (self._heard, self._wakeup):
            os.close(descriptor)
        _state.requested = False

    def _run(self) -> None:
        if os.read(self._heard, 1) == _END_OF_WATCH:
            return
        _state.requested = True
        left = GRACE_SECONDS
        while not self._ended.wait(_BETWEEN_LOOKS_SECONDS):
            with _state.lock:  # no charge may begin between this check and the end
                left = GRACE_SECONDS if _state.deferrals else left - _BETWEEN_LOOKS_SECONDS
                if left <= 0:
                    _end_process()


def _note(signum: int, frame: FrameType | None) -> None:
    _state.requested = True
    if signum == signal.SIGHUP:
        _discard_output_without_terminal()


def _discard_output_without_terminal() -> None:
    """Discard what is printed from now on if the terminal is gone, which would fail the run."""
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _end_process() -> None:
    """End the process with the exit code of an interruption, after logging it if possible."""
    if _state.log is not None:
        # Logging itself may hang.
        logging = threading.Thread(target=_state.log, daemon=True)
        logging.start()
        logging.join(_BETWEEN_LOOKS_SECONDS)
    os._exit(InterruptedRun.exit_code)
