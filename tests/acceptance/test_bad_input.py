"""Bad input ends commands with one line and the right exit code, without partial output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from acceptance_inputs import write_bounds
from command_io import error_in
from tiers import thinned

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Request:
    """Request for a release, which a test makes invalid."""

    directory: Path
    options: dict[str, object] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return Path(str(self.options["work-dir"]))

    @property
    def out(self) -> Path:
        return Path(str(self.options["out"]))

    def file(self, name: str) -> Path:
        """Return one of the input files, which tests may change."""
        return self.directory / name

    def words(self) -> list[str]:
        return [
            word
            for name, value in self.options.items()
            for word in ((f"--{name}",) if value is True else (f"--{name}", str(value)))
        ]


@pytest.fixture
def request_(reference: Path, tmp_path: Path) -> Request:
    """Return a valid request for 61 variants and two phenotypes of 43 people."""
    source = reference / "data" / "edge" / "plink_made" / "base_n43_m61"
    for suffix in (".bed", ".bim", ".fam"):
        shutil.copy(source.with_name(source.name + suffix), tmp_path / f"cohort{suffix}")
    people = [line.split()[:2] for line in (tmp_path / "cohort.fam").read_text().splitlines()]
    rows = [f"{fid}\t{iid}\t{number % 7 - 3}.25\t{number % 5}" for number, (fid, iid)
            in enumerate(people)]  # fmt: skip
    (tmp_path / "pheno.tsv").write_text("\n".join(["FID\tIID\tHEIGHT\tWEIGHT", *rows]) + "\n")
    write_bounds(tmp_path / "pheno.tsv", tmp_path / "bounds.tsv")
    return Request(
        tmp_path,
        {
            "bfile": tmp_path / "cohort",
            "pheno": tmp_path / "pheno.tsv",
            "pheno-bounds": tmp_path / "bounds.tsv",
            "epsilon": 1,
            "delta": 1e-6,
            "accept-noise": True,
            "ledger": tmp_path / "ledger.sqlite",
            "work-dir": tmp_path / "work",
            "out": tmp_path / "release",
        },
    )


def edited(name: str, change: Callable[[list[str]], list[str]]) -> Callable[[Request], None]:
    """Return a function that changes the lines of an input file."""

    def edit(request: Request) -> None:
        lines = request.file(name).read_text().splitlines()
        request.file(name).write_text("\n".join(change(lines)) + "\n")

    return edit


def truncate_bed(request: Request) -> None:
    bed = request.file("cohort.bed")
    bed.write_bytes(bed.read_bytes()[:-1])


def spoil_magic(request: Request) -> None:
    bed = request.file("cohort.bed")
    bed.write_bytes(b"\x6c\x1c" + bed.read_bytes()[2:])


def first_id_twice(rows: list[str]) -> list[str]:
    first, second = rows[0].split("\t"), rows[1].split("\t")
    return [rows[0], "\t".join([second[0], first[1], *second[2:]]), *rows[2:]]


def write_below_a_file(request: Request) -> None:
    request.file("plain").write_text("a file\n")
    request.options["out"] = request.file("plain") / "release"


def work_below_a_file(request: Request) -> None:
    request.file("plain").write_text("a file\n")
    request.options["work-dir"] = request.file("plain") / "work"


def set_option(name: str, value: object) -> Callable[[Request], None]:
    return lambda request: request.options.__setitem__(name, value)


def drop_option(name: str) -> Callable[[Request], None]:
    return lambda request: request.options.__delitem__(name)


# Change of the request, exit code, and parts of the error line, by name of the case.
CASES = {
    "epsilon-negative": (set_option("epsilon", -1), 2, ["epsilon"]),
    "epsilon-nan": (set_option("epsilon", "nan"), 2, ["epsilon"]),
    "epsilon-missing": (drop_option("epsilon"), 2, ["--epsilon"]),
    "delta-zero": (set_option("delta", 0), 2, ["delta"]),
    "bounds-not-given": (drop_option("pheno-bounds"), 2, ["--pheno-bounds", "public"]),
    "phenotypes-not-given": (drop_option("pheno"), 2, ["--pheno"]),
    "bed-truncated": (truncate_bed, 3, ["cohort.bed", "673", "674"]),
    "bed-magic": (spoil_magic, 3, ["cohort.bed"]),
    # 45 people need twelve bytes a variant, and the file has eleven.
    "fam-too-long": (
        edited("cohort.fam", lambda rows: [*rows, "x x1 0 0 0 -9", "x x2 0 0 0 -9"]),
        3, ["cohort.bed"],
    ),
    "person-twice-in-phenotypes": (
        edited("pheno.tsv", lambda rows: [*rows, rows[3]]), 3, ["pheno.tsv:45", "line 4"]
    ),
    "person-twice-in-genotypes": (
        edited("cohort.fam", lambda rows: [rows[1], *rows[1:]]), 3, ["two rows"]
    ),
    "variant-twice": (
        edited("cohort.bim", first_id_twice), 3, ["variant ID", "--set-all-var-ids"]
    ),
    "nobody-in-common": (
        edited("pheno.tsv", lambda rows: [rows[0], *(f"no{row}" for row in rows[1:])]),
        3, ["pheno.tsv", "'no", "in the genotypes"],
    ),
    "text-for-a-number": (
        edited("pheno.tsv", lambda rows: [*rows[:4], rows[4][:-1] + "tall", *rows[5:]]),
        3, ["pheno.tsv:5", "WEIGHT", "tall"],
    ),
    "bounds-of-one-missing": (
        edited("bounds.tsv", lambda rows: rows[:2]), 3, ["bounds.tsv", "WEIGHT"]
    ),
    "bounds-file-missing": (set_option("pheno-bounds", "no/such.tsv"), 3, ["no/such.tsv"]),
    "pheno-file-missing": (set_option("pheno", "no/such.tsv"), 3, ["no/such.tsv"]),
    "fileset-missing": (set_option("bfile", "no/such"), 3, ["no/such"]),
    "work-dir-unwritable": (work_below_a_file, 3, ["plain"]),
    "scheduler-absent": (
        set_option("scheduler", "localhost:nonsense"), 3, ["--scheduler", "nonsense"]
    ),
    "scheduler-in-plain-text": (
        set_option("scheduler", "tcp://10.0.0.7:8786"), 2, ["--scheduler", "10.0.0.7", "--no-tls"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input_ends_with_one_line(case: str, request_: Request, run) -> None:
    spoil, exit_code, said = CASES[case]
    spoil(request_)
    done = run("gwas_release", *request_.words(), exit_code=exit_code)
    error = error_in(done.stderr)
    assert [part for part in said if part not in error] == []
    assert not request_.out.exists()
    assert not (request_.work / "private_statistics").exists()
    assert not request_.file("ledger.sqlite").exists()  # nothing was paid


def test_work_directory_from_other_inputs(request_: Request, run) -> None:
    run("gwas_release", *request_.words())
    spent = run("ledger", "show", "--ledger", request_.options["ledger"]).stdout
    other = {"out": request_.directory / "other"}

    request_.options |= other
    edited("pheno.tsv", lambda rows: [rows[0], *rows[2:]])(request_)
    done = run("gwas_release", *request_.words(), exit_code=3)
    assert "other inputs" in error_in(done.stderr)

    listed = request_.file("variants.txt")
    identifiers = [row.split()[1] for row in request_.file("cohort.bim").read_text().splitlines()]
    listed.write_text("\n".join(identifiers[:9]) + "\n")
    request_.options["extract"] = listed
    done = run("gwas_release", *request_.words(), exit_code=3)
    assert "genotypes.zarr" in error_in(done.stderr)
    assert not request_.out.exists()
    assert run("ledger", "show", "--ledger", request_.options["ledger"]).stdout == spent


def test_a_paid_release_can_be_written_elsewhere(request_: Request, run) -> None:
    """A release that could not be written can be written elsewhere, for one charge."""
    write_below_a_file(request_)
    done = run("gwas_release", *request_.words(), exit_code=3)
    assert "plain" in error_in(done.stderr)
    assert not request_.out.exists()
    request_.options["out"] = request_.directory / "release"
    run("gwas_release", *request_.words())
    run("verify", request_.out)
    shown = run("ledger", "show", "--ledger", request_.options["ledger"]).stdout
    assert len([line for line in shown.splitlines() if line.strip().startswith("charge")]) == 1


@pytest.fixture
def on_small_disk(environment: dict[str, str], request_: Request):
    """Provide a function that runs a release with a directory on a very small disk."""
    disk = request_.directory / "disk"
    disk.mkdir()
    namespace = ["unshare", "--mount"]
    if os.geteuid() != 0:
        namespace += ["--user", "--map-root-user"]
    mount = 'mount -t tmpfs -o size="$0" tmpfs "$1"'
    tried = subprocess.run(
        [*namespace, "sh", "-c", mount, "64k", disk], capture_output=True, check=False
    )
    if tried.returncode:
        pytest.skip("this machine does not allow tests to mount a small disk")

    def run_on(size: str, **options: Path) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        request_.options |= {name.replace("_", "-"): path for name, path in options.items()}
        listing = request_.directory / "listing"
        script = f"""
            {mount} || exit 99
            disk="$1"; listing="$2"; shift 2
            "$@"; code=$?
            ls -A "$disk"/* > "$listing"
            exit $code
        """
        done = subprocess.run(
            [*namespace, "sh", "-c", script, size, disk, listing,
             sys.executable, "-m", "pipelines.gwas_release", *request_.words()],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done, listing.read_text().split()

    run_on.disk = disk
    return run_on


@pytest.mark.parametrize("size", thinned(["220k", "4k", "120k"], every=3))
def test_full_disk(size: str, on_small_disk, request_: Request) -> None:
    done, _ = on_small_disk(size, work_dir=on_small_disk.disk / "work")
    assert done.returncode == 4
    assert "disk" in error_in(done.stderr)
    assert not request_.out.exists()


def test_full_disk_for_the_release(on_small_disk, request_: Request, run) -> None:
    done, listing = on_small_disk("16k", out=on_small_disk.disk / "parent" / "release")
    assert done.returncode == 4, done.stderr
    assert "disk" in error_in(done.stderr)
    assert "release" not in listing
    request_.options["out"] = request_.directory / "release"
    run("gwas_release", *request_.words())  # with the paid noise
    run("verify", request_.out)
