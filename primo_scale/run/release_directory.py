"""What lies at ``--out`` before a release is published there."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primo_scale.errors import InputError, UsageError

if TYPE_CHECKING:
    from primo_scale.genotypes.genome_build import GenomeBuild
    from primo_scale.run.design import Design
    from primo_scale.run.request import FinalizeRequest


def check_out(out: Path) -> None:
    """Refuse a place where no release can be published, before any work is done."""
    if (out.exists() or out.is_symlink()) and _read_release(out) is None:
        raise exists_already(out)
    if not out.exists():
        refuse_unwritable(out)


def refuse_unwritable(path: Path) -> None:
    """Refuse a file or directory that cannot be written, or created, by this user.

    Raises
    ------
    InputError
        No permission, or something that is no directory stands in the way.
    """
    if path.exists():
        if not os.access(path, os.W_OK):
            raise InputError("cannot be written: permission denied", where=path)
        return
    ancestor = next(parent for parent in path.absolute().parents if parent.exists())
    if not ancestor.is_dir() or not os.access(ancestor, os.W_OK):
        raise InputError(
            "cannot be created", where=path, remedy="Choose a directory you may write to"
        )


def refuse_other_release(
    request: FinalizeRequest, design: Design, build: GenomeBuild, stored_noise: Collection[str]
) -> None:
    """Refuse a place that holds another release than the one asked for, as far as can be told.

    Parameters
    ----------
    request
        Release asked for.
    design
        Public choices of the run.
    build
        Genome build of the variants.
    stored_noise
        Charges whose noise lies in the work directory: a private release was made from one.

    Raises
    ------
    InputError
        Another release is there.
    """
    from primo_scale.run.describe_release import states_inputs

    document = _read_release(request.out)
    if document is None:
        return
    charge = charge_of(request.out)
    if request.budget is None:
        same = charge is None and states_inputs(document, design, build)
    else:
        stated = document["guarantee"] or {}
        budget = (stated.get("epsilon"), stated.get("delta"))
        same = charge in stored_noise and budget == (request.budget.epsilon, request.budget.delta)
    if not same:
        raise exists_already(request.out)


def check_private_places(out: Path, places: Mapping[str, Path]) -> None:
    """Refuse to keep anything private in what gets published, before any work is done.

    Parameters
    ----------
    out
        The release directory.
    places
        Private paths, by option.
    """
    for option, path in places.items():
        if path.resolve().is_relative_to(out.resolve()):
            raise UsageError(
                "is private, and lies in what gets published",
                where=option,
                value=path,
                remedy="Choose another place",
            )


def charge_of(out: Path) -> str | None:
    """The charge that the statistics of a published release were paid with; None: not paid for."""
    ledger = (_read_release(out) or {}).get("ledger")
    return str(ledger["charges"][-1]["id"]) if ledger else None


def refuse_damaged(out: Path) -> None:
    """Refuse to take a release for published that does not pass its verification.

    Raises
    ------
    InputError
        Names the first check that failed.
    """
    from primo_scale.publication.verify import verify_release

    problems = [finding for finding in verify_release(out) if not finding.ok]
    if problems:
        raise InputError(
            f"the release there is damaged: {problems[0].check}",
            where=out,
            value=problems[0].detail,
            remedy="Restore it from a copy, or move it away and run the same command again",
        )


def _read_release(out: Path) -> dict[str, Any] | None:
    """Return the release.json at `out`, or None if that is no release or a damaged one."""
    from primo_scale.publication.file_names import RELEASE_FILE
    from primo_scale.publication.signed_document import read_document

    return read_document(out)[0] if (out / RELEASE_FILE).is_file() else None


def exists_already(out: Path) -> InputError:
    """The refusal of a place that is taken."""
    return InputError(
        "exists already and is not this release",
        where=out,
        remedy="Choose another --out; a release is never overwritten",
    )
