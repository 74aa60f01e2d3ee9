"""What every command shares: exit codes, one-line errors, interruption, the log."""

from __future__ import annotations

import functools
import logging
import os
import shlex
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from primo_scale import __version__
from primo_scale.cli.batch_job import PublicLines, is_batch_output
from primo_scale.errors import InterruptedRun, PrimoError, UsageError, anticipated
from primo_scale.interruption import check, signals_noted
from primo_scale.run.log_records import (
    LOGGER,
    JsonLines,
    about,
    leave_stage,
    text_with_time,
)
from primo_scale.run.progress_file import LIVE_PROGRESS, ProgressFile
from primo_scale.storage.files import files_private, refuse_special_file

P = ParamSpec("P")
R = TypeVar("R")

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
DIRECTORY = click.Path(file_okay=False, path_type=Path)
HEADINGS: dict[click.Parameter, str] = {}
"""Heading of the help under which an option is listed; any other option comes last."""
_LOG_FORMAT = "primo_scale.log_format"


class _RegularFile(click.Path):
    """Path of a file that is regular, or not there yet."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        refuse_special_file(path)
        return path


FILE_PATH = _RegularFile(dir_okay=False, path_type=Path)


class _OneLineErrors(click.Command):
    """Command whose usage errors are one line, like every other error, with exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command as a program."""
        words = args[0] if args else kwargs.get("args")
        try:
            _refuse_other_encodings(sys.argv[1:] if words is None else words)
            return super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.ClickException as error:
            click.echo(f"error: {error.format_message()} See --help.", err=True)
            sys.exit(error.exit_code)
        except PrimoError as error:  # of an option's value, before the command begins
            click.echo(f"error: {error}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(InterruptedRun.exit_code)


class ContractCommand(_OneLineErrors):
    """A command that ends as the contract says, and lists its options under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading, in the order in which they first occur."""
        sections: dict[str, list[tuple[str, str]]] = {}
        parameters = self.get_params(ctx)
        for parameter in sorted(parameters, key=lambda one: one not in HEADINGS):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(HEADINGS.get(parameter, "Other"), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class ContractGroup(_OneLineErrors, click.Group):
    """A group of commands that end as the contract says."""


def _refuse_other_encodings(words: Sequence[str]) -> None:
    """Refuse arguments, and a working directory, that are not UTF-8.

    Logs, tables and JSON are UTF-8, and paths stand in all of them.
    """
    for word in (*words, os.getcwd()):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                "an argument or the working directory is not UTF-8",
                value=ascii(word),
                remedy="Rename the file or directory",
            ) from None


def debug_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add ``--debug``, which shows tracebacks."""
    return click.option("--debug", is_flag=True, help="Show the traceback of an error.")(command)


def log_format_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add ``--log-format``, which the log reads from the context of the command."""

    def remember(context: click.Context, _: click.Parameter, value: str) -> None:
        context.meta[_LOG_FORMAT] = value

    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        expose_value=False,
        callback=remember,
        help="How lines on standard error and in the work directory's run.log are written.",
    )(command)


def log_as_json() -> bool:
    """Whether the log of the command that is running is to be JSON lines."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_LOG_FORMAT) == "json"


def explain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn anticipated failures into one line on stderr and the contract's exit code.

    Whatever the command writes is for its owner alone, unless it is opened to readers by name.
    The wrapped command receives everything but ``debug``.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, debug: bool, **options: Any) -> None:
        """Run the command; end with its exit code and one line."""
        _close_log()  # of an earlier command in this process
        try:
            with signals_noted(_report_interruption), files_private():
                check()
                command(*args, **options)
                LOGGER.debug("done", extra=about("end", {}))
        except (PrimoError, MemoryError, OSError) as error:
            explained = anticipated(error)
            if debug or explained is None:
                raise
            _report(explained)
            sys.exit(explained.exit_code)

    return wrapped


def _how_to_continue(error: PrimoError) -> str:
    """The very command to continue with, ready to be pasted; nothing for other errors."""
    if not isinstance(error, InterruptedRun):
        return ""
    return f". To continue: {shlex.join(sys.orig_argv)}"


def _report(error: PrimoError) -> None:
    """One line on standard error, and in the run's log if it has one."""
    if not LOGGER.handlers:
        log_to_terminal()
    fields = {"what": error.what, **error.facts}
    if isinstance(error, InterruptedRun):
        fields["continue"] = shlex.join(sys.orig_argv)
    extra = about("error", {"exit_code": error.exit_code, **fields})
    LOGGER.error("error: %s%s", error, _how_to_continue(error), extra=extra)


def _report_interruption() -> None:
    """Log that the command was interrupted, for the thread that ends a process that is busy."""
    _report(InterruptedRun("interrupted"))


def open_run_log(path: Path, command: str, options: dict[str, object]) -> None:
    """Send the project's log to the terminal and to the private `path`, opening with the options.

    Of a batch job the terminal gets public lines alone.

    Parameters
    ----------
    path
        Log file in the work directory (private: it holds counts of people); appended to.
    command
        Name of the command as the user typed it.
    options
        Every option in effect.
    """
    file = _RunLog(path, encoding="utf-8")
    path.chmod(0o600)
    file.setFormatter(JsonLines() if log_as_json() else text_with_time())
    file.setLevel(logging.DEBUG)
    _send_log_to(file, ProgressFile(path.parent))
    pid, host = os.getpid(), socket.gethostname()
    given = {name: value for name, value in options.items() if value not in (None, (), False)}
    start = {"version": __version__, "command": command, "pid": pid, "host": host}
    LOGGER.info(
        "primo_scale %s: %s (process %d on %s)", __version__, command, pid, host,
        extra=about("start", start),
    )  # fmt: skip
    for name, value in given.items():
        option = name.replace("_", "-")
        extra = about("option", {"name": option, "value": value})
        LOGGER.info("  --%s %s", option, value, extra=extra)
    terminal = _terminal()
    if is_batch_output(sys.stderr):
        terminal.setLevel(logging.DEBUG)
        terminal = PublicLines(terminal, f"{path} says why")
    LOGGER.addHandler(terminal)


def log_to_terminal() -> None:
    """Send the project's log to the terminal alone, for a command without a work directory.

    A batch job has no terminal: its output file gets public lines, and errors in full.
    """
    terminal = _terminal()
    _send_log_to(PublicLines(terminal) if is_batch_output(sys.stderr) else terminal)


class _RunLog(logging.FileHandler):
    """The log in the work directory, which must not bring a run down, nor say why it cannot."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Leave it to the run to find that the disk is full: it has the better words."""

    def close(self) -> None:
        """Close the file, whatever becomes of its last line."""
        with suppress(OSError):
            super().close()


def _terminal() -> logging.Handler:
    terminal = logging.StreamHandler(sys.stderr)
    if log_as_json():
        terminal.setFormatter(JsonLines())
        terminal.setLevel(logging.DEBUG)
        return terminal
    terminal.setLevel(logging.INFO)
    terminal.setFormatter(logging.Formatter("%(message)s"))
    return terminal


def _send_log_to(*handlers: logging.Handler) -> None:
    _close_log()
    LOGGER.setLevel(LIVE_PROGRESS)
    LOGGER.propagate = False
    LOGGER.handlers[:] = handlers


def _close_log() -> None:
    for handler in LOGGER.handlers:
        handler.close()
    LOGGER.handlers.clear()
    leave_stage()
