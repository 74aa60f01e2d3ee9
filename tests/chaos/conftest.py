"""Small cohort, and the results of an undisturbed run."""

import os
from pathlib import Path

import pytest
from support.chaos_runs import Cohort, Finished, Journal
from support.command_io import digest_in, simulated
from support.processes import run
from support.small_cohort import share_adjustment

import primo_scale as ps


@pytest.fixture(scope="session")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    directory = tmp_path_factory.mktemp("chaos")
    prefix = simulated(directory / "cohort", 3_000, 1, variants=600, phenotypes=2)
    ps.ingest(bfile=prefix, out=f"{prefix}.zarr")
    return Cohort(prefix, {**os.environ, "XDG_STATE_HOME": str(directory)})


@pytest.fixture(scope="session")
def undisturbed(cohort: Cohort, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    work = tmp_path_factory.mktemp("undisturbed") / "work"
    done = run(cohort.command(work, "--workers", 1), cohort.environment)
    assert done.returncode == 0, done.stderr
    share_adjustment(work, cohort.paid)
    return Finished(work, digest_in(done.stdout))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")
