"""Fixtures of the tests of paid noise."""

import pytest
from tiny_release import LAYOUT
from whole_matrices import zero_statistics


@pytest.fixture
def raw(tmp_path):
    """Exact statistics of a tiny cohort."""
    return zero_statistics(tmp_path / "raw", LAYOUT)
