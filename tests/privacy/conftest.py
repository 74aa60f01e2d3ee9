"""Fixtures of the tests of paid noise."""

from __future__ import annotations

import pytest
from tiny_release import raw_statistics


@pytest.fixture
def raw(tmp_path):
    """Exact statistics of a tiny cohort."""
    return raw_statistics(tmp_path / "raw")
