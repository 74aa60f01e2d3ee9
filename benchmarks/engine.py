"""Cost of 50,000 tasks without work: the client's processor time, and the scheduler's memory.

``python -m benchmarks.engine --tasks 50000 --workers 2`` starts a scheduler and workers in
processes of their own, streams tasks that do nothing through `primo_scale.accumulation.engine`, and
prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import click
import psutil
from distributed import Client
from distributed.deploy.subprocess import SubprocessCluster

from benchmarks.measurement import peak_bytes
from primo_scale.accumulation.engine import run_tasks
from primo_scale.accumulation.partials import Address, Partials
from primo_scale.accumulation.plan import Order, Task, TileTask


def do_nothing(address: Address, task: Task) -> None:
    """Stand in for the work of a task."""


@click.command()
@click.option("--tasks", default=50_000, show_default=True)
@click.option("--workers", default=2, show_default=True)
def main(tasks: int, workers: int) -> None:
    """Stream tasks that do nothing, and print what they cost."""
    order = Order([TileTask(number, 0, 0, 0) for number in range(tasks)])
    done: list[Task] = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        SubprocessCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            worker_class="distributed.Worker",
            worker_kwargs={"local_directory": scratch},
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        scheduler = psutil.Process(client.run_on_scheduler(os.getpid))
        before = sum(scheduler.cpu_times()[:2])
        wall, cpu = time.perf_counter(), time.process_time()
        run_tasks(client, do_nothing, Partials(Path(scratch), "id"), order, done.append)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        scheduler_cpu, peak = sum(scheduler.cpu_times()[:2]) - before, peak_bytes(scheduler.pid)
    assert len(done) == tasks
    found = {
        "tasks": tasks,
        "workers": workers,
        "load_average": os.getloadavg()[0],
        "wall_s": round(wall, 1),
        "client_cpu_ms_per_task": round(cpu / tasks * 1e3, 3),
        "scheduler_cpu_ms_per_task": round(scheduler_cpu / tasks * 1e3, 3),
        "scheduler_peak_mib": peak >> 20,
    }
    click.echo(json.dumps(found))


if __name__ == "__main__":
    main()
