"""Workers that a command starts: processes of this machine, or jobs of a queue.

The scheduler runs in the process of the command. For SLURM, PBS, LSF and SGE, dask-jobqueue writes
the job scripts and submits them. `JobKeeper` keeps jobs in the queue while there is work, in place
of Dask's adaptive scaling, which counts workers: it never replaces a job that ends before its
worker connects, a job with several processes, or a job whose submission failed.

Dask's web pages require no certificate and show the number of tasks, which reveals the number of
people. They are therefore disabled.
"""

from __future__ import annotations

import asyncio
import gc
import getpass
import logging
import os
import pkgutil
import pwd
import re
import shutil
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import dask
from distributed import Client, LocalCluster
from distributed.core import Status
from distributed.deploy import Cluster

from primo_scale.cluster import job_queues
from primo_scale.cluster import security as tls_settings
from primo_scale.cluster.job_queues import JobQueueProfile
from primo_scale.cluster.security import make_certificates, security_of
from primo_scale.errors import InputError, ResourceError
from primo_scale.interruption import check
from primo_scale.machine import usable_cpus
from primo_scale.storage.files import make_private_directory

LOGGER = logging.getLogger("primo_scale")

# Number of attempts to start a cluster if a worker dies during the start.
_TRIALS = 3
_LOOK_SECONDS = 2.0
NO_WEB_PAGES: dict[str, list[str]] = {
    f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")
}
WORKER_PROCESS = {
    # One thread, because the worker processes together already use all cores.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    # The C library keeps freed memory up to these sizes for the next array. With Dask's defaults
    # it returns all memory at once, and the system clears the pages again for every read, which
    # takes a fifth of an accumulation (measured on two cores).
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_ARENA_MAX": "1",
}
"""Environment variables of a worker process."""
_LOCAL_SETTINGS = {
    **NO_WEB_PAGES,
    # Each sample of Dask's profiler delays a worker.
    "distributed.worker.profile.interval": "100ms",
    "distributed.nanny.pre-spawn-environ": WORKER_PROCESS,
    "distributed.scheduler.allowed-failures": 10,
    # Dask would restart a worker without a heartbeat for minutes, and all workers after a clock
    # change. On this machine the end of a process is detected at once without heartbeats.
    "distributed.scheduler.worker-ttl": None,
}


@contextmanager
def local_cluster(profile: job_queues.LocalProfile, scratch: Path) -> Iterator[LocalCluster]:
    """Start worker processes, and keep their number constant.

    Dask gives up a cluster if a worker is killed during the start. Such a cluster is started again,
    up to `_TRIALS` times in total. Later Dask restarts a dead worker only once, and gives up one
    that dies during the restart. TLS is needed because any user of a shared machine can connect to
    a loopback port.
    """
    environment = dict(os.environ)
    try:
        with _started(profile, scratch) as cluster:
            wanted = len(cluster.worker_spec)

            async def replace_lost() -> None:
                workers, gone = cluster.workers, (Status.closed, Status.failed)
                kept = {name for name in workers if workers[name].status not in gone}
                lost = [name for name in cluster.worker_spec if name not in kept]
                if lost or len(cluster.worker_spec) < wanted:
                    await cluster.scale_down(lost)
                    cluster.scale(wanted)
                    await cluster

            with repeated(cluster, replace_lost):
                yield cluster
    finally:
        # Dask sets variables for the workers, with which later programs would use one thread too.
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)


@contextmanager
def repeated(cluster: Cluster, step: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Run a step on the event loop of a cluster again and again during the block."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            # A worker that dies during its start is found by the next step.
            with suppress(RuntimeError, OSError):
                cluster.sync(step)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _started(profile: job_queues.LocalProfile, scratch: Path) -> LocalCluster:
    for _ in range(_TRIALS):
        check()
        try:
            return _started_once(profile, scratch)
        except RuntimeError as error:  # "Nanny failed to start", because its process was killed
            LOGGER.debug("%s", error)
        LOGGER.warning("a worker died while it was starting: starting again")
    raise ResourceError(
        "workers died again and again while they were starting, most likely for lack of memory",
        remedy="Use fewer --workers, or raise ulimit -n; the same command continues. A script must "
        "make its calls below `if __name__ == '__main__':`, because workers import it",
    )


def _started_once(profile: job_queues.LocalProfile, scratch: Path) -> LocalCluster:
    """Start worker processes that ignore Ctrl-C, which this process handles.

    A terminal sends SIGINT to every process of the job. Processes that start while SIGINT is
    ignored keep ignoring it, so that only this process stops and closes the workers in order. A
    Ctrl-C in the second or two of the start is lost. Blocking the signal instead has no lasting
    effect, because multiprocessing unblocks it.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    try:
        with dask.config.set(_LOCAL_SETTINGS):
            return LocalCluster(
                security=tls_settings.temporary_security(),
                n_workers=profile.workers or usable_cpus(),
                threads_per_worker=1,
                processes=True,
                memory_limit=job_queues.worker_memory(profile),
                local_directory=str(scratch),
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                # A failed task is reported once, by the error of this process.
                silence_logs=logging.CRITICAL,
            )
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


# ---- Job queues ----------------------------------------------------------------------------------

# Job scripts quote nothing, and no shell or queue interprets these characters.
_PLAIN_PATH = re.compile(r"[\w./+@=-]+")
_JOB_NUMBER = re.compile(r"^\s*(\d+)", re.MULTILINE)
# Share of the walltime reserved for a last task to finish and a worker to close. The same time
# again is reserved for workers to close one after another.
_MARGIN, _LARGEST_MARGIN_SECONDS = 0.1, 300
_LARGEST_PAUSE_SECONDS = 600
_QUEUE_SETTINGS = {
    **NO_WEB_PAGES,
    # A queue or a node can end a worker at any time, for reasons unrelated to its tasks.
    "distributed.scheduler.allowed-failures": 10,
    # Dask would end the job of a lost worker, and with it a requeued job of the same name.
    "distributed.deploy.lost-worker-timeout": "365 days",
}
# umask keeps spilled data private.
_PROLOGUE = [
    "umask 077",
    "export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES=[]",
    "export DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL=100ms",
    "export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True",
    *(f"export {name}={value}" for name, value in WORKER_PROCESS.items()),
]


@contextmanager
def job_queue_cluster(profile: JobQueueProfile, scratch: Path) -> Iterator[Cluster]:
    """Start a scheduler in this process, submit a first job, and keep jobs in the queue.

    The workers must be able to read the private directory `scratch`.
    """
    with _scheduler(profile, scratch) as cluster:
        keeper = JobKeeper(cluster, profile, scratch)
        try:  # so that a wrong queue or account is an error at the start
            cluster.sync(keeper.submit, 1)
        except (OSError, RuntimeError) as error:
            keeper.forget_unsubmitted()
            raise InputError(
                "the queue refused the first job",
                where="--cluster",
                value=last_line(error),
                remedy="Correct [options] of the profile",
            ) from error
        with repeated(cluster, keeper.look):
            yield cluster


def check_job_queue(profile: JobQueueProfile, scratch: Path) -> None:
    """Refuse a profile that this machine cannot use, as far as a scheduler without jobs shows."""
    submit_command = _class_of(profile).job_cls.submit_command.split()[0]
    if shutil.which(submit_command) is None:
        raise InputError(
            f"the submit command of {profile.kind.upper()} is not installed",
            where="--cluster",
            value=submit_command,
            remedy="Run the command on a machine of the queue, or add its directory to PATH",
        )
    for path in (str(scratch), str(profile.options.get("python", sys.executable))):
        if not _PLAIN_PATH.fullmatch(path):
            raise InputError(
                "a path has characters that a job script cannot contain",
                where="--cluster",
                value=path,
                limit="letters, digits and _./+@=-",
                remedy="Choose another --work-dir, or python of [options]",
            )
    with _scheduler(profile, scratch):
        pass


def job_script(profile: JobQueueProfile) -> str:
    """Return the job script with placeholders for addresses and the work directory."""
    with TemporaryDirectory() as scratch, _mistakes_explained():  # dask-jobqueue makes a directory
        make_certificates(Path(scratch) / "tls")
        options = _job_options(profile, Path(scratch))
        options.pop("scheduler_options", None)
        options["security"] = security_of(Path(scratch) / "tls")
        job = _class_of(profile).job_cls("tls://SCHEDULER:PORT", name="NAME", **options)
        return str(job.job_script()).replace(scratch, "WORK_DIR/scratch")


def _class_of(profile: JobQueueProfile) -> Any:
    # Imported only here, because dask-jobqueue reads its configuration files on import.
    return pkgutil.resolve_name(job_queues.JOB_QUEUES[profile.kind][0])


@contextmanager
def _scheduler(profile: JobQueueProfile, scratch: Path) -> Iterator[Cluster]:
    make_private_directory(scratch)
    for left in scratch.glob("tls-*"):  # certificates of a killed command
        shutil.rmtree(left)
    options = _job_options(profile, scratch)
    # The server has no pages but needs a port.
    no_pages = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    options["scheduler_options"] = {**options.get("scheduler_options", {}), **no_pages}
    # With certificates in memory, dask-jobqueue would leave files of a cluster that did not start.
    with TemporaryDirectory(prefix="tls-", dir=scratch) as tls, dask.config.set(_QUEUE_SETTINGS):
        directory = Path(tls) / "certificates"
        make_certificates(directory, days=365)
        with _mistakes_explained():
            start = _class_of(profile)
            cluster = start(
                security=security_of(directory), silence_logs=logging.CRITICAL, **options
            )
        with cluster:
            yield cluster


@contextmanager
def _mistakes_explained() -> Iterator[None]:
    """Raise an InputError for options that dask-jobqueue or the scheduler refuses."""
    try:
        yield
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            "the profile does not serve to start the cluster",
            where="--cluster",
            value=first_cause(error),
            remedy="Correct [options] of the profile (cluster/README.md)",
        ) from error


def _job_options(profile: JobQueueProfile, scratch: Path) -> dict[str, Any]:
    """Return the keywords of dask-jobqueue: those of the profile, and what every job needs."""
    walltime = profile.walltime_seconds
    margin = min(int(_MARGIN * walltime), _LARGEST_MARGIN_SECONDS)
    lifetime = ["--lifetime", f"{walltime - 2 * margin}s", "--lifetime-stagger", f"{margin}s"]
    given = profile.all_options
    return {
        "log_directory": str(scratch / "logs"),
        **given,
        "protocol": "tls://",
        "job_script_prologue": [*_PROLOGUE, *given.get("job_script_prologue", ())],
        "worker_extra_args": ["--no-dashboard", *lifetime, *given.get("worker_extra_args", ())],
    }


class JobKeeper:
    """Keeps jobs of a `dask_jobqueue.JobQueueCluster` in the queue while there is work.

    It lists the jobs in the queue, replaces those that are gone, and pauses, longer each time,
    while the queue refuses jobs or they end before any worker connects.
    """

    def __init__(self, cluster: Any, profile: JobQueueProfile, scratch: Path) -> None:
        self._cluster, self._jobs, self._poll_seconds = cluster, profile.jobs, profile.poll
        self._listing = (*job_queues.JOB_QUEUES[profile.kind][1], user_name())
        self._logs = profile.options.get("log_directory", scratch / "logs")
        self._next_listing = monotonic() + self._poll_seconds
        self._pause = self._resume_at = 0.0

    async def submit(self, jobs: int) -> None:
        """Submit jobs until the queue has `jobs` of them; a failed command is an error."""
        while len(self._cluster.worker_spec) < jobs:
            self._cluster.worker_spec.update(self._cluster.new_worker_spec())
        await self._cluster

    async def look(self) -> None:
        """Forget lost jobs, and submit others while more tasks than threads are waiting."""
        scheduler = self._cluster.scheduler
        if scheduler.workers:
            self._pause = 0.0
        if monotonic() < self._resume_at:
            return
        if monotonic() >= self._next_listing:
            lost = await self._lost_jobs()
            self._forget(lost)
            self._next_listing = monotonic() + self._poll_seconds
            if lost and not scheduler.workers:  # possibly every job of this profile fails at once
                ended = "jobs ended before their worker came: %d; see %s, if the nodes see it too"
                self._wait_longer(ended, len(lost), self._logs)
                return
        unfinished = len(scheduler.queued) + len(scheduler.unrunnable)
        unfinished += sum(len(worker.processing) for worker in scheduler.workers.values())
        if unfinished > scheduler.total_nthreads:
            try:
                await self.submit(self._jobs)
            except (RuntimeError, OSError) as error:
                self.forget_unsubmitted()
                self._wait_longer("the queue does not take a job (%s)", last_line(error))

    def forget_unsubmitted(self) -> None:
        """Remove the jobs that the queue did not accept from Dask's records, so that it retries."""
        self._forget({name for name, job in self._cluster.workers.items() if job.job_id is None})

    async def _lost_jobs(self) -> set[Any]:
        """Return the names of the jobs that the queue no longer lists; none if it fails to."""
        jobs = self._cluster.workers.items()
        known = {name: job.job_id for name, job in jobs if job.job_id is not None}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._listing, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
        except OSError:
            return set()
        output, _ = await process.communicate()
        listed = set(_JOB_NUMBER.findall(output.decode()))
        return {n for n, number in known.items() if number not in listed and not process.returncode}

    def _forget(self, names: set[Any]) -> None:
        for name in names & self._cluster.workers.keys():
            # Closing the cluster requires this status of every job.
            self._cluster.workers.pop(name).status = Status.closed

    def _wait_longer(self, message: str, *values: object) -> None:
        self._pause = min(max(self._poll_seconds, 2 * self._pause), _LARGEST_PAUSE_SECONDS)
        self._resume_at = monotonic() + self._pause
        LOGGER.warning(
            f"{message}. The next try is in %d s", *values, self._pause, extra={"event": "waiting"}
        )


def user_name() -> str:
    """Return the name of the user that submits jobs, whatever ``LOGNAME`` says, as after su."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # in a container without an entry for the user
        return getpass.getuser()


def first_cause(error: BaseException) -> str:
    """Return the last line of the first error with a message, from which another one followed."""
    line = last_line(error)
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
        line = last_line(error) if str(error) else line
    return line


def last_line(error: BaseException) -> str:
    """Return the last line of the message of a failed submit command."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


_CONNECT_TIMEOUT_SECONDS = 30


@contextmanager
def dask_client(
    profile: job_queues.LocalProfile | job_queues.SchedulerProfile | JobQueueProfile, scratch: Path
) -> Iterator[Client]:
    """Start or connect to the workers of a profile, and stop at the end what was started.

    `scratch` is a private directory in the work directory, which the workers of job queues must
    also be able to read.
    """
    with ExitStack() as started:
        if isinstance(profile, job_queues.SchedulerProfile):
            client = _connected(profile)
        elif isinstance(profile, job_queues.LocalProfile):
            client = Client(started.enter_context(local_cluster(profile, scratch)))
        else:
            client = Client(started.enter_context(job_queue_cluster(profile, scratch)))
        yield started.enter_context(client)


def check_reachable(profile: job_queues.SchedulerProfile | JobQueueProfile, scratch: Path) -> None:
    """Refuse a cluster that cannot be used, as far as a moment shows; submit no job."""
    if isinstance(profile, JobQueueProfile):
        check_job_queue(profile, scratch)
    else:
        with dask_client(profile, scratch):
            pass


def _connected(profile: job_queues.SchedulerProfile) -> Client:
    """Connect to a running scheduler, and wait until it has a worker."""
    security = tls_settings.security_towards(profile.address, profile.tls)
    try:
        client = Client(profile.address, security=security, timeout=_CONNECT_TIMEOUT_SECONDS)
    except (OSError, ValueError, MemoryError) as error:  # MemoryError: the peer is not Dask
        what = f"no connection to a Dask scheduler: {first_cause(error)}"
    else:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_TIMEOUT_SECONDS)
            return client
        except OSError:  # also a TimeoutError
            client.close()
            what = "the scheduler has no workers"
    # An unconnected client closes itself when it is garbage-collected, under a lock of the event
    # loop. Collecting it here avoids that during the start of the next cluster. No variable may
    # hold the error, whose frames hold the client.
    gc.collect()
    raise InputError(
        what,
        where="--scheduler",
        value=profile.address,
        limit=f"{_CONNECT_TIMEOUT_SECONDS} s",
        remedy="Start `dask scheduler` and `dask worker` with the same certificates (--tls DIR), "
        "and correct host and port",
    )
