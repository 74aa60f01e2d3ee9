"""Exit codes of a command whose output cannot be written in the middle of its operation."""

import os
import subprocess
from pathlib import Path

import pytest
from support.processes import command_of
from support.small_cohort import BUDGET, Cohort, write_cohort

FULL = Path("/dev/full")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Provide the words of an accumulation, which prints its digest before it ends."""
    cohort = Cohort(write_cohort(tmp_path / "c"))
    cohort.ingest()
    return command_of("accumulate", [*cohort.accumulation, *map(str, BUDGET)])


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_a_full_disk_is_named_and_keeps_the_exit_code(words: list[str]) -> None:
    with FULL.open("w") as full:
        told = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        untold = subprocess.run(words, stdout=full, stderr=full, check=False)
    assert (told.returncode, untold.returncode) == (4, 4)
    assert told.stderr.splitlines()[-1].startswith("error: standard output: cannot be written: No")


def test_a_reader_that_has_left_is_no_failure(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 141
    assert "error" not in done.stderr.lower()
