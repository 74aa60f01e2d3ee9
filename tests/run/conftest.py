"""A small cohort for the tests of whole commands, also with its genotype store."""

import pytest
from support.small_cohort import Cohort, write_cohort


@pytest.fixture
def cohort(tmp_path) -> Cohort:
    return Cohort(write_cohort(tmp_path / "cohort"))


@pytest.fixture
def ingested(cohort) -> Cohort:
    cohort.ingest()
    return cohort
