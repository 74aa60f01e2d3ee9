"""Programs that tests need: tests without them are skipped, and fail in CI."""

import os

import pytest

IN_CI = os.environ.get("CI") == "true"


def missing(what: str) -> None:
    """Skip the test, or fail it in CI, where no oracle may be absent."""
    if IN_CI:
        pytest.fail(f"{what} is missing, and CI must have it")
    pytest.skip(f"{what} is not on this machine")
