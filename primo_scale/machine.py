"""Processors, memory and disk space that this process can use, and its threads."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TypeVar

import psutil

from primo_scale.errors import ResourceError
from primo_scale.humanize import bytes_in_words
from primo_scale.interruption import check, result_of

_BLOCK_BYTES = 512  # unit of st_blocks
_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


# Of each version of Linux control groups: controller, which is mounted at its name in `_CGROUP`,
# files of limit and use, and keys in ``memory.stat`` of the page cache, with that of subgroups.
_VERSIONS = (
    ("", "memory.max", "memory.current", ("active_file", "inactive_file")),
    (
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
)
# Files with a quota of time and its period, which may share a file, by controller.
_CPU_QUOTAS = {"": ("cpu.max",), "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us")}


@cache
def usable_cpus() -> int:
    """Return the number of CPUs that this process could use at the first call.

    It is within the affinity mask and the quotas of control groups, which are rounded up.
    """
    try:
        cpus = len(psutil.Process().cpu_affinity())
    except (AttributeError, NotImplementedError):  # macOS has no affinity masks
        cpus = psutil.cpu_count() or 1
    return min([cpus, *_cpu_limits()])


def available_memory() -> int:
    """Return the memory available to new processes in bytes, within control-group limits.

    The page cache counts as available. The limit of this process's address space (``ulimit -v``)
    counts once for all processes, as Grid Engine sets it to the memory of a job.
    """
    left = [max(0, limit - used) for limit, used in _limits()]
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        left.append(max(0, address_space - psutil.Process().memory_info().vms))
    return min([int(psutil.virtual_memory().available), *left])


def memory_limit() -> int:
    """Return the memory in bytes that this process and its children could use without others."""
    return min([int(psutil.virtual_memory().total), *(limit for limit, _ in _limits())])


def resident_memory() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(psutil.Process().memory_info().rss)


def return_freed_memory() -> None:
    """Return what the C library keeps of freed arrays to the system, where it can (glibc)."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def free_disk(path: Path) -> int:
    """Return the free bytes on the disk of a path, which need not exist yet."""
    absolute = path.absolute()
    return shutil.disk_usage(next(p for p in (absolute, *absolute.parents) if p.exists())).free


def refuse_full_disk(disk: Path, needed: int, *, what: str, remedy: str) -> None:
    """Refuse to write more bytes than the disk has free.

    `disk` is the path of the data, which need not exist yet. `what` describes the data for the
    error.
    """
    free = free_disk(disk)
    if needed > free:
        raise ResourceError(
            f"not enough free disk for {what}",
            where=disk,
            value=f"{bytes_in_words(free)} free",
            limit=f"{bytes_in_words(needed)} needed",
            remedy=remedy,
        )


def _limits() -> Iterator[tuple[int, int]]:
    """Yield memory limit and use in bytes of this process's control group and those around it."""
    for controller, limit_file, used_file, cached in _VERSIONS:
        for group in _groups(controller):
            limit, used = _bytes_in(group / limit_file), _bytes_in(group / used_file)
            if limit is not None and used is not None:
                lines = _text_of(group / "memory.stat").splitlines()
                counts = dict(line.split(maxsplit=1) for line in lines)
                # The page cache can be reclaimed.
                yield limit, max(0, used - sum(int(counts.get(name, 0)) for name in cached))


def _cpu_limits() -> Iterator[int]:
    """Yield the CPUs, rounded up, of the quota of each control group that has one."""
    for controller, names in _CPU_QUOTAS.items():
        for group in _groups(controller):
            words = [word for name in names for word in _text_of(group / name).split()]
            if len(words) == 2 and all(map(str.isdecimal, words)):
                quota, period = map(int, words)
                yield -(-quota // period)


def _groups(controller: str) -> Iterator[Path]:
    """Yield the directories of this process's control group and those around it.

    Queues and systemd limit groups far below the root, which has no limit. In a container the path
    may be that of the host; parts that are not visible in the container are skipped.
    """
    group = _CGROUP / controller
    inside = PurePosixPath(_own_groups().get(controller, "/")).parts[1:]
    for name in ("", *(() if ".." in inside else inside)):
        group = group / name
        yield group


def _own_groups() -> dict[str, str]:
    """Return the path of this process's group by controller.

    Lines have the form ``4:memory:/path`` (version 1) or ``0::/path`` (version 2).
    """
    lines = (line.split(":", 2) for line in _text_of(_MEMBERSHIP).splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}


def _bytes_in(path: Path) -> int | None:
    text = _text_of(path).strip()
    return int(text) if text.isdecimal() else None


def _text_of(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def disk_usage(directory: Path) -> dict[str, int]:
    """Return the disk use in bytes of every entry of a directory, by name, largest first."""
    sizes: dict[str, int] = {}
    for folder, _, names in os.walk(directory):
        inside = Path(folder).relative_to(directory).parts
        for name in names:
            top = inside[0] if inside else name
            # A temporary file may have been renamed since the directory was listed.
            with suppress(FileNotFoundError):
                blocks = os.lstat(os.path.join(folder, name)).st_blocks
                sizes[top] = sizes.get(top, 0) + blocks * _BLOCK_BYTES
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


# With more threads, the disk or the memory bandwidth is the limit.
_MOST_THREADS = 4
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def n_threads() -> int:
    """Return the number of threads that handle pieces, and so of pieces in memory at once."""
    return min(_MOST_THREADS, usable_cpus())


def in_threads(
    function: Callable[[_Item], _Result], items: Iterable[_Item], threads: int | None = None
) -> list[_Result]:
    """Apply `function` to each item in threads and return the results in order.

    The default of `threads` is `n_threads`. After an error no further item is begun. Reading,
    checksums, digests and sums of large pieces release the interpreter lock.
    """
    with ThreadPoolExecutor(threads or n_threads()) as pool:
        results = []
        for result in pool.map(function, items):
            check()
            results.append(result)
        return results


def read_ahead(
    read: Callable[[_Item], _Result], parts: Iterable[_Item], threads: int = 1
) -> Iterator[_Result]:
    """Yield ``read(part)`` for every part, in order, and read the next parts in threads.

    The part in use and one for each thread are in memory at a time. After an error no further part
    is begun, and none is in progress. Waiting for a disk or a network, checksums, copies of bytes
    and compiled code all release the interpreter lock.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="read-ahead") as pool:
        ahead = deque[Future[_Result]]()
        try:
            for part in parts:
                ahead.append(pool.submit(read, part))
                if len(ahead) > threads:
                    yield result_of(ahead.popleft())
            while ahead:
                yield result_of(ahead.popleft())
        finally:
            pool.shutdown(cancel_futures=True)
