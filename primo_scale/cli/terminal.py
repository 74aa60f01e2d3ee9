"""Lines at the terminal: the plan of a run in groups, wrapped at words, and warnings in colour.

What a program reads stays one message a line: a stream that is no terminal gets no wrapping and no
colour.
"""

from __future__ import annotations

import logging
import shutil
import textwrap
from typing import TextIO

import click

from primo_scale.run.run_log import LEVEL, PLAN

_GROUPS = {"forecast": "Forecast", "pre-flight": "Needs"}  # by the beginning of the message
_ORDER = ("Inputs", "Warnings", "Forecast", "Needs")


class Terminal(logging.StreamHandler[TextIO]):
    """Handler of standard error for people.

    The lines of a plan are held until it ends, and shown under headings. Each line is shown once.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._groups: dict[str, list[str]] | None = None  # while a plan is made
        self._shown: set[str] = set()
        self._width = shutil.get_terminal_size().columns - 1 if stream.isatty() else 0

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record, or hold it until the plan is made."""
        try:
            self._take(record)
        except (OSError, ValueError):  # a full disk, or a closed stream
            self.handleError(record)

    def _take(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", "")
        if event in ("stage begins", "stage ends"):
            if vars(record)["fields"]["stage"] == PLAN:
                self._end_of_plan()
                self._groups = {} if event == "stage begins" else None
            return
        text = record.getMessage()
        if record.levelno < LEVEL.get() or text in self._shown:
            return
        self._shown.add(text)
        if self._groups is None or record.levelno >= logging.ERROR:
            self._end_of_plan()
            is_warning = record.levelno == logging.WARNING
            self._show(f"warning: {text}" if is_warning else text, is_warning=is_warning)
            return
        beginning, _, rest = text.partition(": ")
        group = _GROUPS.get(beginning, "Inputs")
        if record.levelno == logging.WARNING:
            group = "Warnings"
        self._groups.setdefault(group, []).append(rest if beginning in _GROUPS else text)

    def close(self) -> None:
        """Show what is held."""
        self._end_of_plan()
        super().close()

    def _end_of_plan(self) -> None:
        groups, self._groups = self._groups or {}, None
        for name in filter(groups.get, _ORDER):
            self._show(click.style(name, bold=True) if self._width else name)
            for text in groups[name]:
                self._show(text, indent="  ", is_warning=name == "Warnings")

    def _show(self, text: str, *, indent: str = "", is_warning: bool = False) -> None:
        lines = text.splitlines()
        if self._width:
            wrapped = (
                textwrap.wrap(
                    line, self._width, initial_indent=indent, subsequent_indent=indent + "  ",
                    break_long_words=False, break_on_hyphens=False,
                )
                for line in lines
            )  # fmt: skip
            lines = [line for part in wrapped for line in part]
        else:
            lines = [indent + line for line in lines]
        if is_warning and self._width:
            lines = [click.style(line, fg="yellow") for line in lines]
        self.stream.write("\n".join(lines) + "\n")
        self.flush()
