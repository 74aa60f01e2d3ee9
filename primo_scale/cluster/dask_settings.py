"""Dask settings of every cluster that this package starts.

Dask's web pages require no certificate and show the number of tasks, which reveals the number of
people. They are therefore disabled.
"""

from __future__ import annotations

NO_WEB_PAGES: dict[str, list[str]] = {
    f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")
}
"""Settings of a process that starts schedulers and workers."""

SPARSE_PROFILER = {"distributed.worker.profile.interval": "100ms"}
"""Sampling interval of Dask's profiler, for `--performance-report`; each sample delays a worker."""

WORKER_PROCESS = {
    # One thread, because the worker processes together already use all cores.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    # The C library keeps freed memory up to these sizes for the next array. With Dask's defaults
    # it returns all memory at once, and the system clears the pages again for every read, which
    # takes a fifth of an accumulation (measured on two cores).
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_ARENA_MAX": "1",
}
"""Environment variables of a worker process."""

WORKER_ENVIRONMENT = {
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
    "DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL": "100ms",
    **WORKER_PROCESS,
}
"""Environment variables of a worker that a queue or Kubernetes starts."""

ENCRYPTED_ENVIRONMENT = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
"""Additional variables with TLS: connections are encrypted whatever the address states."""

ALLOWED_FAILURES = 10
"""Number of workers that may be lost while they hold a task before Dask gives up the task.

A queue or a node can end a worker at any time, for reasons that have nothing to do with its tasks.
"""
