"""Errors of failed tasks, reduced to kind of error, path and code location, without any value.

An exception of a worker is logged there, pickled to the scheduler with its causes, and logged by
every process that receives it. Zarr's error for a damaged chunk contains both checksums, one of
them of private integers; other errors contain shapes or values. A task therefore raises a new
exception in place of the original.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Self

from primo_scale.errors import PrimoError, anticipated

_PACKAGE = Path(__file__).parents[1]


class Contained:
    """Context manager that stores an exception of its block as `failure`, without private details.

    Raise the stored exception after the block, not inside an ``except`` clause, because a raised
    exception carries the exceptions that are being handled at that time.
    """

    failure: PrimoError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, Exception):  # no exception, or the process is being stopped
            return False
        self.failure = _without_values(error)
        return True


def _without_values(error: Exception) -> PrimoError:
    found = anticipated(error)
    free_text = isinstance(error, OSError) and error.strerror is None
    if found is not None and not free_text:
        return type(found)(found.what, where=found.where, remedy=found.remedy)
    return PrimoError(
        f"a task failed: {type(error).__name__}",
        where=_code_location(error),
        remedy="Please report this line",
    )


def _code_location(error: Exception) -> str:
    """Return ``file:line`` of the innermost frame of this package in the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents]
    innermost = (ours or frames)[-1]
    return f"{Path(innermost.filename).name}:{innermost.lineno}"
