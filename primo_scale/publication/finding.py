"""Result of one check of a release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from primo_scale.errors import InputError

_SHOWN = 3
_LONGEST_DETAIL = 1000


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    ok: bool  # whether the check holds
    check: str  # its name
    detail: str  # problems, or the checked values
    note: bool = False  # whether the detail states what was not checked, although nothing is wrong


def finding_of(check: str, problems: Sequence[str], detail: str) -> Finding:
    """Return the result of a check: its first problems, or `detail` if there are none."""
    text = some_of(problems) or detail
    return Finding(not problems, check, text[:_LONGEST_DETAIL])


def some_of(problems: Sequence[str]) -> str:
    """Return the first problems in one line, and the number of the others."""
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more


def refuse_problems(
    findings: Iterable[Finding], problem: str, *, where: str | Path, remedy: str
) -> None:
    """Raise an InputError with the first check that does not hold, if there is one."""
    failed = next((finding for finding in findings if not finding.ok), None)
    if failed is not None:
        raise InputError(
            f"{problem}: {failed.check}", where=where, value=failed.detail, remedy=remedy
        )
