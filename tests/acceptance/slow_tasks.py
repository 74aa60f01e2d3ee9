"""Dask preload: every tile task takes a second, so that a run can be killed during tasks.

Only workers load it (``DASK_DISTRIBUTED__WORKER__PRELOAD``).
"""

from __future__ import annotations

import time

from primo_scale.accumulation import tasks

SECONDS = 1.0


def dask_setup(worker: object) -> None:
    """Slow down the tile tasks; Dask calls this when the worker starts."""
    run_tile = tasks._run_tile

    def slowly(*arguments):
        time.sleep(SECONDS)
        run_tile(*arguments)

    tasks._run_tile = slowly
