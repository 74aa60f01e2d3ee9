"""What a run says of weights that are not what a reader expects of them."""

import gzip

import numpy as np
import pandas as pd
import pytest
from bed_reader import open_bed
from sklearn.linear_model import Ridge
from support.small_cohort import Cohort, D, N, succeeded, write_cohort

from primo_scale.verify.release import verify


def test_without_noise_weights_of_missing_values_are_told_not_to_be_complete_cases(tmp_path):
    """With --keep of the people who have a value they are."""
    cohort = Cohort(write_cohort(tmp_path / "inputs"))
    table = cohort.folder / "pheno.tsv"
    rows = table.read_text().splitlines()
    has_value = np.arange(len(rows) - 1) % 3 > 0
    cells = [row if has else row[:-1] + "NA" for row, has in zip(rows[1:], has_value, strict=True)]
    table.write_text("\n".join([rows[0], *cells]) + "\n")
    keep = cohort.folder / "keep.txt"
    keep.write_text("".join(f"f{i} p{i}\n" for i in np.flatnonzero(has_value)))
    options = ("--non-private", "--ridge", 10)
    succeeded(cohort.release(*options, budget=[]))
    succeeded(cohort.release(*options, "--keep", keep, "--out", tmp_path / "kept", budget=[]))
    told = "not those of the people who have it (complete cases)"
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


def cells(path, column):
    with gzip.open(path, "rt") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    first = rows[0].index(column)
    return [cell for row in rows[1:] for cell in row[first:]]


def n_digits(text):
    return len(text.split("e")[0].replace(".", "").replace("-", "").strip("0"))


def test_private_weights_have_few_digits_and_the_same_in_all_files(tmp_path):
    cohort = Cohort(write_cohort(tmp_path / "inputs", n_people=400, n_variants=60))
    rows = (f"f{i}\tp{i}\t{i % 5}\t{i % 3 % 2}\n" for i in range(400))
    (cohort.folder / "pheno.tsv").write_text("FID\tIID\tT\tCASE\n" + "".join(rows))
    bounds = "name lower upper mean sd\nT 0 4 2 1.4\nCASE 0 1 .3 .46\n"
    (cohort.folder / "bounds.tsv").write_text(bounds)
    exact = tmp_path / "exact"
    succeeded(cohort.release(budget=("--epsilon", 9, "--delta", 1e-6, "--accept-noise")))
    succeeded(cohort.release("--non-private", "--out", exact, budget=[]))
    for out, least, most in ((cohort.out, 3, 3), (exact, 8, 9)):
        weights = cells(out / "weights.tsv.gz", "T")
        assert least <= max(map(n_digits, weights)) <= most
        assert cells(out / "pgs/T.txt.gz", "effect_weight") == weights[::2]
        log_odds = [f"{float(weight) / 0.21:.9g}" for weight in weights[1::2]]
        assert cells(out / "pgs/CASE.txt.gz", "effect_weight") == log_odds
        assert verify(out).ok


@pytest.mark.parametrize(
    ("n_alleles", "options", "count"),
    [(2 * N, (), 1), (2 * N - 4, (), 1), (2 * N + 2, (), 0), (N, (), 0), (2 * N, ("open",), 0)],
)
def test_frequencies_of_the_cohort_itself_are_warned_of(cohort, n_alleles, options, count):
    """A panel of another number of people is not, nor a release without noise."""
    panel = cohort.folder / "panel.afreq"
    rows = [f"1 rs{j} G A 0.3 {n_alleles if j else 7}\n" for j in range(D)]
    panel.write_text("#CHROM ID REF ALT ALT_FREQS OBS_CT\n" + "".join(rows))
    words = ["--ref-freq", panel, "--dry-run", *(["--non-private"] if options else [])]
    release = cohort.release(*words, budget=[]) if options else cohort.release(*words)
    said = succeeded(release).stderr
    assert said.count(f"{panel}: seems to be counted in the cohort: it has {n_alleles}") == count
