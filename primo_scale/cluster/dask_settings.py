"""Settings of Dask that every cluster of ours has.

Dask's web pages ask for no certificate and show how many tasks there are, which tells the number
of people: a cluster of ours has none.
"""

from __future__ import annotations

NO_WEB_PAGES: dict[str, list[str]] = {
    f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")
}
"""For a process that starts schedulers and workers."""

SELDOM_INTERRUPTED = {"distributed.worker.profile.interval": "100ms"}
"""How often Dask looks where a worker is, for `--performance-report`; each look holds it up."""

WORKER_PROCESS = {
    # One thread: workers side by side already use the cores.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    # The C library keeps freed memory (up to so many bytes at the end of the heap) for the next
    # array of up to so many bytes. Dask has it hand everything back at once, and the system clears
    # the pages again for every read: a fifth of an accumulation (measured on two cores).
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_ARENA_MAX": "1",
}
"""Environment that a worker process is started in."""

WORKER_ENVIRONMENT = {
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
    "DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL": "100ms",
    **WORKER_PROCESS,
}
"""Of a worker that a queue or Kubernetes starts."""

ENCRYPTED_ENVIRONMENT = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
"""Beside it where there is TLS: nothing is said in the clear, whatever an address asks for."""

ALLOWED_FAILURES = 10
"""Workers that may go while they hold a task before it counts as deadly.

A worker that a queue or a node ends takes its tasks with it, which says nothing about the tasks.
"""
