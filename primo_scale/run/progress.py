"""Progress of a stage: a bar at a terminal, and lines in the log at growing intervals.

The time left is that of the tasks left at the pace of the last minutes. A run that continues
another starts where that one ended, without counting its tasks as its own.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from primo_scale.humanize import duration_in_words, rate_in_words
from primo_scale.run.run_log import LOGGER, JsonLines, about

Move = Callable[[int, int], None]

# The pace is that of a window, because workers come and go.
_WINDOW_SECONDS = 600.0
# Intervals between lines of the log grow from the first to the largest.
_FIRST_GAP_SECONDS, _LARGEST_GAP_SECONDS, _GAPS_GROW = 10.0, 60.0, 1.5


@contextmanager
def progress_bar(name: str, of_what: str = "tasks") -> Iterator[Move]:
    """Show and log the progress of a stage, reported by calls of the result with (done, total)."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    is_shown = _bar_is_shown()
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        get_time=lambda: time.monotonic(),
        speed_estimate_period=_WINDOW_SECONDS,
        expand=True,
        disable=not is_shown,
    )
    # Rich takes the first report as the start, and the pace from those that follow.
    bars.add_task(name, total=None, count="")
    (bar,) = bars.tasks

    def log() -> None:
        # Standard error gets lines only where no bar is shown; the log file gets them in any case.
        level = logging.DEBUG if is_shown else logging.INFO
        fields = _fields(bar, of_what)
        line = f"{name}: {_in_words(fields)}"
        LOGGER.log(level, "%s", line, extra=about("progress", fields))

    gap, next_line, lines = _FIRST_GAP_SECONDS, None, 0

    def move(done: int, total: int) -> None:
        """Log and show the work that is done."""
        nonlocal gap, next_line, lines
        now = time.monotonic()
        count = f"{done} of {total} {of_what}"
        first = next_line is None  # the state of an earlier run is shown at once
        bars.update(bar.id, completed=done, total=total, count=count, refresh=first)
        if next_line is None:
            next_line = now + gap
        if now >= next_line:
            gap = min(_GAPS_GROW * gap, _LARGEST_GAP_SECONDS)
            next_line, lines = now + gap, lines + 1
            log()

    with bars:
        try:
            yield move
        finally:
            if lines:
                log()


def _fields(bar: Any, of_what: str) -> dict[str, Any]:
    """Return the progress for machines."""
    return {
        "done": int(bar.completed),
        "total": int(bar.total or 0),
        "of_what": of_what,
        "per_second": round(bar.speed or 0.0, 4),
        "seconds_left": bar.time_remaining,
    }


def _in_words(fields: dict[str, Any]) -> str:
    """Return the fields of a line of progress in words."""
    parts = [f"{fields['done']} of {fields['total']} {fields['of_what']}"]
    if fields["per_second"]:
        parts.append(f"{rate_in_words(fields['per_second'])} {fields['of_what']} a minute")
    if fields["seconds_left"]:
        parts.append(f"about {duration_in_words(fields['seconds_left'])} left")
    return ", ".join(parts)


def _bar_is_shown() -> bool:
    """Return whether standard error is a terminal that gets no JSON lines."""
    as_json = any(isinstance(handler.formatter, JsonLines) for handler in LOGGER.handlers)
    return sys.stderr.isatty() and not as_json
