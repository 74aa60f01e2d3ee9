"""How the keeper of jobs finds its jobs in the queue."""

import os
import pwd

from primo_scale.cluster.job_keeper import user_name


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
