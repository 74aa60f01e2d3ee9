"""``--purge-intermediates``: what is deleted, what remains, and what the same command then does."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest

from primo_scale.ledger.ledger import Ledger


class Release:
    """Release of the small cohort, run in this process."""

    def __init__(self, cohort, directory: Path) -> None:
        self.work, self.out = directory / "release.work", directory / "release"
        self.ledger = directory / "ledger.sqlite"
        self._finalized = ["--epsilon", 3, "--delta", 1e-6, "--out", self.out,
                           "--ledger", self.ledger]  # fmt: skip
        self.arguments = [
            "--bfile", cohort.directory / "cohort", *cohort.outcome_options, *self._finalized,
        ]  # fmt: skip

    def run(self, *more: object, command: str = "gwas_release", given: list | None = None) -> int:
        words = [str(word) for word in (*(given or self.arguments), *more)]
        try:
            importlib.import_module(f"pipelines.{command}").main(words)
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    def finalize(self, *more: object) -> int:
        given = ["--work-dir", self.work, *self._finalized]
        return self.run(*more, command="finalize", given=given)

    @property
    def charges(self) -> int:
        with Ledger(self.ledger) as ledger:
            (balance,) = ledger.balances()
            return len(balance.charges)

    @property
    def content(self) -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in sorted(self.out.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def made(cohort, tmp_path_factory) -> Path:
    """Make a work directory, a ledger and a release, without purging."""
    directory = tmp_path_factory.mktemp("made")
    assert Release(cohort, directory).run() == 0
    return directory


@pytest.fixture
def release(cohort, made, tmp_path) -> Release:
    """Return a copy of them to purge."""
    for name in ("release", "release.work"):
        shutil.copytree(made / name, tmp_path / name)
    shutil.copy(made / "ledger.sqlite", tmp_path / "ledger.sqlite")
    return Release(cohort, tmp_path)


def test_only_a_note_stays_and_the_same_command_finds_it_done(release, capsys) -> None:
    (release.work / "mine.txt").write_text("the user's own")
    before = release.content
    assert release.run("--purge-intermediates") == 0
    assert {p.name for p in release.work.iterdir()} == {"lock", "purged.json", "mine.txt"}
    assert "left there: mine.txt" in capsys.readouterr().err
    assert release.run("--purge-intermediates") == 0
    assert "published already" in capsys.readouterr().err
    assert release.run("--workers", 2) == 0  # how it is computed is no matter
    assert release.content == before
    assert release.charges == 1


def test_a_later_version_finds_the_release_done(release, monkeypatch) -> None:
    assert release.run("--purge-intermediates") == 0
    monkeypatch.setattr("primo_scale.publication.verify.__version__", "9.9.9")
    monkeypatch.setattr("primo_scale.publication.contents.render_readme", lambda document: "")
    assert release.run() == 0


def test_a_deletion_that_was_interrupted_is_finished(release, monkeypatch) -> None:
    kept = release.work.parent / "kept"
    shutil.copytree(release.work, kept)
    assert release.run("--purge-intermediates") == 0
    shutil.copytree(kept / "statistics.zarr", release.work / "statistics.zarr")
    shutil.copytree(kept / "genotypes.zarr", release.work / "genotypes.zarr")
    assert release.run() == 0
    assert {p.name for p in release.work.iterdir()} == {"lock", "purged.json"}


def test_another_request_or_a_lost_release_is_refused_and_nothing_is_paid(release, capsys) -> None:
    assert release.run("--purge-intermediates") == 0
    assert release.run("--ridge", 7) == 3
    assert "which this is not" in capsys.readouterr().err
    assert release.finalize() == 3
    genotypes = ["--genotypes", release.work / "genotypes.zarr", *release.arguments[2:6]]
    assert release.run(command="accumulate", given=["--work-dir", release.work, *genotypes]) == 3
    assert capsys.readouterr().err.count("another --work-dir") == 2
    release.out.rename(release.out.with_name("moved"))
    assert release.run() == 3
    assert "changed or gone" in capsys.readouterr().err
    assert release.charges == 1


def test_finalize_leaves_the_genotypes_which_it_did_not_write(release) -> None:
    shutil.rmtree(release.out)
    assert release.finalize("--purge-intermediates") == 0
    names = {p.name for p in release.work.iterdir()}
    assert names == {"lock", "purged.json", "genotypes.zarr"}
    assert release.charges == 1
