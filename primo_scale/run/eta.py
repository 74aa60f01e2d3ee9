"""How fast a run goes and how long it will take: arithmetic on what is reported, with no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from primo_scale.accumulation.task_weights import Amount

WINDOW_SECONDS = 600.0
"""What a rate is taken over: workers come and go, and what was hours ago says little."""

# A window with fewer reports than this is widened: tasks may take minutes each.
_FEWEST_REPORTS = 10
# No time left is told before so many reports, or this share of what there was to do: the first
# task of a run is over long after workers began on it and on others.
_TELLING_SHARE = 0.1
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


class Pace:
    """Rate of a run over the last minutes; what was there before it started counts for nothing.

    Parameters
    ----------
    window
        Seconds to look back.
    """

    def __init__(self, window: float = WINDOW_SECONDS) -> None:
        self._window = window
        self._reports: deque[tuple[float, Amount]] = deque()
        self._at_start = Amount(0, 0)
        self._n_reports = 0

    def note(self, now: float, done: Amount) -> None:
        """Take down that `done` is done at the time `now`, in seconds of any clock."""
        if self._reports and done.weight < self._reports[-1][1].weight:
            self._reports.clear()  # something was damaged, and is being done again
        if not self._reports:
            self._at_start, self._n_reports = done, 0
        self._reports.append((now, done))
        self._n_reports += 1
        while len(self._reports) > _FEWEST_REPORTS and self._reports[1][0] <= now - self._window:
            self._reports.popleft()

    def tasks_per_second(self, now: float) -> float:
        """Rate in tasks, for people to read."""
        return self._since(now, lambda amount: amount.tasks)

    def weight_per_second(self, now: float) -> float:
        """Rate in work, which is what the time left depends on."""
        return self._since(now, lambda amount: amount.weight)

    def seconds_left(self, now: float, whole: Amount) -> float | None:
        """Time until the `whole` is done at the present rate; None: it is too early to tell."""
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


def duration(seconds: float) -> str:
    """A time as people say it: ``45 s``, ``12 min``, ``3 h 20 min``, ``2 d 4 h``."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        hours, rest = divmod(round(seconds / _MINUTE), 60)
        return f"{hours} h {rest} min"
    days, rest = divmod(round(seconds / _HOUR), 24)
    return f"{days} d {rest} h"
