"""Limits of address space are refused before NumPy is loaded, which could hang or fail there."""

import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_io import error_in
from support.small_cohort import Cohort, write_cohort

from primo_scale.cli.address_space import LEAST_ADDRESS_SPACE, refuse_small_address_space
from primo_scale.cli.main import COMMANDS
from primo_scale.errors import ResourceError


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may not keep the limit")
def test_a_release_in_too_little_address_space_is_refused(tmp_path: Path) -> None:
    """At this limit the import of SciPy hung."""
    words = [sys.executable, "-m", "primo_scale", "release"]
    words += Cohort(write_cohort(tmp_path / "inputs")).publication()
    script = f"ulimit -v 500000; exec {shlex.join(words)}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 4
    error = error_in(done.stderr)
    assert "address space" in error and "got 500000 kB" in error and "ulimit -v" in error


def test_each_thread_of_openblas_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for threads, limit in (("", 1_799_999_999), ("1", 1_099_999_999), ("90", 1_799_999_999)):
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
        monkeypatch.setattr(resource, "getrlimit", lambda _, at=limit: (at, at))
        with pytest.raises(ResourceError, match="at least"):
            refuse_small_address_space(1_000_000_000)
        refuse_small_address_space(0)
        monkeypatch.setattr(resource, "getrlimit", lambda _, at=limit: (at + 1, at + 1))
        refuse_small_address_space(1_000_000_000)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    refuse_small_address_space(1 << 60)


def test_the_table_names_commands() -> None:
    assert LEAST_ADDRESS_SPACE.keys() <= COMMANDS.keys()
