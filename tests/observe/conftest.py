"""An accumulation that died, for all tests to look at."""

import pytest
from support.observed_runs import TILES, D, accumulate_and_die, committed_tiles
from support.small_cohort import Cohort, write_cohort


@pytest.fixture(scope="session")
def killed(tmp_path_factory) -> Cohort:
    cohort = Cohort(write_cohort(tmp_path_factory.mktemp("killed") / "cohort", n_variants=D))
    cohort.ingest()
    accumulate_and_die(cohort)
    assert 0 < committed_tiles(cohort) < TILES
    return cohort
