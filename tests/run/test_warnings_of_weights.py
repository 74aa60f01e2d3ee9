"""What a run says of weights that are not what a reader expects of them."""

import re

import numpy as np
import pandas as pd
from bed_reader import open_bed
from sklearn.linear_model import Ridge
from small_cohort import Cohort, succeeded, write_cohort


def test_phenotypes_without_weights_are_named(tmp_path):
    cohort = Cohort(write_cohort(tmp_path / "inputs", names=("VARIES", "SAME")))
    table = cohort.folder / "pheno.tsv"
    table.write_text(re.sub(r"\d$", "2", table.read_text(), flags=re.MULTILINE))
    output = succeeded(cohort.release("--non-private", budget=[])).stderr
    (said,) = [line for line in output.splitlines() if "all weights are 0" in line]
    assert "of 1 of 2 phenotypes" in said
    assert said.endswith(": SAME")


def test_without_noise_weights_of_missing_values_are_told_not_to_be_complete_cases(tmp_path):
    """With --keep of the people who have a value they are, and nothing is told of them."""
    cohort = Cohort(write_cohort(tmp_path / "inputs"))
    table = cohort.folder / "pheno.tsv"
    rows = table.read_text().splitlines()
    has_value = np.arange(len(rows) - 1) % 3 > 0
    cells = [row if has else row[:-1] + "NA" for row, has in zip(rows[1:], has_value, strict=True)]
    table.write_text("\n".join([rows[0], *cells]) + "\n")
    keep = cohort.folder / "keep.txt"
    keep.write_text("".join(f"f{i} p{i}\n" for i in np.flatnonzero(has_value)))
    options = ("--non-private", "--ridge", 10)
    whole = succeeded(cohort.release(*options, budget=[])).stderr
    kept = succeeded(
        cohort.release(*options, "--keep", keep, "--out", tmp_path / "kept", budget=[])
    ).stderr
    told = "not those of the people who have it (complete cases)"
    assert f"1 of 1 phenotypes have missing values: T {100 * (1 - has_value.mean()):.1f}%." in whole
    assert (whole.count(told), kept.count(told)) == (1, 0)
    for out in (cohort.out, tmp_path / "kept"):  # README.txt states no fact about the cohort
        assert told in " ".join((out / "README.txt").read_text().split())
    with open_bed(cohort.folder / "cohort.bed", count_A1=True) as bed:
        genotypes = np.nan_to_num(bed.read(dtype="float64") - 1)[has_value]
    values = np.array([float(row.split()[-1]) for row in rows[1:]])[has_value]
    complete = Ridge(alpha=10).fit(genotypes, values).coef_
    published = [
        pd.read_csv(out / "weights.tsv.gz", sep="\t")["T"]
        for out in (tmp_path / "kept", cohort.out)
    ]
    np.testing.assert_allclose(published[0], complete, rtol=2e-3)  # phenotypes are truncated
    assert np.abs(published[1] - complete).max() > 0.1 * np.abs(complete).max()


def test_noise_is_told_nothing_of_complete_cases(tmp_path):
    cohort = Cohort(write_cohort(tmp_path / "inputs"))
    table = cohort.folder / "pheno.tsv"
    table.write_text(table.read_text().replace("p7\t2", "p7\tNA"))
    assert "complete cases" not in succeeded(cohort.release()).stderr
    assert "complete cases" not in (cohort.out / "README.txt").read_text()
