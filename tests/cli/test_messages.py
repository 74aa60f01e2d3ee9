"""Messages of the commands: what is wrong, the value, what is expected, and what to do."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.filesets import open_filesets
from support.small_cohort import Cohort, command, refused, succeeded, write_cohort

from primo_scale.cli.commands import certificates, ingest, ledger_show, release
from primo_scale.errors import InputError, UsageError
from primo_scale.outcomes.coding import read_phenotype_bounds
from primo_scale.outcomes.tables import open_outcome_table

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def cohort(tmp_path):
    return write_cohort(tmp_path / "inputs")


def dry_run(cohort, *options):
    return Cohort(cohort).release(*options, "--dry-run")


@pytest.mark.parametrize("option", ["--bfile", "--pheno", "--pheno-bounds", "--epsilon", "--out"])
def test_an_option_that_is_needed_is_named(cohort, option):
    words = Cohort(cohort).publication()
    first = words.index(option)
    refused(command(release, *words[:first], *words[first + 2 :]), 2, option)


def test_an_optimized_python_is_refused():
    """Zarr has side effects in assert statements."""
    words = [sys.executable, "-O", "-m", "primo_scale", "ingest", "--bfile", "a", "--out", "b"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: python -O: Zarr does not work")
    assert done.stderr.count("\n") == 1


def test_a_name_beyond_the_file_system_is_one_line(cohort):
    long = cohort / ("y" * 256)
    for main, words in (
        (release, Cohort(cohort).publication()[:-1]),
        (ledger_show, ["--ledger"]),
        (certificates, []),
    ):
        refused(command(main, *words, long), 3, "File name too long. Choose a shorter path")


@pytest.mark.parametrize(
    ("name", "message"),
    [("rel é", r"the locale is not (got 'rel \xe9'). Set LC_ALL=C.UTF-8"),
     ("a\udcff", r"is not UTF-8 (got 'a\udcff'). Rename the file")],
    ids=["UTF-8", "other bytes"],
)  # fmt: skip
def test_a_name_in_a_locale_without_its_characters(name, message):
    """Python decodes the bytes of arguments in the C locale to surrogates."""
    word = os.fsencode(name).decode("ascii", errors="surrogateescape")
    refused(command(certificates, word), 2, message)


@pytest.mark.parametrize("words", [["--maf", "0.01"], ["--geno"], ["--hwe", "1e-6", "midp"]])
def test_filters_by_the_cohort_are_refused_with_the_public_alternative(cohort, words):
    refused(dry_run(cohort, *words), 2, f"{words[0]}: filters by the genotypes of the cohort")
    refused(dry_run(cohort, *words), 2, "--extract with a list")


def with_commas(path, destination, *, quoted):
    rows = [line.split() for line in path.read_text().splitlines()]
    with destination.open("w", newline="") as file:
        quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
        csv.writer(file, quoting=quoting).writerows(rows)


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("mark", [b"", BOM])
def test_csv_and_byte_order_marks_are_read(cohort, quoted, mark):
    for name in ("pheno", "bounds"):
        with_commas(cohort / f"{name}.tsv", cohort / f"{name}.csv", quoted=quoted)
        file = cohort / f"{name}.csv"
        file.write_bytes(mark + file.read_bytes())
    names = open_outcome_table(cohort / "pheno.tsv").names
    ((people, _, plain),) = open_outcome_table(cohort / "pheno.tsv").row_groups(names)
    ((same_people, _, commas),) = open_outcome_table(cohort / "pheno.csv").row_groups(names)
    assert same_people == people
    assert commas.tolist() == plain.tolist()
    expected = read_phenotype_bounds(cohort / "bounds.tsv", names)
    assert read_phenotype_bounds(cohort / "bounds.csv", names) == expected
    files = ("--pheno", cohort / "pheno.csv", "--pheno-bounds", cohort / "bounds.csv")
    assert dry_run(cohort, *files).exit_code == 0


def test_a_file_in_place_of_the_prefix_and_a_fileset_given_twice_are_refused(cohort):
    with pytest.raises(InputError, match=f"without .bed.*Give {cohort / 'cohort'}$"):
        open_filesets([cohort / "cohort.bed"])
    other_spelling = cohort / ".." / cohort.name / "cohort"
    with pytest.raises(UsageError, match=r"--bfile: the same fileset is given twice"):
        open_filesets([cohort / "cohort", other_spelling])


def test_prints_filters_hazards_and_what_was_written(reference: Path, tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.write_text("NA11931\nNA12045\nnobody\n")
    prefix = reference / "data/edge/plink_made/bim_negpos"
    words = ["--bfile", prefix, "--out", tmp_path / "g.zarr", "--keep", keep]
    result = succeeded(command(ingest, *words))
    assert "--keep: 3 named, 2 found, 2 samples left" in result.output
    assert "variants of negative position: 1 variants left out (as in PLINK 2)" in result.output
    assert "60 variants of 2 " in succeeded(command(ingest, *words, "--verbose")).output


@pytest.mark.parametrize("name", ["bad_truncated", "bad_magic", "not_there"])
def test_bad_input_ends_in_one_line(reference: Path, tmp_path: Path, name: str) -> None:
    prefix = reference / "data/edge/plink_made" / name
    refused(command(ingest, "--bfile", prefix, "--out", tmp_path / "g.zarr"), 3, name)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_destination_is_named(reference: Path) -> None:
    prefix = reference / "data/edge/plink_made/base_n43_m61"
    result = command(ingest, "--bfile", prefix, "--out", "/dev/null/g.zarr")
    refused(result, 3, "/dev/null/g.zarr", "cannot be created")
