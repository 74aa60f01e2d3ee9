"""What every command shares: exit codes, one-line errors, interruption, the private run log."""

from __future__ import annotations

import functools
import logging
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import click

from primo_scale import __version__
from primo_scale.errors import InterruptedRun, PrimoError, anticipated
from primo_scale.storage.files import files_private

P = ParamSpec("P")
R = TypeVar("R")

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
EXISTING_FILE = click.Path(dir_okay=False, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)
LOGGER = logging.getLogger("primo_scale")


class _OneLineErrors(click.Command):
    """Usage errors in one line, like every other error, with exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program."""
        try:
            return super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.ClickException as error:
            click.echo(f"error: {error.format_message()} See --help.", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(InterruptedRun.exit_code)


class ContractCommand(_OneLineErrors):
    """A command that ends as the contract says."""


class ContractGroup(_OneLineErrors, click.Group):
    """A group of commands that end as the contract says."""


def debug_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add ``--debug``, which shows tracebacks."""
    return click.option("--debug", is_flag=True, help="Show the traceback of an error.")(command)


def explain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn anticipated failures into one line on stderr and the contract's exit code.

    Whatever the command writes is for its owner alone, unless it is opened to readers by name.
    The wrapped command receives everything but ``debug``.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, debug: bool, **options: Any) -> None:
        signal.signal(signal.SIGTERM, _raise_interrupt)
        try:
            with files_private():
                command(*args, **options)
        except (PrimoError, KeyboardInterrupt, MemoryError, OSError) as error:
            if debug:
                raise
            explained = _explain(error)
            click.echo(f"error: {explained}{_how_to_continue(explained)}", err=True)
            sys.exit(explained.exit_code)

    return wrapped


def _explain(error: BaseException) -> PrimoError:
    return anticipated(error) or InterruptedRun("interrupted")


def _how_to_continue(error: PrimoError) -> str:
    """The very command to continue with, ready to be pasted; nothing for other errors."""
    if not isinstance(error, InterruptedRun):
        return ""
    return f". To continue: {shlex.join(sys.orig_argv)}"


def _raise_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def interruptions_deferred() -> Iterator[None]:
    """Hold SIGTERM and Ctrl-C back until the block is done: it is short and costs budget."""
    held: list[int] = []
    names = (signal.SIGTERM, signal.SIGINT)
    before = {name: signal.signal(name, lambda signum, _: held.append(signum)) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    if held:
        raise KeyboardInterrupt


def open_run_log(path: Path, command: str, options: dict[str, object]) -> None:
    """Send the project's log to the terminal and to the private `path`, opening with the options.

    Parameters
    ----------
    path
        Log file in the work directory (private: it holds counts of people); appended to.
    command
        Name of the command as the user typed it.
    options
        Every option in effect.
    """
    file = logging.FileHandler(path, encoding="utf-8")
    path.chmod(0o600)
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    _send_log_to(file)
    LOGGER.info("primo_scale %s: %s", __version__, command)
    for name, value in options.items():
        if value not in (None, (), False):
            LOGGER.info("  --%s %s", name.replace("_", "-"), value)
    _send_log_to(file, _terminal())


def log_to_terminal() -> None:
    """Send the project's log to the terminal alone, for a command without a work directory."""
    _send_log_to(_terminal())


def _terminal() -> logging.Handler:
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.INFO)
    terminal.setFormatter(logging.Formatter("%(message)s"))
    return terminal


def _send_log_to(*handlers: logging.Handler) -> None:
    LOGGER.setLevel(logging.DEBUG)
    LOGGER.propagate = False
    LOGGER.handlers[:] = handlers
