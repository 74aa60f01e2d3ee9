"""Cases of a test that the quick tier leaves to the slow one."""

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], *, every: int) -> list[Any]:
    """Return the cases; all but every `every`-th of them are marked slow."""
    return [case if number % every == 0 else _slow(case) for number, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    if hasattr(case, "values") and hasattr(case, "id"):  # what pytest.param gives
        return pytest.param(*case.values, id=case.id, marks=pytest.mark.slow)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
