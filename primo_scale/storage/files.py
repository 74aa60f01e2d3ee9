"""Files: atomic writing, permissions, locks, digests and documents; how every stage resumes."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import logging
import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar, overload

from primo_scale.errors import InputError, ResourceError, file_too_large
from primo_scale.interruption import check
from primo_scale.storage.locations import Location

LOGGER = logging.getLogger("primo_scale")
PRIVATE_DIRECTORY_MODE = 0o700
_PRIVATE_UMASK = 0o077
_whole_process = threading.RLock()
_LOCK_TRIES, _BETWEEN_LOCK_TRIES_SECONDS = 20, 0.01
_HASH_BUFFER_BYTES = 1 << 22
# Larger writes need larger blocks of page cache, which a virtual machine may have returned to its
# host: writing 16 MiB then takes 38 ms instead of 4 ms.
_WRITE_BYTES = 1 << 19
_FLUSHES_AT_ONCE = 8  # a file system writes its log once for all that wait
_STAGING_SUFFIX = r"\.[0-9a-f]{8}"
_converting = threading.RLock()

T = TypeVar("T")
DecHook = Callable[[Any, Any], object]


def write_all(descriptor: int, content: bytes | memoryview) -> None:
    """Write all bytes to a file, in pieces of limited size."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest[:_WRITE_BYTES]) :]


def refuse_special_file(path: Path) -> None:
    """Refuse a FIFO, a socket or a device as an input, because reading it might never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        what = "is a pipe, a socket or a device, not a regular file"
        raise InputError(what, where=path, remedy="Write its content to a file and give that")


def refuse_existing(path: Path) -> None:
    """Refuse a directory to create that exists already."""
    if path.exists():
        raise InputError(
            "exists already", where=path, remedy="Choose another directory or remove this one"
        )


def refuse_missing_file(path: Path) -> None:
    """Refuse an input that does not exist, or is a directory or a special file."""
    refuse_special_file(path)
    if not path.is_file():
        what = "is a directory, not a file" if path.exists() else "no such file"
        raise InputError(what, where=path, remedy="Check the path")


def sync_file(path: Path) -> None:
    """Flush a file's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Flush a directory's entries to the disk, so that a rename in it survives a power failure."""
    sync_file(path)


def sync_tree(path: Path) -> None:
    """Flush every file and directory below `path` to the disk."""
    found = [Path(parent) / name for parent, _, names in os.walk(path) for name in (*names, "")]
    with ThreadPoolExecutor(_FLUSHES_AT_ONCE) as threads:
        list(threads.map(sync_file, found))


@contextmanager
def disk_errors_explained(location: Location) -> Iterator[None]:
    """Turn disk errors that a user can resolve into one-line errors.

    A full disk, a quota or a limit of files becomes a `ResourceError`, and a missing permission an
    `InputError`.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "Free space or choose another directory, then run the same command again"
            raise ResourceError("the disk is full", where=str(location), remedy=remedy) from error
        if error.errno == errno.EFBIG:
            raise file_too_large(str(location)) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise InputError(
                f"cannot be written: {error.strerror}",
                where=str(location),
                remedy="Choose a directory you may write to",
            ) from error
        raise


@contextmanager
def file_published_at_end(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield a temporary file that becomes `path`, with the permissions `mode`, once it is flushed.

    An existing file at `path` is replaced. After a failure it is unchanged.
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


@contextmanager
def text_published_at_end(path: Path, *, mode: int) -> Iterator[TextIO]:
    """Yield a text file as `file_published_at_end` does, in UTF-8 and with LF line ends."""
    with file_published_at_end(path, mode=mode) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        yield text
        text.detach()


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically and durably, with mode 0600."""
    with file_published_at_end(path) as file:
        file.write(data)


@contextmanager
def directory_published_at_end(path: Path) -> Iterator[Path]:
    """Yield an empty temporary directory, which on success is flushed and renamed to `path`.

    Temporary directories of killed processes for the same `path` are removed: a lock file beside
    one shows other processes that this one is alive. A directory that exists at `path` is refused
    and not overwritten.
    """
    refuse_existing(path)
    ours = re.compile(rf"(\.{re.escape(path.name)}{_STAGING_SUFFIX})(\.lock)?")
    staging = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with disk_errors_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        found = [ours.fullmatch(neighbour.name) for neighbour in path.parent.iterdir()]
        # Directories without a lock file belong to other programs.
        for neighbour in {path.with_name(match[1]) for match in found if match and match[2]}:
            with suppress(InputError), exclusive_lock(_lock_of(neighbour)):  # InputError: in use
                shutil.rmtree(neighbour, ignore_errors=True)
                _lock_of(neighbour).unlink(missing_ok=True)
        with exclusive_lock(_lock_of(staging)):
            try:
                staging.mkdir(PRIVATE_DIRECTORY_MODE)
                yield staging
                refuse_existing(path)  # which another run may have published meanwhile
                sync_tree(staging)
                os.rename(staging, path)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
                _lock_of(staging).unlink(missing_ok=True)
        sync_directory(path.parent)


def _lock_of(staging: Path) -> Path:
    return staging.with_name(f"{staging.name}.lock")


@contextmanager
def one_thread_at_a_time() -> Iterator[None]:
    """Let runs in other threads wait: umask, environment and loggers belong to the process."""
    lock = _whole_process
    if not lock.acquire(blocking=False):
        LOGGER.info("waiting for the end of another run of this process")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _forget_other_threads() -> None:
    """Make a new lock for a forked process, which has none of the threads that hold the old one."""
    global _whole_process
    _whole_process = threading.RLock()


os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def files_private() -> Iterator[None]:
    """Restrict new files to mode 0600 and new directories to 0700, also in child processes.

    Zarr, SQLite, logging and Dask create files by the umask, which may allow other users access.
    """
    with one_thread_at_a_time():
        before = os.umask(_PRIVATE_UMASK)
        try:
            yield
        finally:
            os.umask(before)


def keep_files_private() -> None:
    """Set the umask of `files_private` for the rest of the process, as in a worker."""
    os.umask(_PRIVATE_UMASK)


def make_private_directory(path: Path) -> Path:
    """Create `path` and its parents with mode 0700, and return `path`.

    A directory that other users may enter is refused. Its mode is not changed, since others may
    need it.
    """
    refuse_dangling_link(path)
    with disk_errors_explained(path):
        path.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & ~PRIVATE_DIRECTORY_MODE:
        raise InputError(
            "other users have access to the directory for private data",
            where=path,
            value=f"mode {mode:04o}",
            expected=f"mode {PRIVATE_DIRECTORY_MODE:04o}",
            remedy=f"Choose a new directory, or run chmod 700 {path}",
        )
    return path


def refuse_dangling_link(path: Path) -> None:
    """Refuse a directory that cannot be made, because it or a parent is a link to nowhere."""
    for link in (path, *path.parents):
        if link.is_symlink() and not link.exists():
            what = "is a link to a place that does not exist"
            remedy = "Create that place, or choose another directory"
            raise InputError(what, where=link, value=os.readlink(link), remedy=remedy)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold an advisory lock on a file; the kernel releases it when the process ends.

    A lock that another living process holds is refused.
    """
    descriptor = _locked(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return the descriptor of a locked file that still exists under its name.

    The owner of a temporary directory removes its lock file, perhaps while another process waits
    for the lock.
    """
    while True:
        with disk_errors_explained(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _take_lock(descriptor):
            os.close(descriptor)
            raise InputError(
                "another run is using this directory",
                where=path.parent,
                remedy="Wait for it to end, or choose another directory",
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def lock_is_held(path: Path) -> bool:
    """Return whether a living process holds `exclusive_lock` at `path`.

    Processes on other machines count only where the file system shares locks between machines.
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
    """Try to take the exclusive lock, repeatedly: `lock_is_held` holds it for a moment."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_BETWEEN_LOCK_TRIES_SECONDS)
    return False


def sha256_of_file(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file, in constant memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASH_BUFFER_BYTES):
            check()
            digest.update(block)
    return digest.hexdigest()


def canonical_json(value: Any) -> bytes:
    """Serialise a value to canonical JSON, with sorted keys and without spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def sha256_of_json(value: Any) -> str:
    """Return the hexadecimal SHA-256 of `canonical_json(value)`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


@overload
def converted(value: object, kind: type[T], *, dec_hook: DecHook | None = None) -> T: ...
@overload
def converted(value: object, kind: Any, *, dec_hook: DecHook | None = None) -> Any: ...
def converted(value: object, kind: Any, *, dec_hook: DecHook | None = None) -> Any:
    """Return the members of a document as a value of a type, as `msgspec.convert` does.

    One thread converts at a time, because the process crashes if two threads convert values of one
    dataclass for the first time (msgspec 0.22).
    """
    import msgspec  # not needed to verify a release

    with _converting:
        return msgspec.convert(value, kind, dec_hook=dec_hook)  # noqa: TID251


def read_document(path: Path, parse: Callable[[dict[str, Any]], T], *, remedy: str) -> T:
    """Read a JSON object from an existing file and parse it, or refuse a file that is damaged.

    `parse` raises ValueError (as msgspec does), LookupError, TypeError or AttributeError where a
    member is missing or of another type. `remedy` is what the user can do about a damaged file.
    """
    try:
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict):
            raise TypeError("not a JSON object")
        return parse(document)
    except (
        ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise InputError("is damaged", where=path, remedy=remedy) from error


def read_fields(path: Path, kind: type[T], *, remedy: str, dec_hook: DecHook | None = None) -> T:
    """Read a document whose members are the fields of a type, as `read_document` does."""
    return read_document(
        path, lambda stored: converted(stored, kind, dec_hook=dec_hook), remedy=remedy
    )
