"""An accumulation that died, for all tests to look at."""

from __future__ import annotations

import pytest
from observed_runs import Cohort, D, kill_all, wait_until, write_cohort


@pytest.fixture(scope="session")
def killed(tmp_path_factory) -> Cohort:
    """An accumulation that was killed with kill -9, workers and all, in the midst of its tiles."""
    cohort = write_cohort(tmp_path_factory.mktemp("killed"))
    cohort.run("ingest")
    process = cohort.start("accumulate")
    wait_until(lambda: len(cohort.chunks("gram/*/c/0/0/0")) >= 20, process)
    kill_all(process)
    assert len(cohort.chunks("gram/*/c/0/0/0")) < D, "nothing is left to be done"
    return cohort
