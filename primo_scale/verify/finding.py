"""Result of one check of a release."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from primo_scale.errors import InputError

_SHOWN = 3
_LONGEST_DETAIL = 1000
_UNCOMPUTABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Finding:
    """Result of one check: whether it holds, its name, and the problems or the checked values."""

    ok: bool
    check: str
    detail: str


def finding_of(check: str, problems: Iterable[str], detail: str) -> Finding:
    """Return the result of a check: its first problems, or `detail` if there are none."""
    listed = list(problems)
    more = f"; and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    shown = "; ".join(listed[:_SHOWN]) + more
    return Finding(not listed, check, (shown or detail)[:_LONGEST_DETAIL])


def verdict(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Return the findings of a check, or a problem if a crafted number makes it fail."""
    try:
        return check()
    except _UNCOMPUTABLE as error:
        return [finding_of(name, [f"cannot be checked: {error!r}"], "")]


def refuse_problems(
    findings: Iterable[Finding], problem: str, *, where: str | Path, remedy: str
) -> None:
    """Raise an InputError with the first check that does not hold, if there is one."""
    failed = next((finding for finding in findings if not finding.ok), None)
    if failed is not None:
        raise InputError(
            f"{problem}: {failed.check}", where=where, value=failed.detail, remedy=remedy
        )
