"""Full disks end a release with one line and exit code 4, and the same command continues it."""

import os
from pathlib import Path

import pytest
from support.command_io import error_in
from support.processes import command_of, run
from support.small_cohort import Cohort, command
from support.tiers import thinned

from primo_scale.cli.commands import verify

MOUNT = 'mount -t tmpfs -o size="$0" tmpfs "$1"'


@pytest.fixture
def disk(cohort: Cohort) -> Path:
    disk = cohort.folder / "disk"
    disk.mkdir()
    return disk


@pytest.fixture
def on_small_disk(cohort: Cohort, disk: Path):
    namespace = ["unshare", "--mount"]
    if os.geteuid() != 0:
        namespace += ["--user", "--map-root-user"]
    if run([*namespace, "sh", "-c", MOUNT, "64k", disk]).returncode:
        pytest.skip("this machine does not allow tests to mount a small disk")

    def run_on(size: str, *options: object) -> tuple[str, list[str]]:
        """Return the error of a release, and the names in the directories of the disk."""
        listing = cohort.folder / "listing"
        script = f"""
            {MOUNT} || exit 99
            disk="$1"; listing="$2"; shift 2
            "$@"; code=$?
            ls -A "$disk"/* > "$listing"
            exit $code
        """
        words = command_of("gwas_release", [*cohort.publication(), *options])
        done = run([*namespace, "sh", "-c", script, size, disk, listing, *words])
        assert done.returncode == 4, done.stderr
        return error_in(done.stderr), listing.read_text().split()

    return run_on


@pytest.mark.parametrize("size", thinned(["220k", "4k"], every=2))
def test_full_disk_for_the_work_directory(size: str, on_small_disk, cohort, disk) -> None:
    error, _ = on_small_disk(size, "--work-dir", disk / "work")
    assert "disk" in error
    assert not cohort.out.exists()


@pytest.mark.slow
def test_full_disk_for_the_release(on_small_disk, cohort, disk) -> None:
    work = ("--work-dir", cohort.work)
    error, names = on_small_disk("16k", *work, "--out", disk / "parent" / "release")
    assert "disk" in error
    assert "release" not in names
    assert cohort.release(*work).exit_code == 0  # with the paid noise
    assert len(cohort.charges()) == 1
    assert command(verify, cohort.out).exit_code == 0
