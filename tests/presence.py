"""Programs that tests need: tests without them are skipped, and fail in CI."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
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
