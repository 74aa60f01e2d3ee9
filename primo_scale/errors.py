"""Errors that users see: one line with the cause, the location, the value, the limit, the remedy.

A command can end only with one of these errors, and the class determines the exit code. Messages
may contain private values, because they are shown on the operator's terminal. Dask tasks remove
such values from their errors (`primo_scale.accumulation.tasks`, ``docs/privacy.md``).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

CHECK_PERMISSIONS = "Check the permissions of it and of the directories above it"
_REMEDIES: dict[int | None, str] = {
    errno.ENAMETOOLONG: "Choose a shorter path",
    errno.EACCES: CHECK_PERMISSIONS,
}
_FIELD_IN_TEXT = re.compile(r"`([a-z]\w*)`")
_OPTIONS = {"unit": "privacy", "chromosomes": "chr", "releases": "release", "others": "shared-with"}


class Field(str):
    """Name of a field of a request, for `where` of an error; in texts it stands in backticks."""

    @property
    def option(self) -> str:
        """Name of its option on the command line."""
        return f"--{_OPTIONS.get(self, self).replace('_', '-')}"


def with_options(text: str) -> str:
    """Return a text with names of options in place of those of fields in backticks."""
    return _FIELD_IN_TEXT.sub(lambda found: Field(found[1]).option, text)


class PrimoError(Exception):
    """Base class of all anticipated errors.

    Parameters
    ----------
    what
        Cause of the error, as a clause without a full stop.
    where
        Path, ``path:line`` or name of an option.
    value
        Offending value.
    limit
        Limit that `value` exceeds, or the allowed values.
    expected
        The only correct value, instead of `limit`.
    remedy
        Action of the user that resolves the error, as a sentence.
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
        line = f"{self.where}: {self.what}" if self.where is not None else self.what
        facts = [f"got {self.value}"] if self.value is not None else []
        facts += [f"limit {self.limit}"] if self.limit is not None else []
        if self.expected is not None:
            facts = [f"found {self.value}, expected {self.expected}"]
        if facts:
            line = f"{line} ({'; '.join(facts)})"
        if self.remedy:
            line = f"{line}. {self.remedy}"
        return " ".join(line.split())

    def name_options(self) -> None:
        """Name options of the command line in place of fields."""
        if isinstance(self.where, Field):
            self.where = self.where.option
        for name in ("what", "limit", "remedy"):
            if isinstance(getattr(self, name), str):
                setattr(self, name, with_options(getattr(self, name)))

    @property
    def facts(self) -> dict[str, Any]:
        """Keyword arguments of the constructor by name."""
        names = ("where", "value", "limit", "expected", "remedy")
        return {name: getattr(self, name) for name in names}

    def __reduce__(self) -> tuple[object, ...]:
        # By default, pickling would lose the keyword arguments.
        return partial(type(self), self.what, **self.facts), ()


class UsageError(PrimoError):
    """Impossible request (exit code 2)."""

    exit_code = 2


class InputError(PrimoError):
    """Malformed file, or contradiction between files (exit code 3)."""

    exit_code = 3


class DamagedChunk(InputError):
    """Stored chunk that is missing or fails its checksum (exit code 3).

    An accumulation computes damaged chunks of its checkpoint again.
    """


class ResourceError(PrimoError):
    """Too little memory or disk space (exit code 4)."""

    exit_code = 4


class InterruptedRun(PrimoError):
    """Interrupted run, which the same command continues (exit code 5)."""

    exit_code = 5


class BudgetRefused(PrimoError):
    """Release that the privacy budget does not allow (exit code 6)."""

    exit_code = 6


def anticipated(error: BaseException) -> PrimoError | None:
    """Return the error to show to the user for `error`, or None for a bug in the program."""
    if isinstance(error, PrimoError):
        return error
    if isinstance(error, MemoryError):
        return ResourceError("not enough memory", remedy="Use fewer workers or smaller LD blocks")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceError("the disk is full", where=error.filename, remedy="Free space")
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return file_too_large(error.filename)
    if isinstance(error, OSError):
        what = error.strerror or str(error)
        return InputError(what, where=error.filename, remedy=_REMEDIES.get(error.errno))
    return None


@contextmanager
def errors_explained() -> Iterator[None]:
    """Raise an error of Python or of the system as the one to show to the user, if there is one."""
    try:
        yield
    except (OSError, MemoryError) as error:
        found = anticipated(error)
        if found is None:
            raise
        raise found from error


def file_too_large(where: str | Path | None) -> ResourceError:
    """Return the error of a file that exceeds a limit of this process or its file system."""
    remedy = "Raise the limit with ulimit -f, or choose a directory on another file system"
    return ResourceError("a file is larger than it may be here", where=where, remedy=remedy)


@contextmanager
def remedy_extended(sentence: Callable[[], str], *, where: Path) -> Iterator[None]:
    """Add a sentence to the remedy of an anticipated error, and a path if the error has none.

    Interruptions are not changed, because their messages already tell how to continue. `sentence`
    is called when the error is raised, and `where` is the file or directory in use.
    """
    try:
        yield
    except (PrimoError, OSError, MemoryError) as error:
        found = anticipated(error)
        if found is None or isinstance(found, InterruptedRun):
            raise
        remedy = f"{found.remedy}. {sentence()}" if found.remedy else sentence()
        facts = {**found.facts, "where": found.where or where, "remedy": remedy}
        raise type(found)(found.what, **facts) from error
