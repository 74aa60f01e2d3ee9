"""Who holds a lock file, found out without ever taking it.

A probe that takes the lock, and be it for a microsecond, makes a run that starts in that
microsecond fail. So the kernel's tables are read instead (Linux). They are asked for what this
user's processes hold open, then for the lock itself, then, since network file systems turn
``flock`` into record locks that their server knows, for a record lock in the way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


@dataclass(frozen=True)
class LockOwner:
    """A living process that holds a lock.

    Attributes
    ----------
    pid
        On this machine; None where it runs on another, or as another user.
    """

    pid: int | None


def locks_are_visible() -> bool:
    """Whether this machine tells who holds locks: Linux does."""
    return (_PROC / "locks").is_file() and hasattr(fcntl, "F_OFD_GETLK")


def lock_owner(path: Path) -> LockOwner | None:
    """The owner of `storage.files.exclusive_lock` at `path`, or None if this machine sees none."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(descriptor)
        for pid in _processes():
            if _holds(pid, status):
                return LockOwner(pid)
        if _in_table_of_locks(status) or _record_lock_in_the_way(descriptor):
            return LockOwner(None)
        return None
    finally:
        os.close(descriptor)


def _processes() -> Iterator[int]:
    with contextlib.suppress(FileNotFoundError):
        yield from (int(name) for name in os.listdir(_PROC) if name.isdecimal())


def _holds(pid: int, status: os.stat_result) -> bool:
    """Whether a process of this user has the file open with the lock on it."""
    # Gone meanwhile, or another user's: neither can be looked into.
    with contextlib.suppress(OSError):
        for name in os.listdir(_PROC / f"{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(_PROC / f"{pid}/fd/{name}"), status):
                    lines = (_PROC / f"{pid}/fdinfo/{name}").read_text().splitlines()
                    if any(line.startswith("lock:") and "WRITE" in line for line in lines):
                        return True
    return False


def _in_table_of_locks(status: os.stat_result) -> bool:
    """Whether the kernel's table of granted locks has the file, whoever owns it."""
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        lines = (_PROC / "locks").read_text().splitlines()
    except OSError:
        return False
    return any(device in line.split() and "->" not in line for line in lines)


def _record_lock_in_the_way(descriptor: int) -> bool:
    """Whether a record lock, here or on another client of a server, excludes reading."""
    asked = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    except OSError:
        return False
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
