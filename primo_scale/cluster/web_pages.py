"""Dask's web pages, which a cluster of ours does not have.

They ask for no certificate and show how many tasks there are, which tells the number of people.
"""

from __future__ import annotations

NO_WEB_PAGES: dict[str, list[str]] = {
    f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")
}
"""Settings of Dask for a process that starts schedulers and workers."""

WORKER_ENVIRONMENT = {
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
    # One thread for each task: tasks side by side already use the cores.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""The same for a worker that a queue or Kubernetes starts, and one thread for each task."""
