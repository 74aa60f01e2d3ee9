"""Progress: a bar for people at a terminal, a line every so often in the log.

The time left is that of the work left at the rate of this run, so a run that continues another
starts where that one stood and does not take its work for its own. Tasks count by what they weigh.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from primo_scale.accumulation.task_weights import Amount
from primo_scale.run.eta import Pace, duration
from primo_scale.run.log_records import LOGGER, JsonLines, about
from primo_scale.run.progress_file import LIVE_PROGRESS

if TYPE_CHECKING:
    from rich.table import Column

Move = Callable[[Amount, Amount], None]

# Lines of the log come so far apart at first, then ever further up to the second.
_RECORD_GAP_SECONDS = 1.0
_WIDE = 100  # characters of a terminal that has room for the rate beside the bar
_FIRST_GAP_SECONDS, _LARGEST_GAP_SECONDS, _GAPS_GROW = 10.0, 300.0, 1.5


class Meter:
    """What to say of a run's progress, and whether a line is due; knows no clock and no screen.

    Parameters
    ----------
    name
        Name of the stage.
    of_what
        Things that are counted, such as tasks.
    """

    def __init__(self, name: str, of_what: str) -> None:
        self.name, self._of_what = name, of_what
        self._pace = Pace()
        self._done = self._total = Amount(0, 0)
        self._next_line: float | None = None
        self._gap = _FIRST_GAP_SECONDS
        self._next_record = -math.inf
        self.lines_said = 0

    def note(self, now: float, done: Amount, total: Amount) -> None:
        """Take down how much is done at the time `now`."""
        self._done, self._total = done, total
        self._pace.note(now, done)
        if self._next_line is None:
            self._next_line = now + self._gap

    def line_is_due(self, now: float) -> bool:
        """Whether the log is to hear of it now; if so, the next line is due later."""
        if self._next_line is None or now < self._next_line:
            return False
        self._gap = min(_GAPS_GROW * self._gap, _LARGEST_GAP_SECONDS)
        self._next_line = now + self._gap
        self.lines_said += 1
        return True

    def record_is_due(self, now: float) -> bool:
        """Whether `ProgressFile` is to hear of it now; if so, the next record is due later."""
        if now < self._next_record:
            return False
        self._next_record = now + _RECORD_GAP_SECONDS
        return True

    def time_left(self, now: float) -> str:
        """The time left, in words; nothing while it is too early to tell, and at the end."""
        seconds = self._pace.seconds_left(now, self._total)
        return f"about {duration(seconds)} left" if seconds else ""

    def rate(self, now: float) -> str:
        """The rate, in words; nothing as long as there is none."""
        rate = 60 * self._pace.tasks_per_second(now)
        return f"{rate:.3g} {self._of_what} a minute" if rate > 0 else ""

    def count(self) -> str:
        """How many are done, once that is known."""
        if self._total.tasks == 0:
            return ""
        return f"{self._done.tasks} of {self._total.tasks} {self._of_what}"

    def line(self, now: float) -> str:
        """All of it, for the log."""
        share = self._done.weight / self._total.weight if self._total.weight else 1.0
        parts = (self.count(), f"{share:.0%} of the work", self.rate(now), self.time_left(now))
        return f"{self.name}: " + ", ".join(part for part in parts if part)

    def fields(self, now: float) -> dict[str, object]:
        """All of it, for machines."""
        left = self._pace.seconds_left(now, self._total)
        return {
            "done": self._done.tasks,
            "total": self._total.tasks,
            "of_what": self._of_what,
            "work_done": self._done.weight / self._total.weight if self._total.weight else 1.0,
            "per_second": round(self._pace.tasks_per_second(now), 4),
            "seconds_left": None if left is None else round(left),
        }


@contextmanager
def progress_bar(name: str, of_what: str = "tasks") -> Iterator[Move]:
    """Show progress that is moved by calling what this gives with (done, in all)."""
    shown = _bar_is_shown()
    meter = Meter(name, of_what)
    # A log file hears of it in any case; standard error only where no bar is shown.
    level = logging.DEBUG if shown else logging.INFO

    def log(level: int) -> None:
        now = time.monotonic()
        LOGGER.log(level, "%s", meter.line(now), extra=about("progress", meter.fields(now)))

    with _bar(meter) if shown else nullcontext(_show_nothing) as show:

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
            # Where it ended, or stopped.
            log(level if meter.lines_said else LIVE_PROGRESS)


@contextmanager
def count_bar(name: str, of_what: str) -> Iterator[Callable[[int, int], None]]:
    """`progress_bar` of things that all weigh the same."""
    with progress_bar(name, of_what) as move:
        yield lambda done, total: move(Amount(done, done), Amount(total, total))


def _one_line(ratio: int | None = None) -> Column:
    """Return a column of the bar's table that never wraps."""
    from rich.table import Column

    return Column(no_wrap=True, ratio=ratio)


@contextmanager
def _bar(meter: Meter) -> Iterator[Move]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Said(ProgressColumn):
        """Words of the meter, which change between two tasks too."""

        max_refresh = 0.5

        def __init__(self, words: Callable[[], str]) -> None:
            self._words = words
            super().__init__(table_column=_one_line())

        def render(self, task: object) -> Text:
            return Text(self._words())

    console = Console(stderr=True)
    rate = Said(lambda: meter.rate(time.monotonic()))
    columns = (
        TextColumn("{task.description}", table_column=_one_line()),
        BarColumn(bar_width=None, table_column=_one_line(ratio=1)),  # what the words leave
        Said(meter.count),
        *((rate,) if console.width >= _WIDE else ()),
        TimeElapsedColumn(table_column=_one_line()),
        Said(lambda: meter.time_left(time.monotonic())),
    )
    with Progress(*columns, console=console, expand=True) as bars:
        bar = bars.add_task(meter.name, total=None)

        def show(done: Amount, total: Amount) -> None:
            first = bars.tasks[bar].total is None  # where an earlier run stood is seen at once
            bars.update(bar, completed=done.weight, total=total.weight, refresh=first)

        yield show


def _show_nothing(done: Amount, total: Amount) -> None:
    """Show no progress."""


def _bar_is_shown() -> bool:
    """Return whether standard error is a terminal that gets no JSON lines."""
    as_json = any(isinstance(handler.formatter, JsonLines) for handler in LOGGER.handlers)
    return sys.stderr.isatty() and not as_json
