"""How the keeper of jobs finds its jobs in the queue."""

import os
import pwd
from pathlib import Path

from primo_scale.cluster.job_keeper import output_of, user_name


def test_jobs_are_listed_for_the_user_who_submits_them(monkeypatch) -> None:
    """With another name every job would count as lost, and jobs be submitted without end."""
    monkeypatch.setenv("LOGNAME", "another")
    assert user_name() == pwd.getpwuid(os.geteuid()).pw_name


def test_a_user_without_an_entry_has_the_name_of_the_environment(monkeypatch) -> None:
    def no_entry(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    monkeypatch.setenv("LOGNAME", "somebody")
    assert user_name() == "somebody"


def test_jobs_without_output_point_to_a_path_that_nodes_do_not_see(tmp_path: Path) -> None:
    (tmp_path / "primo-scale-17.err").touch()
    assert output_of({"17", "18"}, tmp_path) == f"see {tmp_path}"
    assert "wrote nothing" in output_of({"1", "7"}, tmp_path)
    assert "wrote nothing" in output_of({"17"}, tmp_path / "nowhere")
