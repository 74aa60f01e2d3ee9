"""A Dask preload: every worker writes down when it begins and ends to compute a task.

Loaded by workers alone (``DASK_DISTRIBUTED__WORKER__PRELOAD``), which is Dask's own way in. One
line an event, appended in one write, so that a kill leaves whole lines. While the file of the gate
is there, no task that was begun goes on: a test that strikes then strikes in the middle of tasks.
"""

from __future__ import annotations

import os
import select
import time

from primo_scale.accumulation import tasks

JOURNAL = "CHAOS_JOURNAL"
GATE = "CHAOS_GATE"


def dask_setup(worker: object) -> None:
    descriptor = os.open(os.environ[JOURNAL], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(event: str, what: str) -> None:
        line = f"{event} {os.getpid()} {time.monotonic_ns()} {what}\n"
        os.write(descriptor, line.encode())

    def noted(compute):
        def computed(partials, task, check):
            note("begin", task.key)
            while os.path.exists(os.environ[GATE]):
                # Not time.sleep, which libfaketime lets fail at the moment that a clock is set.
                select.select([], [], [], 0.01)
            compute(partials, task, check)
            note("end", task.key)

        return computed

    tasks._run_rows = noted(tasks._run_rows)
    tasks._run_tile = noted(tasks._run_tile)
    note("worker", "-")
