"""Fixtures that several test folders share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from presence import missing

from primo_scale.cli.command_line import BATCH_JOB_SIGNS

# A machine that is slow, or that compiles for the first time, is no failure.
settings.register_profile(
    "untimed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

# Tests may run as a batch job themselves; the commands that they start do not.
for sign in BATCH_JOB_SIGNS:
    os.environ.pop(sign, None)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def umask_of_the_shell() -> Iterator[None]:
    """A task that is run in this process closes its umask for good, as in a worker."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def reference() -> Path:
    """Reference data and vectors: `PROVENANCE.md` there tells where they come from."""
    return ROOT / "tests" / "reference"


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
