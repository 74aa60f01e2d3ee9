"""A Dask preload: every tile takes a second, so that a run can be struck in the midst of them.

Loaded by workers alone (``DASK_DISTRIBUTED__WORKER__PRELOAD``), which is Dask's own way in.
"""

from __future__ import annotations

import time

from primo_scale.accumulation import tasks

SECONDS = 1.0


def dask_setup(worker: object) -> None:
    """Slow them down; Dask calls this when the worker starts."""
    run_tile = tasks._run_tile

    def slowly(*arguments):
        time.sleep(SECONDS)
        run_tile(*arguments)

    tasks._run_tile = slowly
