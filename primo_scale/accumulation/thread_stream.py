"""Stream of tasks on threads of this process, the default on one machine.

Kernels, checksums and file reads release the interpreter lock, so that threads keep all cores busy.
Without worker processes, a run starts some seconds earlier. On the other hand, if the memory is
exhausted, the whole command is killed and not only a worker.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from threadpoolctl import threadpool_limits

from primo_scale import interruption
from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.plan import Order, Task
from primo_scale.accumulation.tasks import compute_task
from primo_scale.errors import InterruptedRun

_BETWEEN_LOOKS_SECONDS = 0.5
"""Longest time between two checks for an interruption, in seconds."""


def run_on_threads(
    partials: Partials, order: Order, on_done: Callable[[Task], None], *, threads: int
) -> None:
    """Compute and commit every task, `threads` at a time.

    `on_done` is called in this thread after each task. After an error or a signal, running tasks
    end before their next read.
    """
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise InterruptedRun("interrupted")

    waiting, awaited = deque([*order.first, *order.beside]), set(order.first)
    held_back = deque(order.after)
    running: dict[Future[None], Task] = {}
    # One BLAS thread per task, because concurrent tasks already use all cores.
    with threadpool_limits(limits=1), ThreadPoolExecutor(threads, "task") as pool:
        try:
            while waiting or held_back or running:
                if not awaited:
                    waiting.extend(held_back)
                    held_back.clear()
                while waiting and len(running) < threads:
                    task = waiting.popleft()
                    running[pool.submit(compute_task, partials, task, check)] = task
                ended, _ = wait(running, _BETWEEN_LOOKS_SECONDS, FIRST_COMPLETED)
                interruption.check()
                for future in ended:
                    task = running.pop(future)
                    future.result()
                    awaited.discard(task)
                    on_done(task)
        finally:
            stopped.set()  # the pool then waits for at most one read of each task
