"""What a failed task may say: kind of error, path, place in the code; never a value.

An exception of a worker is logged there, pickled to the scheduler with its causes, and logged by
whoever looks. Zarr's own error on a damaged chunk quotes both checksums, one of them of private
integers; others quote shapes or values. So a task raises a new exception in place of what failed.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import Self

from primo_scale.errors import PrimoError, anticipated

_PACKAGE = Path(__file__).parents[1]


class Contained:
    """A block whose failure is kept here, as `failure`, rid of everything that may not travel.

    Raise it after the block, not inside an ``except``: an exception drags along those that were
    being handled when it was raised.

    Attributes
    ----------
    failure
        None if the block came to its end.
    """

    failure: PrimoError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):  # nothing, or this process is being stopped
            return False
        self.failure = _what_may_travel(error)
        return True


def _what_may_travel(error: Exception) -> PrimoError:
    found = anticipated(error)
    free_text = isinstance(error, OSError) and error.strerror is None
    if found is not None and not free_text:
        return type(found)(found.what, where=found.where, remedy=found.remedy)
    return PrimoError(
        f"a task failed: {type(error).__name__}",
        where=_place_in_the_code(error),
        remedy="Please report this line",
    )


def _place_in_the_code(error: Exception) -> str:
    """``path:line`` of the innermost line of this package that the error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents]
    innermost = (ours or frames)[-1]
    return f"{Path(innermost.filename).name}:{innermost.lineno}"
