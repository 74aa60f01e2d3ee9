"""Fileset of the ingest tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from filesets import copy_fileset


@pytest.fixture
def base(reference: Path, tmp_path: Path) -> Path:
    return copy_fileset(reference / "data/edge/plink_made/base_n43_m61", tmp_path / "base")
