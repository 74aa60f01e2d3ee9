"""Fixtures that several test folders share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
IN_CI = os.environ.get("CI") == "true"


def missing(what: str) -> None:
    """Skip for a user, fail in CI: an oracle that is not there must not pass silently there."""
    if IN_CI:
        pytest.fail(f"{what} is missing, and CI must have it")
    pytest.skip(f"{what} is not on this machine")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference data and vectors beside the project's checkout."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        missing("the reference data (../shared)")
    return path


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        missing(name)
    return str(found)


@pytest.fixture(scope="session")
def plink2() -> str:
    return _program("plink2")


@pytest.fixture(scope="session")
def plink19() -> str:
    return _program("plink1.9")
