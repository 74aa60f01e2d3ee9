"""A cluster that cannot be used is refused before the ingest, and a dry run does not ask it."""

import pytest
from distributed import LocalCluster
from support.processes import free_ports
from support.small_cohort import refused, succeeded

from primo_scale.cluster import workers

BUDGET = ["--epsilon", "1", "--delta", "1e-6", "--accept-noise", "--cohort", "c"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(workers, "_CONNECT_TIMEOUT_SECONDS", 2)


def refused_before_work(cohort, words, *options) -> None:
    refused(cohort.release(*options, budget=BUDGET), 3, words)
    assert not list(cohort.folder.rglob("genotypes.zarr"))
    assert not cohort.ledger.exists()


def test_a_scheduler_is_asked_before_the_ingest(cohort) -> None:
    (port,) = free_ports(1)
    options = "--scheduler", f"tcp://127.0.0.1:{port}"
    succeeded(cohort.release(*options, "--dry-run", budget=BUDGET))
    refused_before_work(cohort, "--scheduler: no connection to a Dask scheduler", *options)


def test_a_scheduler_needs_a_worker_before_the_ingest(cohort) -> None:
    with LocalCluster(n_workers=0, protocol="tcp://", dashboard_address=":0") as cluster:
        words = "--scheduler: the scheduler has no workers"
        refused_before_work(cohort, words, "--scheduler", cluster.scheduler_address)


def test_a_missing_command_is_refused_before_the_ingest(cohort, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(cohort.folder))
    path = cohort.folder / "c.toml"
    path.write_text('kind = "slurm"')
    words = "the submit command of SLURM is not installed (got sbatch)"
    refused_before_work(cohort, words, "--cluster", path)
