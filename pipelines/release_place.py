"""What lies at ``--out`` before a release is published there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from primo_scale.errors import InputError, UsageError


def check_out(out: Path) -> None:
    """Refuse a place where no release can be published, before any work is done."""
    if (out.exists() or out.is_symlink()) and _read_release(out) is None:
        raise exists_already(out)
    ancestor = next(parent for parent in out.absolute().parents if parent.exists())
    if not ancestor.is_dir() or not os.access(ancestor, os.W_OK):
        raise InputError(
            "cannot be created", where=out, remedy="Choose a directory you may write to"
        )


def check_private_places(out: Path, places: Mapping[str, Path]) -> None:
    """Refuse to keep anything private in what gets published, before any work is done.

    Parameters
    ----------
    out
        The release directory.
    places
        What is private, by the option that says where it is.
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


def _read_release(out: Path) -> dict[str, Any] | None:
    """Return the release.json at `out`, or None if that is no release or a damaged one."""
    from primo_scale.release.verify import RELEASE_FILE, read_document

    return read_document(out)[0] if (out / RELEASE_FILE).is_file() else None


def exists_already(out: Path) -> InputError:
    """The refusal of a place that is taken."""
    return InputError(
        "exists already and is not this release",
        where=out,
        remedy="Choose another --out; a release is never overwritten",
    )
