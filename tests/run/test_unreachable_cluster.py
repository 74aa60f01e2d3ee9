"""A cluster that cannot be used is refused before the ingest, and a dry run does not ask it."""

from support.processes import free_ports
from support.small_cohort import refused, succeeded

from primo_scale.cluster import workers

BUDGET = ["--epsilon", "1", "--delta", "1e-6", "--accept-noise", "--cohort", "c"]


def test_a_scheduler_is_asked_before_the_ingest(cohort, monkeypatch) -> None:
    monkeypatch.setattr(workers, "_CONNECT_TIMEOUT_SECONDS", 2)
    (port,) = free_ports(1)
    options = "--scheduler", f"tcp://127.0.0.1:{port}"
    succeeded(cohort.release(*options, "--dry-run", budget=BUDGET))
    words = "--scheduler: no connection to a Dask scheduler"
    refused(cohort.release(*options, budget=BUDGET), 3, words)
    assert not list(cohort.folder.rglob("genotypes.zarr"))
    assert not cohort.ledger.exists()
