"""Tasks on threads of this process: how one machine computes unless worker processes are asked for.

Kernels, checksums and file reads release the interpreter's lock, so threads keep all cores busy.
Nothing is started, pickled or encrypted for them, which saves seconds at the start of a run. What
threads lack is isolation: where memory runs out, the command dies and not one of its workers.
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
"""How long the main thread waits at most before it looks for an interruption."""


def run_on_threads(
    partials: Partials, order: Order, on_done: Callable[[Task], None], *, threads: int
) -> None:
    """Compute and commit every task, `threads` at a time.

    Parameters
    ----------
    partials : Partials
        Open store of partial sums.
    order : Order
        Tasks, and which of them wait for others.
    on_done : callable
        Called in this thread after each task.
    threads : int
        Number of threads.

    Raises
    ------
    PrimoError
        A task failed, or a signal asked to stop. Tasks that run end at their next read.
    """
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise InterruptedRun("interrupted")

    waiting, awaited = deque([*order.first, *order.beside]), set(order.first)
    held_back = deque(order.after)
    running: dict[Future[None], Task] = {}
    # One BLAS thread each: tasks side by side already use the cores.
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
            stopped.set()  # the pool then waits for one read of each task at most
