"""Settings of Dask that every cluster of ours has.

Dask's web pages ask for no certificate and show how many tasks there are, which tells the number
of people: a cluster of ours has none.
"""

from __future__ import annotations

NO_WEB_PAGES: dict[str, list[str]] = {
    f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")
}
"""For a process that starts schedulers and workers."""

KEEP_MEMORY = {
    # In bytes: what is freed at the end of the heap stays up to this, and larger arrays than that
    # are mapped each for itself.
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_ARENA_MAX": "1",
}
"""How a worker's C library allocates: arrays of one read are used again for the next.

Dask has it hand everything back at once, and the system then clears the pages again, read for read:
a quarter of the processor time of an accumulation (measured on two cores).
"""

WORKER_ENVIRONMENT = {
    **KEEP_MEMORY,
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
    # One thread: workers side by side already use the cores.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""Of a worker that a queue or Kubernetes starts."""

ENCRYPTED_ENVIRONMENT = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
"""Beside it where there is TLS: nothing is said in the clear, whatever an address asks for."""

ALLOWED_FAILURES = 10
"""Workers that may go while they hold a task before it counts as deadly.

A worker that a queue or a node ends takes its tasks with it, which says nothing about the tasks.
"""
