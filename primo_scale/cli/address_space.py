"""Refusal of a limit of address space (``ulimit -v``) at which OpenBLAS would hang or fail."""

from __future__ import annotations

import os
import resource

from primo_scale.errors import ResourceError

LEAST_ADDRESS_SPACE = {
    **dict.fromkeys(("release", "plan", "accumulate", "finalize"), 1_740_000_000),
    "evaluate": 720_000_000,
    "forecast": 500_000_000,
}
"""Address space in bytes of commands that load SciPy, besides the threads of OpenBLAS.

Measured for `release`, `evaluate` and `forecast` with 500 people and 200 variants on 2 cores: at
less, imports hang in OpenBLAS or fail, and a release cannot start its threads. `plan`, `accumulate`
and `finalize` have the limit of `release`, which plans, sums and finalizes too.
"""
# Stacks and buffers of a thread of NumPy's OpenBLAS and of SciPy's (84 MB from one to two).
_PER_THREAD, _MOST_THREADS = 100_000_000, 64
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def refuse_small_address_space(needed: int) -> None:
    """Refuse a limit of address space below that of a command, before it loads NumPy."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or not needed:
        return
    needed += _PER_THREAD * _openblas_threads()
    if limit < needed:
        raise ResourceError(
            "the limit of this process's address space is too low to load SciPy and start threads",
            value=f"{limit // 1024} kB",
            limit=f"at least {needed // 1024} kB",
            remedy="Raise ulimit -v, or h_vmem of Grid Engine; with OPENBLAS_NUM_THREADS=1 less "
            "is needed",
        )


def _openblas_threads() -> int:
    """Return the number of threads that OpenBLAS starts: one a core, unless a variable says it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    given = (os.environ.get(name, "") for name in _THREADS)
    return min(cores, _MOST_THREADS, next((int(text) for text in given if text.isdecimal()), cores))
