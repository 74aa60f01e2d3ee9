"""Fixtures of the ledger's tests."""

import pytest

from primo_scale.ledger.ledger import Ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "ledger.sqlite"


@pytest.fixture
def ledger(path):
    """Open new ledger, which must be without problems when the test ends."""
    with Ledger(path) as ledger:
        yield ledger
        assert ledger.verify() == []
