"""Messages of the commands: what is wrong, the value, what is expected, and what to do."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.filesets import open_filesets
from support.small_cohort import Cohort, N, command, refused, write_cohort

from primo_scale.accumulation.plan import block_boundaries
from primo_scale.cli.commands import certificates, ledger_show, release
from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.filters import read_identifiers, read_people
from primo_scale.genotypes.tables import read_bim
from primo_scale.outcomes.coding import read_phenotype_bounds
from primo_scale.outcomes.tables import open_outcome_table
from primo_scale.run.purge import warn_of_intermediates
from primo_scale.run.run_log import LOGGER

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    return write_cohort(tmp_path / "inputs")


def dry_run(cohort: Path, *options: object):
    return Cohort(cohort).release(*options, "--dry-run")


@pytest.mark.parametrize("option", ["--bfile", "--pheno", "--pheno-bounds", "--epsilon", "--out"])
def test_an_option_that_is_needed_is_named(cohort: Path, option: str) -> None:
    words = Cohort(cohort).publication()
    first = words.index(option)
    refused(command(release, *words[:first], *words[first + 2 :]), 2, option)


def test_an_optimized_python_is_refused() -> None:
    """Zarr has side effects in assert statements."""
    words = [sys.executable, "-O", "-m", "primo_scale", "ingest", "--bfile", "a", "--out", "b"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: python -O: Zarr does not work")
    assert done.stderr.count("\n") == 1


def test_a_name_beyond_the_file_system_is_one_line(cohort: Path) -> None:
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
def test_a_name_in_a_locale_without_its_characters(name: str, message: str) -> None:
    """Python decodes the bytes of arguments in the C locale to surrogates."""
    word = os.fsencode(name).decode("ascii", errors="surrogateescape")
    refused(command(certificates, word), 2, message)


@pytest.mark.parametrize("words", [["--maf", "0.01"], ["--geno"], ["--hwe", "1e-6", "midp"]])
def test_filters_by_the_cohort_are_refused_with_the_public_alternative(
    cohort: Path, words: list[str]
) -> None:
    refused(dry_run(cohort, *words), 2, f"{words[0]}: filters by the genotypes of the cohort")
    refused(dry_run(cohort, *words), 2, "--ref-freq with --ref-maf")


def test_only_the_named_covariates_take_part(cohort: Path) -> None:
    """The table has a column of text, which would be refused."""
    people = [line.split()[:2] for line in (cohort / "pheno.tsv").read_text().splitlines()[1:]]
    rows = [f"{family} {name} 1 2 york\n" for family, name in people]
    (cohort / "covar.tsv").write_text("FID IID PC1 PC2 CITY\n" + "".join(rows))
    (cohort / "cbounds.tsv").write_text("name lower upper\nPC1 0 4\nPC2 0 4\n")
    tables = ("--covar", cohort / "covar.tsv", "--covar-bounds", cohort / "cbounds.tsv")
    assert dry_run(cohort, *tables, "--covar-name", "PC?").exit_code == 0
    refused(dry_run(cohort, *tables), 3, "CITY")
    refused(dry_run(cohort, "--covar-name", "PC?"), 2, "--covar-name")
    refused(dry_run(cohort, *tables[2:]), 2, "--covar-bounds", "Give --covar")


def with_commas(path: Path, destination: Path, *, quoted: bool) -> None:
    rows = [line.split() for line in path.read_text().splitlines()]
    with destination.open("w", newline="") as file:
        quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
        csv.writer(file, quoting=quoting).writerows(rows)


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("mark", [b"", BOM])
def test_csv_and_byte_order_marks_are_read(cohort: Path, quoted: bool, mark: bytes) -> None:
    for name in ("pheno", "bounds"):
        with_commas(cohort / f"{name}.tsv", cohort / f"{name}.csv", quoted=quoted)
        file = cohort / f"{name}.csv"
        file.write_bytes(mark + file.read_bytes())
    names = open_outcome_table(cohort / "pheno.tsv").names
    (plain,) = open_outcome_table(cohort / "pheno.tsv").row_groups(names)
    (commas,) = open_outcome_table(cohort / "pheno.csv").row_groups(names)
    assert commas.people == plain.people
    assert commas.values.tolist() == plain.values.tolist()
    expected = read_phenotype_bounds(cohort / "bounds.tsv", names)
    assert read_phenotype_bounds(cohort / "bounds.csv", names) == expected
    files = ("--pheno", cohort / "pheno.csv", "--pheno-bounds", cohort / "bounds.csv")
    assert dry_run(cohort, *files).exit_code == 0


def test_an_empty_cell_of_a_csv_is_missing_and_a_comma_elsewhere_is_text(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("IID, A, B\na, 1,\nb, , 2.5\n,,\n")
    (group,) = open_outcome_table(table).row_groups(["A", "B"])
    assert group.people == ["a", "b"]
    assert [[str(x) for x in row] for row in group.values] == [["1.0", "nan"], ["nan", "2.5"]]
    table.write_text("IID A\na 1,5\n")
    with pytest.raises(InputError, match=r"not a number .got 1,5"):
        list(open_outcome_table(table).row_groups(["A"]))
    table.write_text('IID,A\na,"1,5"\n')
    with pytest.raises(InputError, match=r"table.csv:2: .*found 3 columns, expected 2"):
        list(open_outcome_table(table).row_groups(["A"]))


def test_lists_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_bytes(BOM + b"#IID\na\nb\n")
    assert read_people(listed) == {(None, "a"), (None, "b")}
    listed.write_bytes(BOM + b"rs1\nrs2\n")
    assert read_identifiers(listed) == {"rs1", "rs2"}


def test_sizes_that_differ_are_found_and_expected(cohort: Path) -> None:
    shutil.copytree(cohort, cohort.parent / "other")
    other = cohort.parent / "other" / "cohort"
    lines = (cohort / "cohort.fam").read_text().splitlines(keepends=True)
    Path(f"{other}.fam").write_text("".join(lines[:-4]))
    bed = Path(f"{other}.bed")
    packed = bed.read_bytes()[3:]
    width = N // 4
    bed.write_bytes(b"\x6c\x1b\x01" + b"".join(
        packed[start : start + width - 1] for start in range(0, len(packed), width)
    ))  # fmt: skip
    with pytest.raises(
        InputError, match=r"\(found 40 people, expected 44 people\)\. All filesets must hold"
    ):
        open_filesets([cohort / "cohort", other])


def test_a_number_for_ld_blocks_is_taken_for_a_window(cohort: Path) -> None:
    variants = read_bim(cohort / "cohort.bim")
    with pytest.raises(UsageError, match=r"write --ld-blocks window:500$"):
        block_boundaries("500", variants)
    with pytest.raises(InputError, match="window:500"):
        block_boundaries(str(cohort / "none.bed"), variants)
    (cohort / "500").write_text("1 1 100\n")  # a table may have any name
    assert block_boundaries(str(cohort / "500"), variants) == (0, 6)


@pytest.mark.parametrize("ending", [".bed", ".bim", ".fam"])
def test_a_file_in_place_of_the_prefix(cohort: Path, ending: str) -> None:
    with pytest.raises(InputError) as caught:
        open_filesets([cohort / f"cohort{ending}"])
    assert f"without {ending}" in str(caught.value)
    assert str(caught.value).endswith(f"Give {cohort / 'cohort'}")


def test_the_same_fileset_twice(cohort: Path) -> None:
    other_spelling = cohort / ".." / cohort.name / "cohort"
    with pytest.raises(UsageError, match=r"--bfile: the same fileset is given twice"):
        open_filesets([cohort / "cohort", other_spelling])


def test_family_identifiers_that_differ_between_filesets(cohort: Path) -> None:
    shutil.copytree(cohort, cohort.parent / "other")
    fam = cohort.parent / "other" / "cohort.fam"
    fam.write_text("".join(f"0\tp{i}\t0\t0\t1\t-9\n" for i in range(N)))
    with pytest.raises(InputError) as caught:
        open_filesets([cohort / "cohort", fam.with_suffix("")])
    said = str(caught.value)
    assert "the people, their FIDs or their order differ" in said
    assert "(found 0 p0, expected f0 p0)" in said
    assert "--update-ids" in said


def test_what_is_left_behind_is_weighed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(LOGGER, "warning", lambda text, *values: said.append(text % values))
    (tmp_path / "lock").write_bytes(bytes(1 << 20))  # holds nothing about people
    warn_of_intermediates(tmp_path)
    assert said == []
    for name, mebibytes in {"genotypes.zarr": 5, "statistics.zarr": 3, "outcomes.zarr": 2}.items():
        (tmp_path / name / "c").mkdir(parents=True)
        (tmp_path / name / "c" / "0").write_bytes(b"x" * (mebibytes << 20))
    (tmp_path / "run.log").write_bytes(b"x" * (1 << 20))
    warn_of_intermediates(tmp_path)
    assert said == [
        f"PRIVATE intermediates are left behind: 11 MiB in {tmp_path}. Delete them with the same "
        "command and --purge-intermediates"
    ]
