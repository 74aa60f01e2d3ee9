"""Adaptive scaling that keeps jobs in a queue while there is work, even if jobs are lost.

Dask's own adaptive scaling counts workers, not jobs. It never replaces a job that ends before its
worker connects, a job with several processes, or a job whose submission failed. It also requests
too few workers here, because it sees only the few tasks in flight and not the remaining ones.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import pwd
import re
from pathlib import Path
from time import monotonic
from typing import Any

from distributed import Adaptive
from distributed.core import Status

from primo_scale.cluster.profile import JobQueueProfile, seconds

LOGGER = logging.getLogger("primo_scale")

_JOB_NUMBER = re.compile(r"^\s*(\d+)", re.MULTILINE)
_LARGEST_PAUSE_SECONDS = 600
# Time after which idle workers are released; the next stage may start within it.
_IDLE_SECONDS = 60
_INTERVAL_SECONDS = 2
WAITING = {"event": "waiting"}
"""Argument ``extra`` of a logging call whose line is shown until the run makes progress."""


class JobKeeper(Adaptive):  # type: ignore[misc]  # distributed is not typed
    """Adaptive scaling of a `dask_jobqueue.JobQueueCluster` that tracks jobs instead of workers."""

    def __init__(
        self, cluster: Any, *, profile: JobQueueProfile, logs: Path, minimum: int, maximum: int
    ) -> None:
        self._listing = (*profile.job_queue.listing, user_name())
        self._poll_seconds = poll_seconds = seconds(profile.jobs.poll)
        self._processes = profile.jobs.cores
        self._logs = logs
        self._next_listing = monotonic() + poll_seconds
        self._proved: set[str] = set()  # jobs whose worker connected
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
        """Return the maximum while more tasks than threads are waiting, else the busy workers."""
        scheduler = self.cluster.scheduler
        unfinished = len(scheduler.queued) + len(scheduler.unrunnable)
        unfinished += sum(len(worker.processing) for worker in scheduler.workers.values())
        # The client keeps several tasks in flight for each worker until no tasks are left.
        if unfinished > scheduler.total_nthreads:
            return int(self.maximum)
        return min(unfinished, len(self.plan))

    async def scale_up(self, n: int) -> None:
        """Submit jobs and raise on a refusal, which Dask's own method leaves to the event loop."""
        await submit_jobs(self.cluster, -(-n // self._processes))

    async def workers_to_close(self, target: int) -> list[str]:
        """Return the workers of completely idle jobs, at most as many as exceed `target`."""
        by_job: dict[str, list[Any]] = {}
        for worker in self.cluster.scheduler.workers.values():
            by_job.setdefault(self._job_of(str(worker.name)), []).append(worker)
        idle = [ws for ws in by_job.values() if not any(worker.processing for worker in ws)]
        surplus = max(0, len(self.plan) - target) // self._processes
        return [str(worker.name) for ws in idle[:surplus] for worker in ws]

    async def adapt(self) -> None:
        """Remove lost jobs, then submit or end jobs; pause if the queue refuses a job."""
        self._note_arrivals()
        if monotonic() < self._resume_at:
            return
        try:
            await self._forget_lost_jobs()
            await super().adapt()
        except (RuntimeError, OSError) as error:  # raised by dask-jobqueue for a failed command
            forget_unsubmitted(self.cluster)
            self._wait_longer()
            LOGGER.warning(
                "the queue does not take a job (%s); the next try is in %d s",
                last_line(error), self._pause, extra=WAITING,
            )  # fmt: skip

    def _note_arrivals(self) -> None:
        workers = self.cluster.scheduler.workers.values()
        arrived = {self._job_of(str(worker.name)) for worker in workers}
        numbers = {job.job_id for name, job in self.cluster.workers.items() if name in arrived}
        if numbers - self._proved:
            self._proved |= numbers
            self._pause = 0.0

    async def _forget_lost_jobs(self) -> None:
        """Remove the jobs that the queue no longer lists, so that new jobs replace them."""
        if monotonic() < self._next_listing:
            return
        known = {
            name: job.job_id for name, job in self.cluster.workers.items() if job.job_id is not None
        }
        there = await self._jobs_in_queue()
        self._next_listing = monotonic() + self._poll_seconds
        if there is None:
            return
        lost = {name: number for name, number in known.items() if number not in there}
        _forget(self.cluster, set(lost))
        useless = set(lost.values()) - self._proved
        if useless:
            # Possibly every job of this profile fails at once; a pause limits the submissions.
            self._wait_longer()
            LOGGER.warning(
                "jobs ended before their worker came: %d; %s. The next try is in %d s",
                len(useless), output_of(useless, self._logs), self._pause, extra=WAITING,
            )  # fmt: skip

    async def _jobs_in_queue(self) -> set[str] | None:
        """Return the numbers of the user's jobs, or None if the queue does not answer."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._listing, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
        except OSError:
            return None
        output, _ = await process.communicate()
        return set(_JOB_NUMBER.findall(output.decode())) if process.returncode == 0 else None

    def _wait_longer(self) -> None:
        self._pause = min(max(float(self._poll_seconds), 2 * self._pause), _LARGEST_PAUSE_SECONDS)
        self._resume_at = monotonic() + self._pause

    def _job_of(self, worker: str) -> str:
        """Return the name of a worker's job; with several processes a number is appended to it."""
        return worker if self._processes == 1 else worker.rpartition("-")[0]


async def submit_jobs(cluster: Any, jobs: int) -> None:
    """Submit jobs until the queue has at least `jobs` of them.

    A RuntimeError or an OSError is raised if the submit command failed or does not exist.
    """
    while len(cluster.worker_spec) < jobs:
        cluster.worker_spec.update(cluster.new_worker_spec())
    await cluster


def output_of(jobs: set[str], logs: Path) -> str:
    """Return where the output of ended jobs is, or that there is none."""
    if any(jobs.intersection(re.findall(r"\d+", path.name)) for path in logs.glob("*")):
        return f"see {logs}"
    return f"they wrote nothing to {logs}, which the nodes may not see"


def user_name() -> str:
    """Return the name of the user that submits jobs, whatever ``LOGNAME`` says, as after su."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # in a container without an entry for the user
        return getpass.getuser()


def forget_unsubmitted(cluster: Any) -> None:
    """Remove the jobs that the queue did not accept from Dask's records, so that it retries."""
    _forget(cluster, {name for name, job in cluster.workers.items() if job.job_id is None})


def _forget(cluster: Any, names: set[str]) -> None:
    for name in names & cluster.workers.keys():
        # Closing the cluster requires this status of every job.
        cluster.workers.pop(name).status = Status.closed


def last_line(error: BaseException) -> str:
    """Return the last line of the message of a failed submit command."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
