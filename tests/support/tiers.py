"""Tests that do not run everywhere: where a program is missing, and in the quick tier."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
IN_CI = os.environ.get("CI") == "true"


def missing(what: str) -> None:
    """Skip the test, or fail it in CI, where no oracle may be absent."""
    if IN_CI:
        pytest.fail(f"{what} is missing, and CI must have it")
    pytest.skip(f"{what} is not on this machine")


def installed(environment: str, program: str) -> Path:
    """Return the path of a program in an environment of ``make other-environments``."""
    path = ROOT / f".venv-{environment}" / "bin" / program
    if not path.exists():
        missing(f"{program} in .venv-{environment} (make other-environments)")
    return path


def thinned(cases: Iterable[Any], *, every: int) -> list[Any]:
    """Return the cases; all but every `every`-th of them are marked slow."""
    return [case if number % every == 0 else _slow(case) for number, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    if hasattr(case, "values") and hasattr(case, "id"):  # what pytest.param gives
        return pytest.param(*case.values, id=case.id, marks=pytest.mark.slow)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
