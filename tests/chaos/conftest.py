"""Small cohort, and the results of an undisturbed run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_io import PANEL, digest_in, table_options
from commands import Journal
from processes import command_of, run

import primo_scale as ps
from primo_scale.simulation.cohort import SimulatedCohort, simulate


@dataclass(frozen=True)
class Cohort:
    """Cohort that is ready to be accumulated."""

    prefix: Path
    environment: dict[str, str]

    def command(self, work: Path, *options: object) -> list[str]:
        """Return the command that accumulates the cohort in a few tasks, with clipped rows."""
        return command_of("accumulate", [
            "--genotypes", f"{self.prefix}.zarr", *table_options(self.prefix),
            "--ref-freq", f"{PANEL}.afreq", "--row-norm", 24, "--work-dir", work, *options,
        ])  # fmt: skip


@pytest.fixture(scope="session")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    directory = tmp_path_factory.mktemp("chaos")
    prefix = directory / "cohort"
    simulate(SimulatedCohort(str(PANEL), str(prefix), 3_000, 1, variants=600, phenotypes=2))
    ps.ingest(ps.GenotypeFiles(prefix), f"{prefix}.zarr")
    return Cohort(prefix, {**os.environ, "XDG_STATE_HOME": str(directory)})


@dataclass(frozen=True)
class Finished:
    """Undisturbed run."""

    work: Path
    digest: str


@pytest.fixture(scope="session")
def undisturbed(cohort: Cohort, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    work = tmp_path_factory.mktemp("undisturbed") / "work"
    done = run(cohort.command(work, "--workers", 1), cohort.environment)
    assert done.returncode == 0, done.stderr
    return Finished(work, digest_in(done.stdout))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")
