"""Example releases, written once a session and copied where a test changes one."""

import shutil
from pathlib import Path

import pytest
from support.release_examples import publish_example


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Return a private (True) and a NOT PRIVATE (False) release, which tests must not change."""
    root = tmp_path_factory.mktemp("releases")
    return {
        private: publish_example(root / str(private), private=private) for private in (True, False)
    }


@pytest.fixture
def release(pristine: dict[bool, Path], tmp_path: Path) -> Path:
    """Return a private release that a test may damage."""
    return shutil.copytree(pristine[True], tmp_path / "release")


@pytest.fixture
def open_release(pristine: dict[bool, Path], tmp_path: Path) -> Path:
    """Return a NOT PRIVATE release that a test may damage."""
    return shutil.copytree(pristine[False], tmp_path / "open_release")
