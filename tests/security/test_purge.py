"""``--purge-intermediates``: what is deleted, what remains, and what the same command then does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_cohort import Cohort, command, outcomes, write_cohort

from primo_scale.cli import accumulate

PURGE = "--purge-intermediates"


def files_of(release: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in release.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Cohort:
    """Make a work directory, a ledger and a release, without purging."""
    cohort = Cohort(write_cohort(tmp_path_factory.mktemp("made") / "cohort"))
    assert cohort.release().exit_code == 0
    return cohort


@pytest.fixture
def released(made, tmp_path) -> Cohort:
    """Return a copy of them to purge; the stages have the work directory of the release."""
    cohort = made.copy_to(tmp_path / "cohort")
    cohort.work.symlink_to(cohort.folder / "release.work")
    return cohort


def names_in_work(cohort: Cohort) -> set[str]:
    return {path.name for path in cohort.work.iterdir()}


def test_only_a_note_stays_and_the_same_command_finds_it_done(released) -> None:
    (released.work / "mine.txt").write_text("the user's own")
    before = files_of(released.out)
    purged = released.release(PURGE)
    assert (purged.exit_code, "left there: mine.txt" in purged.stderr) == (0, True)
    assert names_in_work(released) == {"lock", "purged.json", "mine.txt"}
    for option in ((PURGE,), ("--workers", 2)):  # how it is computed is no matter
        again = released.release(*option)
        assert (again.exit_code, "published already" in again.stderr) == (0, True)
    assert files_of(released.out) == before
    assert len(released.charges()) == 1


def test_a_later_version_finds_the_release_done(released, monkeypatch) -> None:
    assert released.release(PURGE).exit_code == 0
    monkeypatch.setattr("primo_scale.publication.verify.__version__", "9.9.9")
    monkeypatch.setattr("primo_scale.publication.contents.render_readme", lambda document: "")
    assert released.release().exit_code == 0


def test_a_deletion_that_was_interrupted_is_finished(made, released) -> None:
    assert released.release(PURGE).exit_code == 0
    for store in ("statistics.zarr", "genotypes.zarr"):
        shutil.copytree(made.folder / "release.work" / store, released.work / store)
    assert released.release().exit_code == 0
    assert names_in_work(released) == {"lock", "purged.json"}


def test_another_request_or_a_lost_release_is_refused_and_nothing_is_paid(released) -> None:
    assert released.release(PURGE).exit_code == 0
    other = released.release("--ridge", 7)
    assert (other.exit_code, "which this is not" in other.stderr) == (3, True)
    summed = command(
        accumulate.main, "--work-dir", released.work, "--genotypes",
        released.work / "genotypes.zarr", *outcomes(released.folder),
    )  # fmt: skip
    for refused in (released.finalize(), summed):
        assert (refused.exit_code, "another --work-dir" in refused.stderr) == (3, True)
    released.out.rename(released.out.with_name("moved"))
    lost = released.release()
    assert (lost.exit_code, "changed or gone" in lost.stderr) == (3, True)
    assert len(released.charges()) == 1


def test_finalize_leaves_the_genotypes_which_it_did_not_write(released) -> None:
    shutil.rmtree(released.out)
    assert released.finalize(PURGE).exit_code == 0
    assert names_in_work(released) == {"lock", "purged.json", "genotypes.zarr"}
    assert len(released.charges()) == 1
