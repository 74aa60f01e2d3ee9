"""Fixtures of the tests of paid noise."""

import pytest
from support.stores import zero_statistics
from support.tiny_release import LAYOUT


@pytest.fixture
def raw(tmp_path):
    return zero_statistics(tmp_path / "raw", LAYOUT)
