"""Fixtures of the ledger's tests."""

from __future__ import annotations

import pytest
from ledger_examples import write_version_1

from primo_scale.ledger.ledger import Ledger


@pytest.fixture
def path(tmp_path):
    """Path of a ledger in a directory that does not exist yet."""
    return tmp_path / "state" / "ledger.sqlite"


@pytest.fixture
def ledger(path):
    """Open new ledger, which must be without problems when the test ends."""
    with Ledger(path) as ledger:
        yield ledger
        assert ledger.verify() == []


@pytest.fixture
def version_1(tmp_path):
    """Path of a ledger of format version 1."""
    path = tmp_path / "ledger.sqlite"
    write_version_1(path)
    return path
