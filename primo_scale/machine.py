"""What this process may use of the machine it runs on."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from primo_scale.errors import ResourceError
from primo_scale.in_words import bytes_in_words

_CGROUP = Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """CPUs this process may run on: fewer than the machine has under SLURM, cpuset or taskset."""
    try:
        return len(psutil.Process().cpu_affinity())
    except (AttributeError, NotImplementedError):  # macOS has no affinity
        return psutil.cpu_count() or 1


def available_memory() -> int:
    """Bytes that new processes can have: page cache counts as free, a cgroup limit as a limit."""
    available = int(psutil.virtual_memory().available)
    limit, used = (_cgroup_bytes(name) for name in ("memory.max", "memory.current"))
    if limit is not None and used is not None:
        used = max(0, used - _cgroup_page_cache())
        available = min(available, max(0, limit - used))
    return available


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


def _cgroup_page_cache() -> int:
    """Bytes of files that count as used by the cgroup, and are given up when somebody asks."""
    path = _CGROUP / "memory.stat"
    text = path.read_text() if path.is_file() else ""
    counts = dict(line.split(maxsplit=1) for line in text.splitlines())
    return sum(int(counts.get(name, 0)) for name in ("active_file", "inactive_file"))


def _cgroup_bytes(name: str) -> int | None:
    path = _CGROUP / name
    text = path.read_text().strip() if path.is_file() else "max"
    return int(text) if text.isdecimal() else None
