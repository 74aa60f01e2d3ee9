"""Warnings about public inputs that do not fit the cohort, on the private terminal."""

import re
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from support.command_io import PANEL, simulated, table_options
from support.small_cohort import Cohort, add_covariate, command, succeeded, write_cohort

from primo_scale.cli.commands import release
from primo_scale.run import estimation

PEOPLE, VARIANTS = 400, 100
DISAGREE = "the genotypes do not have the frequencies of --ref-freq"


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    return simulated(
        tmp_path_factory.mktemp("misfit") / "cohort", PEOPLE, 1, variants=VARIANTS, phenotypes=1
    )


def released(folder, cohort, *words):
    """Return the output of a release of the cohort's phenotypes without noise."""
    options = ("--bfile", folder / "cohort", *table_options(cohort), *words, "--non-private")
    return succeeded(command(release, *options, "--out", folder / "release"))


def copied(cohort, folder, columns):
    """Copy the fileset with other columns of its .bim file."""
    for suffix in (".bed", ".fam"):
        shutil.copy(cohort.with_suffix(suffix), folder / f"cohort{suffix}")
    bim = pd.read_csv(cohort.with_suffix(".bim"), sep=r"\s+", header=None)
    bim[columns].to_csv(folder / "cohort.bim", sep="\t", header=False, index=False)


@pytest.mark.parametrize(("columns", "warned"), [((4, 5), False), ((5, 4), True)])
def test_exchanged_alleles_of_the_cohort_are_told(columns, warned, cohort, tmp_path):
    copied(cohort, tmp_path, [0, 1, 2, 3, *columns])
    result = released(tmp_path, cohort, "--ref-freq", f"{PANEL}.afreq")
    assert (DISAGREE in result.stderr) is warned
    if warned:
        fits, of = map(int, re.search(r"(\d+) of (\d+) variants fit", result.stderr).groups())
        assert fits == of > 20
    for path in (tmp_path / "release").rglob("*.*"):  # the cohort's frequencies are private
        if path.suffix in {".txt", ".json", ".html", ".log"}:
            assert "F_ST" not in path.read_text()


@pytest.mark.parametrize(("matched", "warned"), [(75, False), (74, True)])
def test_a_panel_with_few_of_the_variants_is_told_before_payment(matched, warned, cohort, tmp_path):
    copied(cohort, tmp_path, [0, 1, 2, 3, 4, 5])
    names = pd.read_csv(f"{cohort}.bim", sep=r"\s+", header=None)[1].head(matched)
    header, *rows = PANEL.with_suffix(".afreq").read_text().splitlines()
    rows = [row for row in rows if row.split("\t")[1] in {*names}]
    (tmp_path / "some.afreq").write_text("\n".join([header, *rows]) + "\n")
    words = ("--ref-freq", tmp_path / "some.afreq", "--ld-blocks", "window:50", "--dry-run")
    options = (
        "--bfile",
        tmp_path / "cohort",
        *table_options(cohort),
        "--out",
        tmp_path / "release",
    )
    result = succeeded(command(release, *options, *words, "--non-private"))
    told = f"--ref-freq: has {matched} of {VARIANTS} variants, less than 75%"
    assert (told in result.stderr) is warned


@pytest.mark.parametrize("name", ["AGE", "PC1"])
def test_loadings_are_asked_for_where_there_are_none(name, tmp_path, monkeypatch):
    solve = estimation.solve_statistics
    monkeypatch.setattr(
        estimation, "solve_statistics", lambda *inputs: replace(solve(*inputs), n_limited=1)
    )
    cohort = Cohort(write_cohort(tmp_path / "inputs"))
    rows = "".join(f"f{i}\tp{i}\t{i % 7}\n" for i in range(200))
    covariate = add_covariate(cohort.folder, rows, name)
    output = succeeded(cohort.release("--non-private", *covariate, budget=[])).stderr
    (said,) = [line for line in output.splitlines() if "would explain more" in line]
    assert ("give --pc-loadings" in said) is (name == "AGE")
