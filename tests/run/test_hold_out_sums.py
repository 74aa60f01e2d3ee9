"""People who are held out count in no sum, and are chosen without their values."""

import shutil

import numpy as np
import pytest
from support.small_cohort import Cohort, command, refused, succeeded, write_cohort
from support.tiers import thinned

from primo_scale.accumulation.statistics import open_raw_statistics
from primo_scale.cli.commands import ingest
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.privacy import payment
from primo_scale.run.design import load_design

N, HELD = 400, 40
EVERYBODY = slice(0, N)


@pytest.fixture
def cohort(tmp_path):
    folder = write_cohort(tmp_path / "cohort", n_people=N, n_variants=12, names=("T", "U"))
    lines = (folder / "pheno.tsv").read_text().splitlines()
    lines[3::7] = [line.rsplit("\t", 1)[0] + "\tNA" for line in lines[3::7]]
    (folder / "pheno.tsv").write_text("\n".join(lines) + "\n")
    cohort = Cohort(folder)
    cohort.ingest()
    return cohort


def statistics(work):
    design = load_design(work / "design.json")
    return open_raw_statistics(work / "statistics.zarr", design.layout, design.n_samples).matrices


def held_out(cohort):
    return open_outcome_store(cohort.work / "outcomes.zarr").held_out(EVERYBODY)


def frequencies(folder):
    """Write a public panel of 12 variants, and return it as options that clip most rows."""
    rows = "".join(f"1\trs{j}\tG\tA\t0.{j + 30}\t100\n" for j in range(12))
    (folder / "panel.afreq").write_text("#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n" + rows)
    return ["--ref-freq", folder / "panel.afreq", "--row-norm", 2.5]


@pytest.mark.parametrize("privacy", thinned(["full", "label", "feature", "clipped"], every=4))
def test_the_sums_are_those_without_the_people_held_out(cohort, privacy, monkeypatch):
    """The noise of the adjustment, which would differ, is left out."""
    monkeypatch.setattr(payment.noise, "add_symmetric_noise", lambda gram, sigma, **options: gram)
    options = ["--ld-blocks", "window:5"]
    options += frequencies(cohort.folder) if privacy == "clipped" else ["--privacy", privacy]
    assert cohort.accumulate("--hold-out", 0.1, *options).exit_code == 0
    apart = held_out(cohort)
    assert apart.sum() == HELD
    folder = cohort.folder
    (folder / "apart.txt").write_text("".join(f"f{i} p{i}\n" for i in np.flatnonzero(apart)))
    store = ["--remove", folder / "apart.txt", "--out", folder / "others.zarr"]
    assert command(ingest, "--bfile", folder / "cohort", *store).exit_code == 0
    others = ["--genotypes", folder / "others.zarr", "--work-dir", folder / "others"]
    others += ["--ledger", folder / "others.sqlite"]
    assert cohort.accumulate(*options, *others).exit_code == 0
    sums, expected = statistics(cohort.work), statistics(folder / "others")
    for block in range(expected.layout.n_blocks):
        np.testing.assert_array_equal(sums.gram(block), expected.gram(block))
        np.testing.assert_array_equal(sums.cross(block), expected.cross(block))
    np.testing.assert_array_equal(sums.outcome_gram(), expected.outcome_gram())
    np.testing.assert_array_equal(sums.observed(), expected.observed())


def test_who_is_held_out_depends_on_a_secret_of_the_work_directory(cohort):
    found = []
    for work in (cohort.work, cohort.folder / "other"):
        where = ("--work-dir", work, "--ledger", f"{work}.sqlite")
        succeeded(cohort.accumulate("--hold-out", 0.1, *where))
        found.append(open_outcome_store(work / "outcomes.zarr").held_out(EVERYBODY))
    assert [apart.sum() for apart in found] == [HELD, HELD]
    assert (found[0] != found[1]).any()  # equal with probability 1 / (400 choose 40)


@pytest.mark.slow
def test_no_value_of_a_person_has_an_influence_on_who_is_held_out(cohort):
    assert cohort.accumulate("--hold-out", 0.1).exit_code == 0
    first = held_out(cohort)
    table = cohort.folder / "pheno.tsv"
    table.write_text(table.read_text().replace("\t3", "\t1"))
    bed = cohort.folder / "cohort.bed"
    bed.write_bytes(bed.read_bytes()[:3] + bed.read_bytes()[:2:-1])
    for name in ("genotypes.zarr", "work/statistics.zarr", "work/adjustment.json", "ledger.sqlite"):
        (cohort.folder / name).rename(cohort.folder / f"{name}.old")
    shutil.rmtree(cohort.work / "private_statistics")
    cohort.ingest()
    succeeded(cohort.accumulate("--hold-out", 0.1))
    np.testing.assert_array_equal(held_out(cohort), first)
    (cohort.work / "hold_out.key").unlink()
    for name in ("work/statistics.zarr", "work/adjustment.json", "ledger.sqlite"):
        (cohort.folder / name).rename(cohort.folder / f"{name}.gone")
    shutil.rmtree(cohort.work / "private_statistics")
    succeeded(cohort.accumulate("--hold-out", 0.1))
    assert (held_out(cohort) != first).any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([0.05], ["too few people", "20 of 400 people"]),
        ([0.6], ["0.6"]),
        ([0.1, "--non-private"], ["--hold-out", "exclude each other"]),
        ([0.1, "--subsample", 50], ["--hold-out", "exclude each other"]),
        ([0.1, "--adjacency", "add-remove", "--nominal-n", 400], ["--hold-out", "replace-one"]),
    ],
)
def test_useless_shares_and_releases_without_a_theorem_are_refused(cohort, options, words):
    refused(cohort.accumulate("--hold-out", *options), 2, *words)


def test_missing_phenotypes_of_people_held_out_are_distinct_from_a_code_of_zero(cohort):
    """The mean of the phenotypes, 2, has the code 0."""
    assert cohort.accumulate("--hold-out", 0.1).exit_code == 0
    store = open_outcome_store(cohort.work / "outcomes.zarr")
    rows = store.read_held_out(EVERYBODY)
    people = np.flatnonzero(store.held_out(EVERYBODY))
    missing = (people - 2) % 7 == 0  # of U
    assert missing.any() and (people[~missing] % 5 == 2).any()
    np.testing.assert_array_equal(rows[:, 2] == 0, missing)
    assert (rows[:, 1] != 0).all()
    assert (store.read_rows(EVERYBODY)[people] == 0).all()
