"""Fixtures of the ledger's tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def path(tmp_path):
    """Path of a ledger in a directory that does not exist yet."""
    return tmp_path / "state" / "ledger.sqlite"
