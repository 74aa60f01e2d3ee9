"""What a test needs from the machine, and what happens where it is not there."""

from __future__ import annotations

import os

import pytest

IN_CI = os.environ.get("CI") == "true"


def missing(what: str) -> None:
    """Skip for a user, fail in CI: an oracle that is not there must not pass silently there."""
    if IN_CI:
        pytest.fail(f"{what} is missing, and CI must have it")
    pytest.skip(f"{what} is not on this machine")
