"""Table of job queues: the dask-jobqueue class of each, and what differs between queues."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobQueue:
    """Job queue that dask-jobqueue can submit to.

    Attributes
    ----------
    cluster : str
        ``module:class`` of the `dask_jobqueue.JobQueueCluster`.
    listing : tuple of str
        Command that lists the jobs of the user whose name is appended, one job per line with the
        job number first.
    account : str
        Option of the class for the account at the site.
    has_resources : bool
        Whether the class has the option ``resource_spec``, which replaces cores and memory.
    counts_minutes : bool
        Whether the walltime is hours:minutes instead of hours:minutes:seconds.
    """

    cluster: str
    listing: tuple[str, ...]
    account: str
    has_resources: bool = False
    counts_minutes: bool = False


JOB_QUEUES = {
    "slurm": JobQueue(
        "dask_jobqueue:SLURMCluster", ("squeue", "--noheader", "--format=%i", "--user"), "account"
    ),
    "pbs": JobQueue("dask_jobqueue:PBSCluster", ("qselect", "-u"), "account", has_resources=True),
    "lsf": JobQueue(
        "dask_jobqueue:LSFCluster",
        ("bjobs", "-noheader", "-o", "jobid", "-u"),
        "project",
        counts_minutes=True,
    ),
    "sge": JobQueue("dask_jobqueue:SGECluster", ("qstat", "-u"), "project", has_resources=True),
}
"""Job queues by the ``kind`` of a profile."""
