"""``--purge-intermediates``: deleted and remaining files, and a repeated command afterwards."""

import shutil

import pytest
from support.small_cohort import Cohort, refused, succeeded, write_cohort

PURGE = "--purge-intermediates"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Cohort:
    cohort = Cohort(write_cohort(tmp_path_factory.mktemp("made") / "cohort"))
    succeeded(cohort.release())
    return cohort


@pytest.fixture
def released(made, tmp_path) -> Cohort:
    return made.copy_to(tmp_path / "copy")


@pytest.fixture
def work(released):
    return released.folder / "release.work"


def names_in(directory):
    return {path.name for path in directory.iterdir()}


def test_only_a_note_stays_and_the_same_command_finds_it_done(released, work) -> None:
    (work / "mine.txt").write_text("the user's own")
    before = {path: path.read_bytes() for path in released.out.rglob("*") if path.is_file()}
    first = released.release(PURGE)
    assert first.exit_code == 0
    assert names_in(work) == {"lock", "purged.json", "mine.txt"}
    assert "left there: mine.txt" in first.stderr
    again = released.release(PURGE)
    assert again.exit_code == 0
    assert "published already" in again.stderr
    assert released.release("--workers", 2).exit_code == 0  # the number of workers does not matter
    assert {path: path.read_bytes() for path in before} == before
    assert len(released.charges()) == 1


def test_a_purge_with_other_options_or_of_a_changed_release_plans_again(released, work) -> None:
    refused(released.release(PURGE, "--ridge", 7), 3, "is not the result of this request")
    (released.out / "README.txt").write_text("changed")
    refused(released.release(PURGE), 3, "the release there is damaged")
    assert (work / "statistics.zarr").exists()


def test_a_deletion_that_was_interrupted_is_finished(released, work) -> None:
    kept = released.folder / "kept"
    shutil.copytree(work, kept)
    assert released.release(PURGE).exit_code == 0
    shutil.copytree(kept / "statistics.zarr", work / "statistics.zarr")
    shutil.copytree(kept / "genotypes.zarr", work / "genotypes.zarr")
    assert released.release().exit_code == 0
    assert names_in(work) == {"lock", "purged.json"}


def test_another_request_or_a_lost_release_is_refused_and_nothing_is_paid(released, work) -> None:
    assert released.release(PURGE).exit_code == 0
    refused(released.release("--ridge", 7), 3, "purged after another release")
    there = ("--work-dir", work)
    genotypes = ("--genotypes", work / "genotypes.zarr")
    refused(released.finalize(*there), 3, "another --work-dir")
    refused(released.accumulate(*there, *genotypes), 3, "another --work-dir")
    released.out.rename(released.out.with_name("moved"))
    refused(released.release(), 3, "changed or gone")
    assert len(released.charges()) == 1


def test_finalize_leaves_the_genotypes_which_it_did_not_write(released, work) -> None:
    shutil.rmtree(released.out)
    assert released.finalize("--work-dir", work, PURGE).exit_code == 0
    assert names_in(work) == {"lock", "purged.json", "genotypes.zarr"}
    assert len(released.charges()) == 1
