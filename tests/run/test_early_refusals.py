"""Every refusal that needs no genotype comes before the ingest, in the dry run and in the run."""

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes import free_ports
from support.small_cohort import BUDGET, D, N, add_covariate, command, refused, succeeded
from support.tiers import thinned

from primo_scale.cli.commands import accumulate
from primo_scale.cluster import workers
from primo_scale.ledger.accounts import Account
from primo_scale.ledger.ledger import Ledger

Spoil = Callable[[Path], list[object]]


def edit(path, change):
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))
    return []


def cut_bed(folder):
    bed = folder / "cohort.bed"
    bed.write_bytes(bed.read_bytes()[:-1])
    return []


def write_panel(folder, matched):
    """Give the cohort 100 variants, and a panel that has so many of them under their names."""
    bim = "".join(f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in range(100))
    (folder / "cohort.bim").write_text(bim)
    packed = bytes(N // 4 * 100)
    (folder / "cohort.bed").write_bytes(b"\x6c\x1b\x01" + packed)
    rows = [f"1 rs{j} G A 0.3 100" for j in range(matched)]
    rows += [f"1 1:{j}:A:G G A 0.3 100" for j in range(matched, 100)]
    header = "#CHROM ID REF ALT ALT_FREQS OBS_CT"
    (folder / "panel.afreq").write_text("\n".join([header, *rows]) + "\n")
    return ["--ref-freq", folder / "panel.afreq"]


def blocks_of_another_build(folder):
    (folder / "blocks.bed").write_text("chr start stop\nchr1 1000000 2000000\n")
    return ["--ld-blocks", folder / "blocks.bed"]


def set_budget(folder, *, epsilon=2.0, delta=1e-6):
    with Ledger(folder / "ledger.sqlite") as ledger:
        ledger.set_budget(Account("biobank"), epsilon=epsilon, delta=delta)
    return ["--cohort", "biobank"]


def another_release(folder):
    (folder / "release").mkdir()
    charge = {"id": "another", "state": "published"}
    document = {"ledger": {"charges": [charge]}, "private": True}
    (folder / "release" / "release.json").write_text(json.dumps(document))
    return []


# name: how the request is spoilt, the exit code, and what the one line must say.
CASES: dict[str, tuple[Spoil, int, list[str]]] = {
    "phenotype not in the file": (
        lambda folder: edit(folder / "pheno.tsv", lambda rows: ["FID\tIID\tS", *rows[1:]]),
        3, ["bounds.tsv", "S"],
    ),
    "named phenotype with bounds but not in the file": (
        lambda folder: edit(folder / "bounds.tsv", lambda rows: [*rows, "S\t0\t4\t2\t1"])
        or ["--pheno-name", "S"],
        3, ["pheno.tsv:1", "no column 'S'", "The columns are: T"],
    ),
    "nobody in common": (
        lambda folder: edit(
            folder / "pheno.tsv", lambda rows: [rows[0], *(f"x{row}" for row in rows[1:])]
        ),
        3, ["no person of this file is in the genotypes"],
    ),
    "text in a phenotype": (
        lambda folder: edit(folder / "pheno.tsv", lambda rows: [*rows[:-1], "f43\tp43\ttall"]),
        3, ["pheno.tsv:45", "T is not a number", "tall"],
    ),
    "text in a covariate": (
        lambda folder: add_covariate(folder, "f0\tp0\told\n"),
        3, ["covar.tsv:2", "AGE is not a number", "old"],
    ),
    "a person twice in the phenotypes": (
        lambda folder: edit(folder / "pheno.tsv", lambda rows: [*rows, rows[3]]),
        3, ["pheno.tsv:46", "one person in two rows"],
    ),
    "a person twice in the genotypes": (
        lambda folder: edit(folder / "cohort.fam", lambda rows: [rows[1], *rows[1:]]),
        3, ["cohort.fam: an IID is one person, whatever the FID"],
    ),
    "an IID in two families": (
        lambda folder: edit(
            folder / "cohort.fam", lambda rows: [*rows[:-1], rows[1].replace("f1", "f2", 1)]
        ),
        3, ["an IID is one person, whatever the FID", "(got p1)", "--update-ids"],
    ),
    "a variant twice": (
        lambda folder: edit(folder / "cohort.bim", lambda rows: [rows[1], *rows[1:]]),
        3, ["variant ID", "--set-all-var-ids"],
    ),
    "a .bed that is too short": (cut_bed, 3, ["cohort.bed", "found 68 bytes", "expected 69 bytes"]),
    "a panel of other identifiers": (
        lambda folder: write_panel(folder, 9), 3, ["for 9 of 100 variants", "at least 10%"],
    ),
    "LD blocks of another build": (
        blocks_of_another_build, 3, [f"0 of {D} variants lie inside", "at least 10%"],
    ),
    "a budget that does not cover it": (
        lambda folder: set_budget(folder, epsilon=0.5),
        6, ["does not cover this release", "0.5 left"],
    ),
    "another delta than the budget's": (
        lambda folder: set_budget(folder, delta=1e-7), 6, ["delta was fixed"],
    ),
    "no ledger but another file": (
        lambda folder: edit(folder / "bounds.tsv", lambda rows: rows)
        or ["--ledger", folder / "bounds.tsv"],
        3, ["is not a privacy ledger"],
    ),
    "a ledger where none can be": (
        lambda folder: ["--ledger", folder / "bounds.tsv" / "ledger.sqlite"],
        3, ["ledger.sqlite", "cannot be created"],
    ),
    "a work directory where none can be": (
        lambda folder: ["--work-dir", folder / "bounds.tsv" / "work"], 3, ["bounds.tsv/work"],
    ),
    "a release where none can be": (
        lambda folder: ["--work-dir", folder / "work", "--out", folder / "bounds.tsv" / "release"],
        3, ["bounds.tsv/release: cannot be created"],
    ),
    "a release whose lock has too long a name": (
        lambda folder: ["--work-dir", folder / "work", "--out", folder / ("o" * 241)],
        3, ["the name is too long", "got 241 bytes; limit 200 bytes", "a shorter name"],
    ),
    "a release of a name beyond the file system": (
        lambda folder: ["--work-dir", folder / "work", "--out", folder / ("o" * 256)],
        3, ["File name too long", "a shorter path"],
    ),
    "a ledger whose journal has too long a name": (
        lambda folder: ["--ledger", folder / ("l" * 238)],
        3, ["the name is too long", "got 238 bytes; limit 200 bytes"],
    ),
    "a work directory of too long a name": (
        lambda folder: ["--work-dir", folder / ("w" * 256)],
        3, ["File name too long", "a shorter path"],
    ),
    "a release without a name": (
        lambda folder: ["--out", "/"], 2, ["--out: a release needs a directory of its own"],
    ),
    "an epsilon that is no number": (lambda folder: ["--epsilon", "nan"], 2, ["epsilon"]),
    "a delta of one": (lambda folder: ["--delta", 1], 2, ["delta"]),
    "a window of no number": (lambda folder: ["--ld-blocks", "window:x"], 2, ["--ld-blocks"]),
    "a row norm without frequencies": (lambda folder: ["--row-norm", 3], 2, ["--row-norm"]),
    "a list that is not there": (lambda folder: ["--extract", "none.txt"], 3, ["none.txt"]),
    "a work directory below a link to nowhere": (
        lambda folder: (folder / "link").symlink_to("nowhere")
        or ["--work-dir", folder / "link" / "work"],
        3, ["/link: is a link to a place that does not exist"],
    ),
    "another release": (another_release, 3, ["is not the result of this request"]),
    "no noise and a budget": (lambda folder: ["--non-private"], 2, ["--non-private", "--epsilon"]),
}  # fmt: skip
# Options without a proof of privacy, or of no use, and what the one line must say.
WITHOUT_PROOF: dict[tuple[object, ...], tuple[str, ...]] = {
    ("--adjacency", "add-remove"): ("--nominal-n",),
    ("--nominal-n", 10): ("public and needs no stand-in",),
    ("--privacy", "label", "--method", "naive"): ("not for label privacy",),
    ("--method", "nonsense"): ("no such method",),
    ("--method", "sub-samp-reuse-cov"): ("--subsample",),
    ("--subsample", 10, "--method", "ssp"): ("--subsample",),
    ("--ridge", 1, "--shrinkage", "known-noise"): ("exclude each other",),
    ("--gamma", 0.2): ("--gamma",),
    ("--non-private", "--gamma", 0.5): ("--gamma", "without noise"),
    ("--non-private", "--method", "ada-ssp-budget"): ("--method", "without noise"),
    ("--non-private", "--row-norm", 0.5): ("--row-norm", "exclude each other"),
    ("--non-private", "--shrinkage", "known-noise"): ("--shrinkage", "without noise"),
    ("--non-private", "--subsample", 10): ("--subsample", "exclude each other"),
}


N_PUBLIC_WARNINGS = 4  # no component, no genome build, few variants, accepted noise


def ledger_events(cohort):
    if not cohort.ledger.exists():
        return []
    with sqlite3.connect(cohort.ledger) as database:
        return database.execute("SELECT * FROM events").fetchall()


@pytest.mark.parametrize("name", thinned(CASES, every=3))
def test_refused_before_the_ingest_and_before_spending(cohort, name):
    spoil, code, words = CASES[name]
    options = spoil(cohort.folder)
    spent, files = ledger_events(cohort), sorted(cohort.folder.rglob("*"))
    refused(cohort.release(*options, "--dry-run"), code, *words)
    assert sorted(cohort.folder.rglob("*")) == files
    refused(cohort.release(*options), code, *words)
    assert not list(cohort.folder.rglob("genotypes.zarr*"))
    assert ledger_events(cohort) == spent


# Mistakes of unit and code, as phenotypes T and CASE of person i; a warning, and their number.
GROSS = {
    "100 times too large": (
        lambda i: (100 * (i % 5 + 1), i % 2),
        f"T: 100.0% of {N} values lie",
        1,
    ),
    "a code of missing values": (
        lambda i: (-999 if i == 7 or i == 9 else i % 5, i % 2),
        f"T: {200 / N:.1f}% of {N} values lie outside of the bounds 0 and 4",
        1,
    ),
    "no control": (lambda i: (i % 5, 1), f"CASE: {N} cases among {N} people", 1),
}


@pytest.mark.parametrize("name", GROSS)
def test_gross_mistakes_are_told_by_the_plan_and_refused_nowhere(cohort, name, monkeypatch):
    values, said, n_warnings = GROSS[name]

    def write(of_person):
        rows = [
            f"f{i}\tp{i}\t{t:g}\t{case}" for i, (t, case) in enumerate(map(of_person, range(N)))
        ]
        (cohort.folder / "pheno.tsv").write_text("\n".join(["FID\tIID\tT\tCASE", *rows]) + "\n")

    bounds = ["name lower upper mean sd", "T 0 4 2 1", "CASE 0 1 .5 .5"]
    (cohort.folder / "bounds.tsv").write_text("\n".join(bounds) + "\n")
    write(lambda i: (i % 5, i % 2))
    right = succeeded(cohort.release("--dry-run")).stderr
    write(values)
    wrong = succeeded(cohort.release("--dry-run")).stderr
    assert said in wrong
    assert said not in right
    for lines, more in ((right, 0), (wrong, n_warnings)):
        ending = f"dry run: {N_PUBLIC_WARNINGS + more} warnings above, and nothing was changed"
        assert lines.splitlines()[-1] == ending
    succeeded(cohort.release())  # refused by no private value
    for path in filter(Path.is_file, cohort.out.rglob("*")):
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt") as file:
            assert said not in file.read()
    shutil.rmtree(cohort.out)
    monkeypatch.setenv("SLURM_JOB_ID", "1")  # its output file is public
    public = "stage plan: begins\nstage plan: ends\n"
    assert succeeded(cohort.release("--dry-run")).stderr == public


@pytest.mark.parametrize("options", WITHOUT_PROOF, ids=lambda words: " ".join(map(str, words)))
def test_combinations_without_a_proof_are_usage_errors(cohort, options):
    budget = [] if "--non-private" in options else BUDGET
    refused(cohort.release(*options, budget=budget), 2, *WITHOUT_PROOF[options])
    assert not cohort.ledger.exists() and not cohort.out.exists()


def test_a_missing_genome_build_is_warned_of(cohort):
    warning = "genome build unknown"
    assert warning in cohort.release("--dry-run").stderr
    assert warning not in cohort.release("--dry-run", "--genome-build", "NR").stderr
    refused(cohort.release("--dry-run", "--genome-build", "GRCh39"), 2, "GRCh39")


def test_accumulate_needs_a_budget_and_a_ledger(ingested):
    """Unless it is for a release without noise: phenotypes are adjusted with noise before."""
    nowhere = ["--ledger", ingested.folder / "bounds.tsv" / "ledger.sqlite", "--dry-run"]
    assert ingested.accumulate(*nowhere, "--non-private").exit_code == 0
    assert ingested.accumulate(*nowhere).exit_code == 3
    without = command(accumulate, *ingested.accumulation)
    refused(without, 2, "a private release needs --epsilon and --delta")
    assert not ingested.ledger.exists() and not ingested.work.exists()


def test_a_scheduler_is_asked_before_the_ingest_and_not_by_a_dry_run(cohort, monkeypatch):
    monkeypatch.setattr(workers, "_CONNECT_TIMEOUT_SECONDS", 2)
    options = "--scheduler", f"tcp://127.0.0.1:{free_ports(1)[0]}"
    succeeded(cohort.release(*options, "--dry-run"))
    refused(cohort.release(*options), 3, "--scheduler: no connection to a Dask scheduler")
    assert not list(cohort.folder.rglob("genotypes.zarr"))
    assert not cohort.ledger.exists()
