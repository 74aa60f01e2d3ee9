"""What 50,000 tasks cost beside their work: the client's processor time, the scheduler's memory.

``python -m benchmarks.engine --tasks 50000 --workers 2`` starts a scheduler and workers in
processes of their own, streams tasks that do nothing through `primo_scale.accumulation.engine`, and
prints one line of JSON. Not a test: it times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from distributed import Client

from primo_scale.accumulation.engine import run_tasks
from primo_scale.accumulation.partials import Address, Partials
from primo_scale.accumulation.plan import Order, Task, TileTask

_MIB = 1 << 20
_SAMPLING_SECONDS = 0.2


def do_nothing(address: Address, task: Task) -> Task:
    """The work of a task left out."""
    return task


@dataclass(frozen=True)
class Processes:
    """A scheduler and the workers connected to it."""

    address: str
    scheduler: psutil.Process
    workers: Sequence[psutil.Process]


@contextmanager
def cluster(workers: int, scratch: Path) -> Iterator[Processes]:
    """Start ``dask scheduler`` and ``dask worker`` as a user would, and stop them after."""
    dask = [sys.executable, "-m", "dask"]
    file = scratch / "scheduler.json"
    quiet = {"cwd": scratch, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [
        subprocess.Popen(
            [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
             "--scheduler-file", str(file)], **quiet,
        )
    ]  # fmt: skip
    try:
        while not file.exists():
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        worker = [
            *dask,
            "worker",
            address,
            "--host",
            "127.0.0.1",
            "--no-dashboard",
            "--no-nanny",
            "--nthreads",
            "1",
            "--local-directory",
            str(scratch),
        ]
        started += [subprocess.Popen(worker, **quiet) for _ in range(workers)]
        seen = [psutil.Process(process.pid) for process in started]
        yield Processes(address, seen[0], seen[1:])
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def peak_memory(process: psutil.Process) -> Iterator[list[int]]:
    """Resident sizes of a process while the block runs."""
    sizes, done = [process.memory_info().rss], threading.Event()

    def watch() -> None:
        while not done.wait(_SAMPLING_SECONDS):
            sizes.append(process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield sizes
    finally:
        done.set()
        watcher.join()


def measure(n_tasks: int, n_workers: int) -> dict[str, float]:
    """Stream `n_tasks` tasks that do nothing, and say what they cost."""
    tasks = [TileTask(number, 0, 0, 0) for number in range(n_tasks)]
    done = 0

    def count(task: Task) -> None:
        nonlocal done
        done += 1

    with (
        tempfile.TemporaryDirectory() as scratch,
        cluster(n_workers, Path(scratch)) as processes,
        Client(processes.address) as client,
    ):
        client.wait_for_workers(n_workers)
        scheduler_before = sum(processes.scheduler.cpu_times()[:2])
        wall, cpu = time.perf_counter(), time.process_time()
        with peak_memory(processes.scheduler) as sizes:
            run_tasks(client, do_nothing, Partials(Path(scratch), "id"), Order(tasks), count)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        scheduler = sum(processes.scheduler.cpu_times()[:2]) - scheduler_before
    assert done == n_tasks
    return {
        "tasks": n_tasks,
        "workers": n_workers,
        "load_average": os.getloadavg()[0],
        "wall_s": round(wall, 1),
        "client_cpu_ms_per_task": round(cpu / n_tasks * 1e3, 3),
        "scheduler_cpu_ms_per_task": round(scheduler / n_tasks * 1e3, 3),
        "scheduler_peak_mib": round(max(sizes) / _MIB),
    }


def main() -> None:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.tasks, chosen.workers)))


if __name__ == "__main__":
    main()
