"""An accumulation that died, for all tests to look at."""

from __future__ import annotations

import subprocess
import sys

import pytest
from observed_runs import BLOCKS, ROOT, D, committed_tiles
from small_cohort import Cohort, write_cohort

# Records every task, and dies without a word after it has recorded the twentieth.
DIES = """
import os, sys
from primo_scale.cli import accumulate
from primo_scale.run import progress, run_log
from primo_scale.run.progress_file import ProgressFile

class Dying(ProgressFile):
    def emit(self, record):
        super().emit(record)
        if getattr(record, "fields", {}).get("done", 0) >= 20:
            os._exit(9)

progress._RECORD_GAP_SECONDS = 0
run_log.ProgressFile = Dying
accumulate.main(sys.argv[1:])
"""


@pytest.fixture(scope="session")
def killed(tmp_path_factory) -> Cohort:
    """An accumulation that was killed in the midst of its tiles."""
    cohort = Cohort(write_cohort(tmp_path_factory.mktemp("killed") / "cohort", n_variants=D))
    cohort.ingest()
    words = [*cohort.accumulation, *BLOCKS]
    assert subprocess.run([sys.executable, "-c", DIES, *words], cwd=ROOT).returncode == 9
    assert 0 < committed_tiles(cohort) < D
    return cohort
