"""``--purge-intermediates``: deletion of the private data after a release.

The ledger and the release stay. A purged work directory keeps a note of its release, so that the
same command finds it done, and does not sum and pay for a second one. Files and objects are
deleted, not overwritten: copies in a disk, a snapshot or the versions of a bucket become unreadable
only with the loss of the encryption key (docs/threat-model.md).
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from primo_scale.errors import Field
from primo_scale.genotypes.pandas_plink import PlinkArray
from primo_scale.humanize import bytes_in_words
from primo_scale.machine import disk_usage
from primo_scale.run import fields, options, publishing, work_directory
from primo_scale.run.run_log import LOGGER
from primo_scale.run.work_directory import GENOTYPES, INTERMEDIATES, LOCK, empty_claimed
from primo_scale.storage import files, locations, resuming
from primo_scale.verify.document import RELEASE

_NOTE = "purged.json"
# Options of the way that a release is computed do not make it another one.
_NOT_SHAPING = {"accept-noise", "purge-intermediates", "encryption-key"} | {
    Field(name).option.removeprefix("--")
    for name, (option, _) in fields.declared(options.AccumulateRequest).items()
    if option.heading == options.MACHINES
}


@dataclass(frozen=True)
class _Published:
    """Note of a release in its purged work directory.

    Attributes
    ----------
    release
        Path of the release directory.
    document_sha256, request_sha256
        Digests of release.json and of the options that shaped the release.
    genotypes
        Whether the genotype store, and its copy in a bucket, are deleted too.
    """

    release: str
    document_sha256: str
    request_sha256: str
    genotypes: bool


def purge(request: options.FinalizeRequest) -> None:
    """Write a durable note of a published release, then delete the data that it was made from."""
    note = _Published(
        release=str(request.out.resolve()),
        document_sha256=files.sha256_of_file(request.out / RELEASE.name),
        request_sha256=_digest(request),
        genotypes=isinstance(request, options.ReleaseRequest)
        and not isinstance(request.genotypes, locations.Location),
    )
    files.write_atomically(request.work_dir / _NOTE, files.canonical_json(asdict(note)))
    _delete(request.work_dir, note)


def is_done_and_purged(request: options.RunRequest, *, read_only: bool = False) -> bool:
    """Return whether the release of a request is published and its intermediates are purged.

    An interrupted deletion is finished, under the lock of the work directory, unless `read_only`. A
    purge after another release is refused, and so is a release that is damaged or gone.
    """
    work_dir = request.work_dir
    path = work_dir / _NOTE
    if not path.is_file():
        return False
    elsewhere = "Choose another --work-dir, to sum again and pay again"
    note = files.read_fields(path, _Published, remedy=elsewhere)
    if not read_only:
        _delete(work_dir, note)
    published = Path(note.release, RELEASE.name)
    same = _digest(request) == note.request_sha256
    if (
        not same
        or not published.is_file()
        or files.sha256_of_file(published) != note.document_sha256
    ):
        what = "purged after another release" if not same else "purged, the release changed or gone"
        raise resuming.of_other_request(work_dir, value=f"{what}: {note.release}", remedy=elsewhere)
    publishing.refuse_damaged(Path(note.release))
    LOGGER.info("%s: this release is published already, its intermediates are purged", published)
    return True


def warn_of_intermediates(work_dir: Path) -> None:
    """Warn of the private data in a work directory: its size, and how to delete it."""
    sizes = disk_usage(work_dir)
    total = sum(sizes.get(name, 0) for name in (*INTERMEDIATES, GENOTYPES))
    if not total:
        return
    bucket = work_directory.last_claimed(work_dir)
    LOGGER.warning(
        "PRIVATE files are left: %s in %s%s (--purge-intermediates deletes them)",
        bytes_in_words(total), work_dir,
        "" if bucket is None else f", and more in {bucket}",
    )  # fmt: skip


def _digest(request: options.RunRequest) -> str:
    """Return the digest of the options that shape a release."""
    shaping = {n: _comparable(v) for n, v in fields.options_of(request) if n not in _NOT_SHAPING}
    return files.sha256_of_json({"request": type(request).__name__, **shaping})


def _comparable(value: object) -> object:
    """Return the value of an option as JSON, in which equal files have equal texts."""
    if isinstance(value, options.PriorFile):
        value = value.path, value.phenotype
    if isinstance(value, PlinkArray):
        value = str(value)
    if isinstance(value, tuple):
        return [_comparable(part) for part in value]
    return str(value.resolve()) if isinstance(value, locations.Location) else value


def _delete(work_dir: Path, note: _Published) -> None:
    empty_claimed(work_dir, genotypes=note.genotypes)  # before the record of claims is deleted
    names = (*INTERMEDIATES, GENOTYPES) if note.genotypes else INTERMEDIATES
    for path in (work_dir / name for name in names):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    left = sorted(path.name for path in work_dir.iterdir() if path.name not in (LOCK, _NOTE))
    LOGGER.info("purged %s%s", work_dir, f"; left there: {', '.join(left)}" if left else "")
