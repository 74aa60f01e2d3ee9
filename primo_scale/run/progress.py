"""Progress of a stage: its pace, a bar at a terminal, and lines in the log at growing intervals.

The time left is the work left at the pace of this run. A run that continues another starts where
that one ended, without counting its work as its own. Tasks count by their weights.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from primo_scale.accumulation.workload import Amount
from primo_scale.humanize import duration_in_words, rate_in_words
from primo_scale.run.progress_file import LIVE_PROGRESS
from primo_scale.run.run_log import LOGGER, JsonLines, about

Move = Callable[[Amount, Amount], None]

# The pace is that of a window, because workers come and go. A window with too few reports is
# widened, because a task may take minutes.
_WINDOW_SECONDS = 600.0
_FEWEST_REPORTS = 10
# The first tasks of a run end long after the workers began them and others, so no time left is
# stated before `_FEWEST_REPORTS` reports, or this share of the work that the run has to do.
_TELLING_SHARE = 0.1

# Intervals between lines of the log grow from the first to the largest.
_FIRST_GAP_SECONDS, _LARGEST_GAP_SECONDS, _GAPS_GROW = 10.0, 300.0, 1.5
_RECORD_GAP_SECONDS = 1.0
_WIDE = 100  # characters of a terminal that has room for the rate beside the bar


class Pace:
    """Rate of this run over a window of `window` seconds, from reports with times of any clock."""

    def __init__(self, window: float = _WINDOW_SECONDS) -> None:
        self._window = window
        self._reports: deque[tuple[float, Amount]] = deque()
        self._at_start = Amount(0, 0)
        self._n_reports = 0

    def note(self, now: float, done: Amount) -> None:
        """Take the report that `done` is done at the time `now`, in seconds."""
        if self._reports and done.weight < self._reports[-1][1].weight:
            self._reports.clear()  # something was damaged and is computed again
        if not self._reports:
            self._at_start, self._n_reports = done, 0
        self._reports.append((now, done))
        self._n_reports += 1
        while len(self._reports) > _FEWEST_REPORTS and self._reports[1][0] <= now - self._window:
            self._reports.popleft()

    def tasks_per_second(self, now: float) -> float:
        """Return the rate in tasks, for people to read."""
        return self._since(now, lambda amount: amount.tasks)

    def weight_per_second(self, now: float) -> float:
        """Return the rate in weight, which determines the time left."""
        return self._since(now, lambda amount: amount.weight)

    def seconds_left(self, now: float, whole: Amount) -> float | None:
        """Return the seconds until the `whole` is done, or None while it is too early to tell."""
        if not self._reports:
            return None
        done, start = self._reports[-1][1].weight, self._at_start.weight
        if done >= whole.weight:
            return 0.0
        rate = self.weight_per_second(now)
        few = self._n_reports <= _FEWEST_REPORTS
        if rate <= 0 or (few and done - start < _TELLING_SHARE * (whole.weight - start)):
            return None
        return (whole.weight - done) / rate

    def _since(self, now: float, size: Callable[[Amount], int]) -> float:
        if not self._reports:
            return 0.0
        (start, before), (_, after) = self._reports[0], self._reports[-1]
        return (size(after) - size(before)) / (now - start) if now > start else 0.0


class Meter:
    """Progress of the stage `name` in words, and when to log it; it has no clock and no screen."""

    def __init__(self, name: str, of_what: str) -> None:
        self.name, self._of_what = name, of_what
        self._pace = Pace()
        self._done = self._total = Amount(0, 0)
        self._next_line: float | None = None
        self._gap = _FIRST_GAP_SECONDS
        self._next_record = -math.inf
        self.lines_logged = 0

    def note(self, now: float, done: Amount, total: Amount) -> None:
        """Take the report that `done` is done at the time `now`."""
        self._done, self._total = done, total
        self._pace.note(now, done)
        if self._next_line is None:
            self._next_line = now + self._gap

    def line_is_due(self, now: float) -> bool:
        """Return whether to log a line now, and if so, schedule the next one."""
        if self._next_line is None or now < self._next_line:
            return False
        self._gap = min(_GAPS_GROW * self._gap, _LARGEST_GAP_SECONDS)
        self._next_line = now + self._gap
        self.lines_logged += 1
        return True

    def record_is_due(self, now: float) -> bool:
        """Return whether to update `ProgressFile` now, and if so, schedule the next update."""
        if now < self._next_record:
            return False
        self._next_record = now + _RECORD_GAP_SECONDS
        return True

    def time_left(self, now: float) -> str:
        """Return the time left in words, or nothing while it is unknown and at the end."""
        seconds = self._pace.seconds_left(now, self._total)
        return f"about {duration_in_words(seconds)} left" if seconds else ""

    def rate(self, now: float) -> str:
        """Return the rate in words, or nothing while it is zero."""
        rate = self._pace.tasks_per_second(now)
        return f"{rate_in_words(rate)} {self._of_what} a minute" if rate > 0 else ""

    def count(self) -> str:
        """Return the counts in words, or nothing while they are unknown."""
        if self._total.tasks == 0:
            return ""
        return f"{self._done.tasks} of {self._total.tasks} {self._of_what}"

    def line(self, now: float) -> str:
        """Return the line of the log."""
        parts = (self.count(), f"{self._share():.0%} of the work", self.rate(now))
        return f"{self.name}: " + ", ".join(filter(None, (*parts, self.time_left(now))))

    def fields(self, now: float) -> dict[str, object]:
        """Return the fields of the line, for machines."""
        left = self._pace.seconds_left(now, self._total)
        return {
            "done": self._done.tasks,
            "total": self._total.tasks,
            "of_what": self._of_what,
            "work_done": self._share(),
            "per_second": round(self._pace.tasks_per_second(now), 4),
            "seconds_left": None if left is None else round(left),
        }

    def _share(self) -> float:
        return self._done.weight / self._total.weight if self._total.weight else 1.0


@contextmanager
def progress_bar(name: str, of_what: str = "tasks") -> Iterator[Move]:
    """Show and log the progress of a stage, reported by calls of the result with (done, total)."""
    shown = _bar_is_shown()
    meter = Meter(name, of_what)
    # Standard error gets lines only where no bar is shown; the log file gets them in any case.
    level = logging.DEBUG if shown else logging.INFO

    def log(level: int) -> None:
        now = time.monotonic()
        LOGGER.log(level, "%s", meter.line(now), extra=about("progress", meter.fields(now)))

    with _bar(meter) if shown else nullcontext(lambda done, total: None) as show:

        def move(done: Amount, total: Amount) -> None:
            """Log and show the work that is done."""
            meter.note(time.monotonic(), done, total)
            show(done, total)
            if meter.line_is_due(time.monotonic()):
                log(level)
            elif meter.record_is_due(time.monotonic()):
                log(LIVE_PROGRESS)

        try:
            yield move
        finally:
            log(level if meter.lines_logged else LIVE_PROGRESS)


@contextmanager
def count_bar(name: str, of_what: str) -> Iterator[Callable[[int, int], None]]:
    """`progress_bar` of things of equal weight."""
    with progress_bar(name, of_what) as move:
        yield lambda done, total: move(Amount(done, done), Amount(total, total))


@contextmanager
def _bar(meter: Meter) -> Iterator[Move]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column
    from rich.text import Text

    one_line = partial(Column, no_wrap=True)

    class Words(ProgressColumn):
        """Words of the meter, which also change between two reports."""

        max_refresh = 0.5

        def __init__(self, words: Callable[[], str]) -> None:
            self._words = words
            super().__init__(table_column=one_line())

        def render(self, task: object) -> Text:
            return Text(self._words())

    console = Console(stderr=True)
    rate = Words(lambda: meter.rate(time.monotonic()))
    columns = (
        TextColumn("{task.description}", table_column=one_line()),
        BarColumn(bar_width=None, table_column=one_line(ratio=1)),  # the width that words leave
        Words(meter.count),
        *((rate,) if console.width >= _WIDE else ()),
        TimeElapsedColumn(table_column=one_line()),
        Words(lambda: meter.time_left(time.monotonic())),
    )
    with Progress(*columns, console=console, expand=True) as bars:
        bar = bars.add_task(meter.name, total=None)

        def show(done: Amount, total: Amount) -> None:
            first = bars.tasks[bar].total is None  # the state of an earlier run is shown at once
            bars.update(bar, completed=done.weight, total=total.weight, refresh=first)

        yield show


def _bar_is_shown() -> bool:
    """Return whether standard error is a terminal that gets no JSON lines."""
    as_json = any(isinstance(handler.formatter, JsonLines) for handler in LOGGER.handlers)
    return sys.stderr.isatty() and not as_json
