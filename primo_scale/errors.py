"""Errors that users see: one line saying what, where, the value, the limit and the remedy.

Every error a command can end with is one of these classes, and the class is the exit code.
Messages may hold private values (they go to the operator's terminal), so they are never raised
inside a Dask task with values of people in them: see ``docs/privacy.md``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class PrimoError(Exception):
    """Base of all anticipated failures.

    Parameters
    ----------
    what
        What is wrong, as a clause without a final stop.
    where
        A path, ``path:line`` or the name of an option.
    value, limit
        The offending value and the limit it broke, where there is one.
    expected
        What should stand in place of `value`, where only one thing is right: in place of `limit`.
    remedy
        What the user can do about it, as a sentence.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: str | Path | None = None,
        value: object = None,
        limit: object = None,
        expected: object = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.value = value
        self.limit = limit
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where is not None else self.what
        facts = self._in_brackets()
        line = f"{head} ({facts})" if facts else head
        if self.remedy:
            line = f"{line}. {self.remedy}"
        return " ".join(line.split())

    @property
    def facts(self) -> dict[str, object]:
        """The keyword arguments of the constructor, by name."""
        return {name: getattr(self, name) for name in _FACTS}

    def __reduce__(self) -> tuple[object, ...]:
        # The default pickles args alone and would drop the keyword fields between processes.
        return _rebuild, (type(self), self.what, self.facts)

    def _in_brackets(self) -> str:
        if self.expected is not None:
            return f"found {self.value}, expected {self.expected}"
        facts = [f"got {self.value}"] if self.value is not None else []
        if self.limit is not None:
            facts.append(f"limit {self.limit}")
        return "; ".join(facts)


_FACTS = ("where", "value", "limit", "expected", "remedy")


def _rebuild(kind: type[PrimoError], what: str, facts: dict[str, Any]) -> PrimoError:
    return kind(what, **facts)


class UsageError(PrimoError):
    """The command line asks for something impossible (exit 2)."""

    exit_code = 2


class InputError(PrimoError):
    """A file is malformed, or files contradict each other (exit 3)."""

    exit_code = 3


class DamagedChunk(InputError):
    """A stored chunk is missing or fails its checksum; a checkpoint computes it again (exit 3)."""


class ResourceError(PrimoError):
    """Not enough memory or disk for what was asked (exit 4)."""

    exit_code = 4


class InterruptedRun(PrimoError):
    """Stopped before the end; the same command continues (exit 5)."""

    exit_code = 5


class BudgetRefused(PrimoError):
    """The privacy budget does not allow this release (exit 6)."""

    exit_code = 6


def anticipated(error: BaseException) -> PrimoError | None:
    """The line that a user should see for `error`, or None for an error of the program."""
    if isinstance(error, PrimoError):
        return error
    if isinstance(error, MemoryError):
        return ResourceError("not enough memory", remedy="Use fewer workers or smaller LD blocks")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceError("the disk is full", where=error.filename, remedy="Free space")
    if isinstance(error, OSError):
        return InputError(error.strerror or str(error), where=error.filename)
    return None


@contextmanager
def remedy_extended(sentence: Callable[[], str], *, where: Path) -> Iterator[None]:
    """Add a sentence to the remedy of an anticipated error, and a place where it names none.

    An interruption passes as it is: its message says how to continue.

    Parameters
    ----------
    sentence
        Function that returns the sentence, called when the error arises.
    where
        File or directory that was being worked on.
    """
    try:
        yield
    except (PrimoError, OSError, MemoryError) as error:
        found = anticipated(error)
        if found is None or isinstance(found, InterruptedRun):
            raise
        remedy = f"{found.remedy}. {sentence()}" if found.remedy else sentence()
        raise type(found)(
            found.what,
            where=found.where or where,
            value=found.value,
            limit=found.limit,
            expected=found.expected,
            remedy=remedy,
        ) from error
