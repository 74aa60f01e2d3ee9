"""Part of a request that says which machines compute, and how."""

from __future__ import annotations

import importlib.util
from functools import cached_property
from pathlib import Path

from attrs import field, frozen
from attrs.converters import optional

from primo_scale.cluster.profile import (
    LocalProfile,
    Profile,
    SchedulerProfile,
    Size,
    ThreadsProfile,
    fits,
    read_profile,
)
from primo_scale.errors import UsageError
from primo_scale.kernels import AUTOMATIC
from primo_scale.kernels import NAMES as KERNELS
from primo_scale.run.request_parts import check_choice, check_number, regular_file
from primo_scale.run.typed_fields import typed
from primo_scale.storage.locations import ObjectUrl, parse_location


def _bucket(value: str | ObjectUrl | None) -> ObjectUrl | None:
    """Return the URL of a prefix in an object store."""
    found = None if value is None else parse_location(str(value))
    if isinstance(found, Path):
        raise UsageError(
            "not a URL such as s3://bucket/prefix", where="--object-store", value=value
        )
    return found


@frozen(slots=False, field_transformer=typed)
class Execution:
    """Machines that compute, and how. No result depends on it.

    Attributes
    ----------
    scheduler : str or None
        Address of a running Dask scheduler.
    tls : Path or None
        Directory of the certificates that the scheduler was started with.
    no_tls : bool
        Whether the scheduler is reached without encryption.
    cluster : Path or None
        Profile of a cluster.
    workers : int or None
        Number of worker processes on this machine; None stands for threads of this process.
    memory_limit : str or None
        Memory of each local worker, such as ``4GiB``.
    object_store : ObjectUrl or None
        Prefix in an object store for what workers read and write.
    kernel : str
        Name of the product kernel, or ``auto``.
    performance_report : Path or None
        HTML file for Dask's performance report.

    Raises
    ------
    UsageError, InputError
        Options that exclude each other, or a profile that is malformed.
    """

    scheduler: str | None = None
    tls: Path | None = field(default=None, converter=optional(Path))
    no_tls: bool = False
    cluster: Path | None = field(default=None, converter=optional(regular_file))
    workers: int | None = None
    memory_limit: str | None = None
    object_store: ObjectUrl | None = field(default=None, converter=_bucket)
    kernel: str = AUTOMATIC
    performance_report: Path | None = field(default=None, converter=optional(Path))

    def __attrs_post_init__(self) -> None:
        check_number("--workers", self.workers, least=1)
        check_choice("--kernel", self.kernel, KERNELS)
        if self.memory_limit is not None and not fits(self.memory_limit, Size):
            # A number alone could be bytes, or a share of the machine.
            raise UsageError(
                "is not a size such as 4GiB", where="--memory-limit", value=self.memory_limit
            )
        if self.performance_report is not None and importlib.util.find_spec("bokeh") is None:
            raise UsageError("--performance-report needs Bokeh", remedy="pip install bokeh")
        profile = self.profile
        if isinstance(profile, SchedulerProfile):
            # An open or impossible connection is refused before hours of work.
            from primo_scale.cluster.certificates import security_towards

            security_towards(profile.address, profile.tls, where=self.cluster_option)

    @property
    def cluster_option(self) -> str:
        """Option that gave the cluster, for errors."""
        return "--scheduler" if self.cluster is None else f"--cluster {self.cluster}"

    @cached_property
    def profile(self) -> Profile:
        """Threads or cluster that run the tasks."""
        names = ("workers", "memory_limit", "scheduler", "tls", "no_tls")
        others = [name for name in names if getattr(self, name)]
        if self.cluster is not None and others:
            raise UsageError(
                "--cluster excludes other options of where tasks run",
                where=f"--{others[0].replace('_', '-')}",
                remedy=f"Leave it out, or write it into {self.cluster}",
            )
        if self.cluster is not None:
            return read_profile(self.cluster)
        if self.tls is not None and self.no_tls:
            raise UsageError("--tls and --no-tls exclude each other", remedy="Give one of them")
        if self.scheduler is not None:
            return SchedulerProfile(self.scheduler, str(self.tls) if self.tls else not self.no_tls)
        if self.tls is not None:
            raise UsageError(
                "certificates are for a cluster that runs elsewhere",
                where="--tls",
                value=self.tls,
                remedy="Leave it out: the cluster on this machine makes certificates of its own",
            )
        # Dask's report is about workers.
        if self.workers or self.memory_limit or self.performance_report:
            return LocalProfile(self.workers, self.memory_limit)
        return ThreadsProfile()
