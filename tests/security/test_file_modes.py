"""Under any umask, private files are open to their owner only, and releases to everybody."""

import importlib
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from primo_scale.accumulation.statistics import Reduction


def modes(paths: list[Path]) -> set[str]:
    return {oct(stat.S_IMODE(path.lstat().st_mode)) for path in paths}


def open_to_others(directory: Path) -> list[str]:
    """Return every path at or below `directory` whose mode admits others; names may be gone."""
    found = []
    for path in [directory, *directory.rglob("*")]:
        with suppress(FileNotFoundError):
            if stat.S_IMODE(path.lstat().st_mode) & 0o077:
                found.append(str(path))
    return found


def names_below(directory: Path) -> str:
    return "\n".join(str(path) for path in directory.rglob("*"))


@pytest.fixture(params=["workers started by the command", "workers started by others"])
def place(request) -> list[object]:
    if request.param == "workers started by the command":
        return ["--workers", 1]
    return request.getfixturevalue("running_cluster").options


@pytest.mark.slow
def test_every_file_but_those_of_the_release_is_its_owners_alone(
    place, cohort, tmp_path, monkeypatch
) -> None:
    """This also holds during the run, while scratch files and partial sums exist."""
    os.umask(0)  # `umask_of_the_shell` restores it
    work, middle = tmp_path / "release.work", []
    finish = Reduction.finish

    def look_and_finish(reduction):
        assert open_to_others(work) == []
        middle.append(names_below(work))
        return finish(reduction)

    monkeypatch.setattr(Reduction, "finish", look_and_finish)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    arguments = [
        "--bfile", cohort.directory / "cohort", *cohort.outcome_options,
        "--epsilon", 3, "--delta", 1e-6, "--out", tmp_path / "release", *place,
    ]  # fmt: skip
    importlib.import_module("pipelines.gwas_release").main([str(word) for word in arguments])

    for name in ("partials.zarr", "gram/0/c/0/0/0", "outcomes.zarr/rows/c/0/0", "run.log"):
        assert name in middle[0]
    assert ("dask-scratch-space" in middle[0]) == (place[0] == "--workers")
    assert open_to_others(work) == []
    assert "ledger.sqlite" in names_below(tmp_path / "state")
    assert open_to_others(tmp_path / "state") == []
    published = [tmp_path / "release", *(tmp_path / "release").rglob("*")]
    assert modes([path for path in published if path.is_file()]) == {"0o644"}
    assert modes([path for path in published if path.is_dir()]) == {"0o755"}
