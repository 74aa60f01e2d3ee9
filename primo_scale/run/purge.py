"""``--purge-intermediates``: after a release, what is known about people goes; what was said stays.

The ledger and the release stay. A work directory that was purged keeps a note of its release, so
that the same command again finds it done and does not sum and pay for a second one. Files and
objects are deleted, not overwritten: what a disk, a snapshot or the versions of a bucket keep of
them is only lost with the key that they were encrypted with (docs/threat-model.md).
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from primo_scale.errors import InputError
from primo_scale.humanize import bytes_in_words
from primo_scale.machine import disk_usage
from primo_scale.run.execution import Execution
from primo_scale.run.progress_file import PROGRESS_FILE
from primo_scale.run.publishing import refuse_damaged
from primo_scale.run.request import PublishingRequest, ReleaseRequest, RunRequest, options_of
from primo_scale.run.run_log import LOGGER, RUN_LOG
from primo_scale.run.work_directory import (
    CLAIMS,
    DESIGN,
    LOCK,
    NOISE,
    OUTCOMES,
    PARTIALS,
    STATISTICS,
    STORE,
    empty_claimed,
    last_claimed,
)
from primo_scale.storage.documents import read_document
from primo_scale.storage.files import (
    canonical_json,
    sha256_of_file,
    sha256_of_json,
    write_atomically,
)

_NOTE = "purged.json"
# By name: a user may keep a ledger, a key or results of their own in the same directory.
_INTERMEDIATES = (
    OUTCOMES,
    PARTIALS,
    STATISTICS,
    NOISE,
    "scratch",
    DESIGN,
    "phenotype_moments.json",
    "statistics.charge",
    RUN_LOG,
    PROGRESS_FILE,
    CLAIMS,
)
_EXAMPLES = 3
# How a release was computed does not make it another one.
_BESIDE_THE_POINT = {"accept-noise", "purge-intermediates", "encryption-key"} | {
    name for name, _ in options_of(Execution())
}


@dataclass(frozen=True)
class _Purged:
    """The note that stays.

    Attributes
    ----------
    release
        The release directory.
    document_sha256
        Digest of its release.json.
    request_sha256
        Digest of the options that shaped it.
    genotypes
        Whether the genotype store, and its copy in a bucket, is to go too.
    """

    release: str
    document_sha256: str
    request_sha256: str
    genotypes: bool


def purge(request: PublishingRequest) -> None:
    """Note durably which release is done, then delete what it was made from.

    The genotype store goes too where the request is of a whole release, which made it.

    Parameters
    ----------
    request
        Request of a release that is published and recorded in the ledger; this run holds the lock
        of its work directory.
    """
    note = _Purged(
        release=str(request.out.resolve()),
        document_sha256=sha256_of_file(request.out / "release.json"),
        request_sha256=_digest(request),
        genotypes=isinstance(request, ReleaseRequest),
    )
    write_atomically(request.work_dir / _NOTE, canonical_json(asdict(note)))
    _delete(request.work_dir, note)


def is_done_and_purged(request: RunRequest, *, read_only: bool = False) -> bool:
    """Return whether the release that a request asks for is published and purged.

    A deletion that was interrupted is finished.

    Parameters
    ----------
    request
        Request of a run that holds the lock of its work directory.
    read_only
        Leave an interrupted deletion as it is.

    Raises
    ------
    InputError
        They were purged after another release, or that release is damaged or no longer there.
    """
    work_dir = request.work_dir
    path = work_dir / _NOTE
    if not path.is_file():
        return False
    elsewhere = "Choose another --work-dir, to sum again and pay again"
    note = read_document(path, lambda stored: msgspec.convert(stored, _Purged), remedy=elsewhere)
    if not read_only:
        _delete(work_dir, note)
    published = Path(note.release, "release.json")
    same = _digest(request) == note.request_sha256
    if not same or not published.is_file() or sha256_of_file(published) != note.document_sha256:
        raise InputError(
            "its intermediates were purged after a release, which this is not"
            if not same
            else "its intermediates were purged, and their release is changed or gone",
            where=work_dir,
            value=note.release,
            remedy=elsewhere,
        )
    refuse_damaged(Path(note.release))
    LOGGER.info("%s: this release is published already, its intermediates are purged", published)
    return True


def warn_of_intermediates(work_dir: Path) -> None:
    """Log what private data a work directory keeps, how large it is, and how to delete it."""
    sizes = {
        name: size
        for name, size in disk_usage(work_dir).items()
        if name in (*_INTERMEDIATES, STORE) and size
    }
    if not sizes:
        return
    largest = [f"{name} {bytes_in_words(size)}" for name, size in list(sizes.items())[:_EXAMPLES]]
    bucket = last_claimed(work_dir)
    LOGGER.warning(
        "PRIVATE intermediates are left behind: %s in %s (%s%s)%s. Delete them with the same "
        "command and --purge-intermediates",
        bytes_in_words(sum(sizes.values())), work_dir, ", ".join(largest),
        ", ..." if len(sizes) > _EXAMPLES else "",
        "" if bucket is None else f", and more in {bucket}",
    )  # fmt: skip


def _digest(request: RunRequest) -> str:
    """Return the digest of the options that shape a release."""
    shaping = {n: _comparable(v) for n, v in options_of(request) if n not in _BESIDE_THE_POINT}
    return sha256_of_json({"request": type(request).__name__, **shaping})


def _comparable(value: object) -> object:
    if isinstance(value, tuple):
        return [_comparable(part) for part in value]
    return str(value.resolve()) if isinstance(value, Path) else value


def _delete(work_dir: Path, note: _Purged) -> None:
    empty_claimed(work_dir, genotypes=note.genotypes)  # before the record of what was claimed goes
    names = (*_INTERMEDIATES, *((STORE,) if note.genotypes else ()))
    for path in (work_dir / name for name in names):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    left = sorted(path.name for path in work_dir.iterdir() if path.name not in (LOCK, _NOTE))
    LOGGER.info("purged %s%s", work_dir, f"; left there: {', '.join(left)}" if left else "")
