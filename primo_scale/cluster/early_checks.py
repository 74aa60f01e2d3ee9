"""Checks of a profile before hours of work, as far as they need no cluster."""

from __future__ import annotations

import sys
from pathlib import Path

from primo_scale.cluster.profile import JobQueueProfile, Profile, is_shared_path
from primo_scale.errors import InputError


def check_cluster(profile: Profile, work_dir: Path) -> None:
    """Refuse a profile whose cluster cannot start on this machine; change nothing."""
    if isinstance(profile, JobQueueProfile):
        _refuse_other_characters("the work directory", str(work_dir.absolute()), "--work-dir")
        if profile.jobs.python is None:
            _refuse_other_characters("the interpreter", sys.executable, "jobs.python")


def _refuse_other_characters(what: str, path: str, key: str) -> None:
    """Refuse a path that a job script cannot contain, because the script quotes nothing."""
    if not is_shared_path(path):
        raise InputError(
            f"the path of {what} has characters that a job script cannot contain",
            where="--cluster",
            value=path,
            limit="letters, digits and _./+@=-",
            remedy=f"Choose another {key}",
        )
