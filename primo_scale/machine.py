"""What this process may use of the machine it runs on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil

from primo_scale.errors import ResourceError
from primo_scale.humanize import bytes_in_words

_BLOCK_BYTES = 512  # unit of st_blocks
_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class _Version:
    """Names that one version of Linux control groups has for what is here read of it.

    Attributes
    ----------
    controller
        In `_MEMBERSHIP`, where version 2 names none.
    mount
        Below `_CGROUP`.
    limit, used
        Files of a group.
    page_cache
        Lines of its ``memory.stat``, with the groups inside it.
    """

    controller: str
    mount: str
    limit: str
    used: str
    page_cache: tuple[str, str]


_VERSIONS = (
    _Version("", "", "memory.max", "memory.current", ("active_file", "inactive_file")),
    _Version(
        "memory",
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
)


@dataclass(frozen=True)
class _Limit:
    """Bytes that the processes of one control group may have together, and those they have."""

    limit: int
    used: int


def usable_cpus() -> int:
    """CPUs this process may run on: fewer than the machine has under SLURM, cpuset or taskset."""
    try:
        return len(psutil.Process().cpu_affinity())
    except (AttributeError, NotImplementedError):  # macOS has no affinity
        return psutil.cpu_count() or 1


def available_memory() -> int:
    """Bytes that new processes can have: page cache counts as free, a cgroup limit as a limit."""
    left = (max(0, group.limit - group.used) for group in _limits())
    return min([int(psutil.virtual_memory().available), *left])


def memory_limit() -> int:
    """Bytes that this process and its children could have if nobody else had any."""
    return min([int(psutil.virtual_memory().total), *(group.limit for group in _limits())])


def resident_memory() -> int:
    """Bytes that this process holds."""
    return int(psutil.Process().memory_info().rss)


def free_disk(path: Path) -> int:
    """Bytes free on the disk of a path, which need not exist yet."""
    place = path.absolute()
    return shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free


def refuse_full_disk(disk: Path, needed: int, *, what: str, remedy: str) -> None:
    """Compare what is to be written with what is free.

    Parameters
    ----------
    disk
        Where it goes; need not exist yet.
    needed
        Bytes.
    what, remedy
        For the error.

    Raises
    ------
    ResourceError
        There is less room.
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


def _limits() -> Iterator[_Limit]:
    """Those of this process's own control group and of every group around it.

    Queues and systemd limit a group far below the root, which itself has no limit. In a container
    the path may be the host's: what of it is not to be seen here is passed over.
    """
    own = _own_groups()
    for version in _VERSIONS:
        group = _CGROUP / version.mount
        inside = PurePosixPath(own.get(version.controller, "/")).parts[1:]
        for name in ("", *(() if ".." in inside else inside)):
            group = group / name
            limit, used = _bytes_in(group / version.limit), _bytes_in(group / version.used)
            if limit is not None and used is not None:
                yield _Limit(limit, max(0, used - _page_cache(group, version)))


def _own_groups() -> dict[str, str]:
    """Path of this process's group by controller, as ``4:memory:/path`` or ``0::/path`` has it."""
    text = _MEMBERSHIP.read_text() if _MEMBERSHIP.is_file() else ""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}


def _page_cache(group: Path, version: _Version) -> int:
    """Bytes of files that count as used by a group, and are given up when somebody asks."""
    path = group / "memory.stat"
    text = path.read_text() if path.is_file() else ""
    counts = dict(line.split(maxsplit=1) for line in text.splitlines())
    return sum(int(counts.get(name, 0)) for name in version.page_cache)


def _bytes_in(path: Path) -> int | None:
    text = path.read_text().strip() if path.is_file() else "max"
    return int(text) if text.isdecimal() else None


def disk_usage(directory: Path) -> dict[str, int]:
    """Return the bytes on the disk of everything in a directory, by name, largest first."""
    sizes: dict[str, int] = {}
    for folder, _, names in os.walk(directory):
        inside = Path(folder).relative_to(directory).parts
        for name in names:
            top = inside[0] if inside else name
            # A temporary file may have been renamed meanwhile.
            with suppress(FileNotFoundError):
                blocks = os.lstat(os.path.join(folder, name)).st_blocks
                sizes[top] = sizes.get(top, 0) + blocks * _BLOCK_BYTES
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))
