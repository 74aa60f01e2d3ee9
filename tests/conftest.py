"""Fixtures that several test folders share."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.tiers import missing

from primo_scale.cli.command_line import BATCH_JOB_SIGNS
from primo_scale.storage.stores import KEY_VARIABLE, make_key_file

# A machine that is slow, or that compiles for the first time, is no failure. CI and the runs with
# faults (tests/mutation/run.py) try more examples.
for profile, examples in (("few", 30), ("many", 100)):
    settings.register_profile(
        profile, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("many" if "CI" in os.environ else "few")

# Tests may run as a batch job themselves; the commands that they start do not.
for sign in BATCH_JOB_SIGNS:
    os.environ.pop(sign, None)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Environment of a command, in which the user's own ledger is not accessible."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield dict(os.environ)


@pytest.fixture(autouse=True)
def umask_of_the_shell() -> Iterator[None]:
    """A task that is run in this process closes its umask for good, as in a worker."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an encryption key into effect, and provide its file."""
    path = tmp_path / "user.key"
    make_key_file(path)
    monkeypatch.setenv(KEY_VARIABLE, str(path))
    return path


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def encrypted(request: pytest.FixtureRequest) -> bool:
    """Run the test without and with an encryption key, and provide which."""
    if request.param:
        request.getfixturevalue("key")
    return request.param


@pytest.fixture(scope="session")
def reference() -> Path:
    """Reference data and vectors: `PROVENANCE.md` there tells where they come from."""
    return ROOT / "tests" / "reference"


@pytest.fixture(scope="session")
def plink2() -> str:
    return shutil.which("plink2") or missing("plink2")
