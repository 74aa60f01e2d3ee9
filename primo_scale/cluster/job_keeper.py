"""Keeping jobs in a queue for as long as there is work, whatever happens to them there.

Dask's own adaptive scaling sees workers, not jobs. It never replaces a job that ends before its
worker arrives, nor one of several processes, nor one whose submission failed; and it asks for few
workers here, since it sees the few tasks in flight and not those still to come.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import re
from pathlib import Path
from time import monotonic
from typing import Any

from distributed import Adaptive
from distributed.core import Status

LOGGER = logging.getLogger("primo_scale")

# One line a job of the user's, its number first.
_LISTINGS = {
    "slurm": ("squeue", "--noheader", "--format=%i", "--user"),
    "pbs": ("qselect", "-u"),
    "lsf": ("bjobs", "-noheader", "-o", "jobid", "-u"),
    "sge": ("qstat", "-u"),
}
_JOB_NUMBER = re.compile(r"^\s*(\d+)", re.MULTILINE)
_LARGEST_PAUSE_SECONDS = 600
# Workers without work are given back after so long: the next stage may be about to start.
_IDLE_SECONDS = 60
_INTERVAL_SECONDS = 2


class JobKeeper(Adaptive):  # type: ignore[misc]  # distributed is not typed
    """Adaptive scaling that looks after jobs.

    Parameters
    ----------
    cluster
        A running cluster of dask-jobqueue.
    kind
        Which queue.
    poll_seconds
        How often it may be asked for its jobs.
    processes
        Worker processes of a job.
    logs
        Where jobs print to, for a warning that says so.
    minimum, maximum
        Workers.
    """

    def __init__(
        self,
        cluster: Any,
        *,
        kind: str,
        poll_seconds: int,
        processes: int,
        logs: Path,
        minimum: int,
        maximum: int,
    ) -> None:
        self._listing = (*_LISTINGS[kind], getpass.getuser())
        self._poll_seconds = poll_seconds
        self._processes = processes
        self._logs = logs
        self._next_listing = monotonic() + poll_seconds
        self._proved: set[str] = set()  # jobs whose worker came
        self._pause = 0.0
        self._resume_at = 0.0
        super().__init__(
            cluster,
            interval=f"{_INTERVAL_SECONDS}s",
            minimum=minimum,
            maximum=maximum,
            wait_count=_IDLE_SECONDS // _INTERVAL_SECONDS,
        )

    async def target(self) -> int:
        """All workers that are allowed while they have work to wait for; else as many as have."""
        scheduler = self.cluster.scheduler
        unfinished = len(scheduler.queued) + len(scheduler.unrunnable)
        unfinished += sum(len(worker.processing) for worker in scheduler.workers.values())
        # The client keeps several tasks in flight for each worker until it has no more to give.
        if unfinished > scheduler.total_nthreads:
            return int(self.maximum)
        return min(unfinished, len(self.plan))

    async def scale_up(self, n: int) -> None:
        """Submit jobs, and learn of a refusal, which Dask's own leaves to the event loop."""
        await submit_jobs(self.cluster, -(-n // self._processes))

    async def workers_to_close(self, target: int) -> list[str]:
        """Workers of jobs that are idle altogether, as many as there are above `target`."""
        by_job: dict[str, list[Any]] = {}
        for worker in self.cluster.scheduler.workers.values():
            by_job.setdefault(self._job_of(str(worker.name)), []).append(worker)
        idle = [ws for ws in by_job.values() if not any(worker.processing for worker in ws)]
        surplus = max(0, len(self.plan) - target) // self._processes
        return [str(worker.name) for ws in idle[:surplus] for worker in ws]

    async def adapt(self) -> None:
        """Forget jobs that are gone, then submit or end some; pause where the queue refuses."""
        self._note_arrivals()
        if monotonic() < self._resume_at:
            return
        try:
            await self._forget_lost_jobs()
            await super().adapt()
        except (RuntimeError, OSError) as error:  # dask-jobqueue's word for a failed command
            forget_unsubmitted(self.cluster)
            self._wait_longer()
            LOGGER.warning(
                "the queue does not take a job (%s); the next try is in %d s",
                last_line(error), self._pause,
            )  # fmt: skip

    def _note_arrivals(self) -> None:
        workers = self.cluster.scheduler.workers.values()
        arrived = {self._job_of(str(worker.name)) for worker in workers}
        numbers = {job.job_id for name, job in self._jobs().items() if name in arrived}
        if numbers - self._proved:
            self._proved |= numbers
            self._pause = 0.0

    async def _forget_lost_jobs(self) -> None:
        """Notice jobs that the queue no longer has, so that others take their places."""
        if monotonic() < self._next_listing:
            return
        known = {name: job.job_id for name, job in self._jobs().items() if job.job_id is not None}
        there = await self._jobs_in_queue()
        self._next_listing = monotonic() + self._poll_seconds
        if there is None:
            return
        lost = {name: number for name, number in known.items() if number not in there}
        _forget(self.cluster, set(lost))
        useless = set(lost.values()) - self._proved
        if useless:
            # Perhaps every job of this profile ends at once: do not fill the queue's records.
            self._wait_longer()
            LOGGER.warning(
                "jobs ended before their worker came: %d; see %s. The next try is in %d s",
                len(useless), self._logs, self._pause,
            )  # fmt: skip

    async def _jobs_in_queue(self) -> set[str] | None:
        """Numbers of the user's jobs; None: the queue does not answer just now."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._listing,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError:
            return None
        output, _ = await process.communicate()
        return set(_JOB_NUMBER.findall(output.decode())) if process.returncode == 0 else None

    def _jobs(self) -> dict[str, Any]:
        jobs: dict[str, Any] = self.cluster.workers
        return jobs

    def _wait_longer(self) -> None:
        self._pause = min(max(float(self._poll_seconds), 2 * self._pause), _LARGEST_PAUSE_SECONDS)
        self._resume_at = monotonic() + self._pause

    def _job_of(self, worker: str) -> str:
        """Name of a worker's job: several processes of one job have a number more."""
        return worker if self._processes == 1 else worker.rpartition("-")[0]


async def submit_jobs(cluster: Any, jobs: int) -> None:
    """Have at least so many jobs in the queue.

    Raises
    ------
    RuntimeError
        The submit command failed.
    OSError
        There is none.
    """
    while len(cluster.worker_spec) < jobs:
        cluster.worker_spec.update(cluster.new_worker_spec())
    await cluster


def forget_unsubmitted(cluster: Any) -> None:
    """Let Dask see which jobs the queue did not take, so that it tries again."""
    _forget(cluster, {name for name, job in cluster.workers.items() if job.job_id is None})


def _forget(cluster: Any, names: set[str]) -> None:
    for name in names & cluster.workers.keys():
        # Closing a cluster insists on it for every job that there ever was.
        cluster.workers.pop(name).status = Status.closed


def last_line(error: BaseException) -> str:
    """The end of what a failed submit command said."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
