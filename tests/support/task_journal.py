"""Dask preload: every worker records when it starts and ends a task, one write for each event.

While the gate file exists, started tasks wait, so that a test can kill them in their middle.
"""

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
                # time.sleep fails under libfaketime at the moment when a clock is set.
                select.select([], [], [], 0.01)
            compute(partials, task, check)
            note("end", task.key)

        return computed

    tasks.compute_task = noted(tasks.compute_task)
    note("worker", "-")
