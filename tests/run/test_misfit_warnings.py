"""Warnings about public inputs that do not fit the cohort, on the private terminal."""

import re
import shutil

import pandas as pd
import pytest
from support.command_io import PANEL, simulated, table_options
from support.small_cohort import command, succeeded

from primo_scale.cli.commands import release

PEOPLE, VARIANTS = 400, 100
DISAGREE = "the genotypes do not have the frequencies of --ref-freq"


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    return simulated(
        tmp_path_factory.mktemp("misfit") / "cohort", PEOPLE, 1, variants=VARIANTS, phenotypes=1
    )


def released(folder, cohort, *words):
    options = ("--bfile", folder / "cohort", *table_options(cohort), *words, "--non-private")
    return succeeded(command(release, *options, "--out", folder / "release"))


def copied(cohort, folder, columns):
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
