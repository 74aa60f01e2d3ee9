"""Fingerprints of input files, and the digest of the people in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from primo_scale.genotypes.tables import SampleTable
from primo_scale.storage.files import sha256_of_file


@dataclass(frozen=True)
class SourceFile:
    """Content hash of a file, and its path and file-system attributes at that time."""

    path: str
    sha256: str
    size: int
    modified_ns: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path, sha256: str) -> SourceFile:
        """Return the fingerprint of a file whose hash is known."""
        found = path.stat()
        times = found.st_mtime_ns, found.st_ctime_ns
        return cls(str(path.resolve()), sha256, found.st_size, *times, found.st_ino)


def fingerprint(paths: Iterable[Path], known: Mapping[str, SourceFile]) -> tuple[SourceFile, ...]:
    """Hash files, except for those that are unchanged since an earlier fingerprint.

    A file with equal times, size and inode is taken as unchanged, because programs cannot set back
    the inode change time.
    """
    sources = []
    for path in paths:
        before = known.get(str(path.resolve()))
        now = SourceFile.of(path, before.sha256 if before is not None else "")
        sources.append(now if now == before else replace(now, sha256=sha256_of_file(path)))
    return tuple(sources)


def digest_of_people(samples: SampleTable) -> str:
    """Return the SHA-256 digest of the sorted (FID, IID) pairs, which is private.

    It does not depend on the order, the format or the variants of the files, so that releases of
    different chromosomes are charged to the same account.
    """
    # Sorting comes before removing duplicates, because people are mostly sorted already.
    people = sorted(zip(samples.family.tolist(), samples.individual.tolist(), strict=True))
    rows = dict.fromkeys(f"{family}\t{individual}\n" for family, individual in people)
    return hashlib.sha256("".join(rows).encode()).hexdigest()
