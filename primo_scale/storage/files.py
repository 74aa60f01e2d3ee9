"""Files that are either complete under their final name or not there at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from primo_scale.errors import InputError, ResourceError
from primo_scale.interruption import check
from primo_scale.storage.locations import Location

PRIVATE_DIRECTORY_MODE = 0o700
_PRIVATE_UMASK = 0o077
_LOCK_TRIES, _BETWEEN_LOCK_TRIES_SECONDS = 20, 0.01
_HASH_BUFFER_BYTES = 1 << 22
# For larger writes the page cache takes larger blocks of memory, which a virtual machine may have
# given back to its host: 16 MiB then take 38 ms instead of 4.
_WRITE_BYTES = 1 << 19
_STAGING_SUFFIX = r"\.[0-9a-f]{8}"


def write_all(descriptor: int, content: bytes | memoryview) -> None:
    """Write all of the bytes to a file, some at a time."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest[:_WRITE_BYTES]) :]


def refuse_special_file(path: Path) -> None:
    """Refuse a FIFO, a socket or a device as an input: reading it might never end.

    Raises
    ------
    InputError
        `path` is there and is neither a regular file nor a directory.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(
            "is a pipe, a socket or a device, not a regular file",
            where=path,
            remedy="Write its content to a file and give that",
        )


def sync_directory(path: Path) -> None:
    """Flush a directory's entries to the disk, so that a rename in it survives power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Flush a file's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """Flush every file and directory below `path` to the disk."""
    for directory, _, names in os.walk(path):
        for name in names:
            sync_file(Path(directory) / name)
        sync_directory(Path(directory))


@contextmanager
def disk_errors_explained(place: Location) -> Iterator[None]:
    """Turn the two disk failures a user can act on into one-line errors.

    Raises
    ------
    ResourceError
        The disk is full, or a quota is reached.
    InputError
        `place` cannot be written for lack of permission or because a parent is not a directory.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceError(
                "the disk is full",
                where=str(place),
                remedy="Free space or choose another directory, then run the same command again",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR):
            raise InputError(
                f"cannot be written: {error.strerror}",
                where=str(place),
                remedy="Choose a directory you may write to",
            ) from error
        raise


@contextmanager
def file_published_at_end(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Give a neighbouring file to fill; on success it is flushed and renamed to `path`, durably.

    Parameters
    ----------
    path
        Replaced if it exists; on failure it stays what it was.
    mode
        Permissions.
    """
    with disk_errors_explained(path):
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with ExitStack() as if_it_fails:
            if_it_fails.callback(Path(temporary).unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, path)
            if_it_fails.pop_all()
        sync_directory(path.parent)


def write_atomically(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write `data` durably under `path`, whole or not at all."""
    with file_published_at_end(path, mode=mode) as file:
        file.write(data)


@contextmanager
def directory_published_at_end(path: Path) -> Iterator[Path]:
    """Give an empty directory to fill; on success it is flushed and renamed to `path`.

    What killed processes were filling for the same `path` is removed.

    Raises
    ------
    InputError
        `path` exists already; nothing is ever overwritten.
    """
    if path.exists():
        raise InputError(
            "exists already", where=path, remedy="Choose another directory or remove this one"
        )
    with disk_errors_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _staging_directory(path) as staging:
            yield staging
            sync_tree(staging)
            os.rename(staging, path)
        sync_directory(path.parent)


@contextmanager
def _staging_directory(path: Path) -> Iterator[Path]:
    """Create a private neighbour of `path`; at the end it is removed if it is still there.

    Beside it lies a lock file, which tells other processes that this one is alive. Neighbours of
    processes that were killed are removed.
    """
    ours = re.compile(rf"(\.{re.escape(path.name)}{_STAGING_SUFFIX})(\.lock)?")
    found = [ours.fullmatch(neighbour.name) for neighbour in path.parent.iterdir()]
    # Without its lock a directory is somebody else's, or of a version that left none.
    for neighbour in {path.with_name(match[1]) for match in found if match and match[2]}:
        with suppress(InputError), exclusive_lock(_lock_of(neighbour)):  # else it is in use
            shutil.rmtree(neighbour, ignore_errors=True)
            _lock_of(neighbour).unlink(missing_ok=True)
    staging = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with exclusive_lock(_lock_of(staging)):
        try:
            staging.mkdir(PRIVATE_DIRECTORY_MODE)
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            _lock_of(staging).unlink(missing_ok=True)


def _lock_of(staging: Path) -> Path:
    return staging.with_name(f"{staging.name}.lock")


@contextmanager
def files_private() -> Iterator[None]:
    """Make whatever this process and those it starts create theirs alone: 0600 and 0700.

    Zarr, SQLite, logs and Dask create files by the umask, which a shell may have left open.
    """
    before = os.umask(_PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def keep_files_private() -> None:
    """Do the same for good: for a worker that somebody else started."""
    os.umask(_PRIVATE_UMASK)


def make_private_directory(path: Path) -> Path:
    """Create `path` (and parents) for the owner's eyes only, mode 0700.

    Raises
    ------
    InputError
        It is there already and others may enter it; it is not changed, for it may be theirs.
    """
    with disk_errors_explained(path):
        path.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & ~PRIVATE_DIRECTORY_MODE:
        raise InputError(
            "a directory that is to hold private data is open to others",
            where=path,
            value=f"mode {mode:04o}",
            limit=f"{PRIVATE_DIRECTORY_MODE:04o}",
            remedy=f"Choose a directory of its own, or run chmod 700 {path}",
        )
    return path


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold an advisory lock file; the kernel releases it when the owner dies, however it dies.

    Raises
    ------
    InputError
        Another living process holds the lock.
    """
    descriptor = _locked(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return the descriptor of a lock file that is locked and still has its name.

    The owner of a staging directory removes its lock file, perhaps while another waits for it.
    """
    while True:
        with disk_errors_explained(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _take_lock(descriptor):
            os.close(descriptor)
            raise InputError(
                "another run is using this work directory",
                where=path.parent,
                remedy="Wait for it to end, or choose another --work-dir",
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def lock_is_held(path: Path) -> bool:
    """Return whether a living process holds `exclusive_lock` at `path`.

    The answer is about this machine, and about others only where the file system shares locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _take_lock(descriptor: int) -> bool:
    """Take the exclusive lock; try for a while, since `lock_is_held` shares it for a moment."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_BETWEEN_LOCK_TRIES_SECONDS)
    return False


def sha256_of_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes, read sequentially in constant memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASH_BUFFER_BYTES):
            check()
            digest.update(block)
    return digest.hexdigest()


def canonical_json(value: Any) -> bytes:
    """Serialise to JSON bytes that depend on nothing but the value (sorted keys, no spaces)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def sha256_of_json(value: Any) -> str:
    """Hexadecimal SHA-256 of `canonical_json(value)`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
