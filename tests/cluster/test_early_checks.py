"""What a profile asks of this machine is checked before any work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from primo_scale.cluster.early_checks import check_cluster
from primo_scale.cluster.profile import JobQueueProfile, Jobs
from primo_scale.errors import InputError

SLURM = JobQueueProfile("slurm")


@pytest.mark.parametrize("character", " '\"$&%,:;\\\n")
def test_a_path_that_a_job_script_cannot_contain_is_refused(character: str, tmp_path) -> None:
    with pytest.raises(InputError, match="--cluster: the path of the work directory") as refused:
        check_cluster(SLURM, tmp_path / f"a{character}b")
    assert "letters, digits and _./+@=-" in str(refused.value)


def test_other_paths_are_accepted(tmp_path: Path) -> None:
    check_cluster(SLURM, tmp_path / "Müller-1" / "a_b.work")


def test_the_interpreter_is_checked_unless_the_profile_names_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/a b/python")
    with pytest.raises(InputError, match="the path of the interpreter"):
        check_cluster(SLURM, tmp_path)
    check_cluster(JobQueueProfile("slurm", Jobs(python="/usr/bin/python3")), tmp_path)
