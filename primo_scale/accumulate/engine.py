"""A bounded stream of tasks through a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distributed import CancelledError, Client, KilledWorker, as_completed
from distributed.comm import CommClosedError

from primo_scale.accumulate.partials import Address, Partials
from primo_scale.accumulate.plan import Task
from primo_scale.errors import InterruptedRun, ResourceError

# Enough to hide a task's round trip to the scheduler; few enough that no graph ever grows large.
_IN_FLIGHT_PER_WORKER = 8
_RETRIES = 3


def run_tasks(
    client: Client,
    function: Callable[[Address, Task], Task],
    partials: Partials,
    tasks: Sequence[Task],
    on_done: Callable[[Task], None],
) -> None:
    """Run `function(address, task)` for every task, a bounded number at a time.

    Parameters
    ----------
    client
        A connected client.
    function
        Importable on the workers; commits its result itself and returns its task.
    partials
        The store of partial sums, at a path that the workers see.
    tasks
        In the order to start them.
    on_done
        Called in this process after each task.

    Raises
    ------
    ResourceError
        Workers died again and again over one task.
    InterruptedRun
        The scheduler went away; what was committed stays.
    """
    waiting = iter(tasks)
    stream = as_completed()
    in_flight = 0

    def start_next() -> bool:
        nonlocal in_flight
        task = next(waiting, None)
        if task is None:
            return False
        key = f"{task.key}-{partials.store_id}"
        stream.add(client.submit(function, partials.address, task, key=key, retries=_RETRIES))
        in_flight += 1
        return True

    def fill() -> None:
        # Workers come and go: the depth is that of the workers there are now.
        while in_flight < _IN_FLIGHT_PER_WORKER * max(1, len(client.nthreads())):
            if not start_next():
                return

    fill()
    for future in stream:
        try:
            task = future.result()
        except (CancelledError, CommClosedError) as error:
            raise InterruptedRun(
                "the Dask scheduler went away",
                remedy="Start it again and run the same command, which continues",
            ) from error
        except KilledWorker as error:
            raise ResourceError(
                "workers died repeatedly while running one task, most likely for lack of memory",
                value=future.key,
                remedy="Use fewer --workers or a larger --memory-limit; the same command continues",
            ) from error
        in_flight -= 1
        on_done(task)
        fill()
