"""What finalize refuses before it pays, and what accumulate must sum although it looks empty."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_cohort import command

from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.payment_steps import AUDIT_EVENT

ROOT = Path(__file__).resolve().parents[2]
N, D = 44, 6


def run(name, *arguments):
    """Result of ``python -m pipelines.NAME ARGUMENTS``, run in this process."""
    return command(importlib.import_module(f"pipelines.{name}").main, *arguments)


def refused(result, code, words):
    assert result.exit_code == code, result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ") and words in last
    assert "Traceback" not in result.stderr


def write_cohort(folder, *, names=("QT1", "QT2"), seed=0):
    """44 people, 6 variants, of which the third is called in nobody and the fourth het in all."""
    rng = np.random.default_rng(seed)
    packed = rng.integers(0, 256, (D, N // 4), dtype=np.uint8)
    packed[2], packed[3] = 0x55, 0xAA
    prefix = folder / "cohort"
    prefix.with_suffix(".bed").write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    prefix.with_suffix(".bim").write_text(
        "".join(f"1\trs{seed}{j}\t0\t{j + 1}\tA\tG\n" for j in range(D))
    )
    prefix.with_suffix(".fam").write_text("".join(f"f{i}\tp{i}\t0\t0\t1\t-9\n" for i in range(N)))
    rows = [f"f{i}\tp{i}\t" + "\t".join(f"{x:.4f}" for x in rng.normal(size=2)) for i in range(N)]
    (folder / "pheno.tsv").write_text("\n".join(["FID\tIID\t" + "\t".join(names), *rows]) + "\n")
    bounds = [f"{name}\t-5\t5\t0\t1" for name in names]
    (folder / "bounds.tsv").write_text("\n".join(["name\tlower\tupper\tmean\tsd", *bounds]) + "\n")
    return prefix


def accumulate(folder, work, *options):
    return run(
        "accumulate", "--genotypes", folder / "genotypes.zarr", "--pheno", folder / "pheno.tsv",
        "--pheno-bounds", folder / "bounds.tsv", "--work-dir", work, *options,
    )  # fmt: skip


def finalize(folder, work, *options):
    return run(
        "finalize", "--work-dir", work, "--out", folder / "release", "--ledger",
        folder / "ledger.sqlite", "--epsilon", 1, "--delta", 1e-6, "--accept-noise", *options,
    )  # fmt: skip


def nothing_was_paid(folder):
    path = folder / "ledger.sqlite"
    if path.exists():
        with Ledger(path, create=False) as ledger:
            assert ledger.balances() == []
    assert not (folder / "release").is_dir() or not any((folder / "release").iterdir())


@pytest.fixture(scope="module")
def summed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summed")
    prefix = write_cohort(folder)
    assert run("ingest", "--bfile", prefix, "--out", folder / "genotypes.zarr").exit_code == 0
    result = accumulate(folder, folder / "work", "--ld-blocks", "window:1")
    assert result.exit_code == 0, result.stderr  # blocks of nothing but zeros included
    return folder


@pytest.fixture
def folder(summed, tmp_path):
    """A copy of a finished accumulation, to be tampered with."""
    copy = tmp_path / "copy"
    shutil.copytree(summed, copy)
    design = copy / "work" / "design.json"
    design.write_text(design.read_text().replace(str(summed), str(copy)))
    return copy


def test_a_tile_of_zeros_is_summed_and_released(folder):
    result = finalize(folder, folder / "work")
    assert result.exit_code == 0, result.stderr
    assert run("verify", folder / "release").exit_code == 0


def test_another_design_is_refused(folder):
    """Bounds that the summed rows were not clipped to would make a false guarantee."""
    other = folder / "other"
    assert accumulate(folder, other, "--ld-blocks", "window:1", "--non-private").exit_code == 0
    shutil.copy(folder / "work" / "design.json", other / "design.json")
    refused(finalize(folder, other), 3, "not the design")
    nothing_was_paid(folder)


def test_other_genotypes_at_the_same_place_are_refused(folder):
    write_cohort(folder, seed=1)
    shutil.rmtree(folder / "genotypes.zarr")
    made = run("ingest", "--bfile", folder / "cohort", "--out", folder / "genotypes.zarr")
    assert made.exit_code == 0
    refused(finalize(folder, folder / "work"), 3, "not the genotypes")
    nothing_was_paid(folder)


@pytest.mark.parametrize("damage", ["removed", "flipped"])
def test_damaged_statistics_are_refused(folder, damage):
    chunk = folder / "work" / "statistics.zarr" / "gram" / "0" / "c" / "0" / "0"
    if damage == "removed":
        chunk.unlink()
    else:
        content = bytearray(chunk.read_bytes())
        content[0] ^= 1
        chunk.write_bytes(bytes(content))
    refused(finalize(folder, folder / "work"), 3, "chunk")
    nothing_was_paid(folder)


def test_what_could_not_be_published_is_refused_before_it_is_paid(folder, tmp_path):
    (folder / "release").mkdir()
    refused(finalize(folder, folder / "work"), 3, "exists already")
    nothing_was_paid(folder)
    same_file = tmp_path / "names"
    same_file.mkdir()
    write_cohort(same_file, names=("BMI", "bmi"))
    result = run(
        "gwas_release", "--bfile", same_file / "cohort", "--pheno", same_file / "pheno.tsv",
        "--pheno-bounds", same_file / "bounds.tsv", "--out", same_file / "release", "--ledger",
        same_file / "ledger.sqlite", "--epsilon", 1, "--delta", 1e-6,
    )  # fmt: skip
    assert result.exit_code == 3
    nothing_was_paid(same_file)


def test_unclipped_statistics_are_never_made_private(folder):
    other = folder / "other"
    assert accumulate(folder, other, "--ld-blocks", "window:1", "--non-private").exit_code == 0
    refused(finalize(folder, other), 2, "never be private")
    nothing_was_paid(folder)


def test_a_second_name_for_the_same_people_opens_no_second_budget(folder):
    assert finalize(folder, folder / "work", "--cohort", "first").exit_code == 0
    again = run(
        "finalize", "--work-dir", folder / "work", "--out", folder / "second", "--ledger",
        folder / "ledger.sqlite", "--epsilon", 0.5, "--delta", 1e-6, "--cohort", "other",
        "--accept-noise",
    )  # fmt: skip
    refused(again, 6, "under another name")


def test_the_same_people_under_other_family_names_open_no_second_budget(folder):
    """Same IIDs, genotypes and values; only every FID is another."""
    assert finalize(folder, folder / "work").exit_code == 0
    renamed = folder / "renamed"
    renamed.mkdir()
    write_cohort(renamed)
    for name in ("cohort.fam", "pheno.tsv"):
        text = (renamed / name).read_text()
        (renamed / name).write_text(re.sub(r"^f\d+", "0", text, flags=re.MULTILINE))
    ingested = run("ingest", "--bfile", renamed / "cohort", "--out", renamed / "genotypes.zarr")
    assert ingested.exit_code == 0, ingested.stderr
    summed = accumulate(renamed, renamed / "work", "--ld-blocks", "window:1")
    assert summed.exit_code == 0, summed.stderr
    before = charges_of(folder)
    again = ["finalize", "--work-dir", renamed / "work", "--out", renamed / "release", "--ledger",
             folder / "ledger.sqlite", "--epsilon", 0.5, "--delta", 1e-6,
             "--accept-noise"]  # fmt: skip
    for cohort in ([], ["--cohort", "other"]):
        refused(run(*again, *cohort), 6, "these people have a budget under another name")
    assert charges_of(folder) == before
    assert not (renamed / "release").exists()


def test_a_budget_that_was_lowered_after_the_payment_is_named(folder):
    """Its own verification would reject the release; the noise stays paid for."""
    assert finalize(folder, folder / "work", "--cohort", "c").exit_code == 0
    shutil.rmtree(folder / "release")
    budget = ["set-budget", "--ledger", folder / "ledger.sqlite", "--cohort", "c", "--delta", 1e-6]
    assert run("ledger", *budget, "--epsilon", 0.5).exit_code == 0
    before = charges_of(folder)
    refused(finalize(folder, folder / "work", "--cohort", "c"), 6, "the budget was lowered")
    assert run("ledger", *budget, "--epsilon", 1).exit_code == 0
    assert finalize(folder, folder / "work", "--cohort", "c").exit_code == 0
    assert charges_of(folder) == before


def charges_of(folder):
    with Ledger(folder / "ledger.sqlite", create=False) as ledger:
        (balance,) = ledger.balances()
        return balance.charges


def test_a_release_of_another_request_is_refused_before_it_is_paid(folder):
    """Its charge is at hand in the work directory; but it is not what is asked for now."""
    assert finalize(folder, folder / "work").exit_code == 0
    with Ledger(folder / "ledger.sqlite") as ledger:
        ledger.set_budget(ledger.balances()[0].account, epsilon=10)
    refused(finalize(folder, folder / "work", "--epsilon", 2), 3, "exists already")
    assert len(charges_of(folder)) == 1
    again = finalize(folder, folder / "work")
    assert again.exit_code == 0, again.stderr
    assert "statistics: paid for before" in again.stderr


def test_payments_are_told_each_time(folder):
    """Moments open a budget, are found again at no cost, and are paid again where they are lost."""

    def release(*options):
        return run(
            "gwas_release", "--bfile", folder / "cohort", "--pheno", folder / "pheno.tsv",
            "--pheno-bounds", folder / "bounds.tsv", "--ledger", folder / "ledger.sqlite",
            "--delta", 1e-6, "--pheno-moments", "--out", folder / "release",
            "--work-dir", folder / "all", *options,
        )  # fmt: skip

    first = release("--epsilon", 1)
    assert first.exit_code == 0, first.stderr
    moments, statistics = charges_of(folder)
    assert f"phenotype means and sds: paid with charge {moments.id}" in first.stderr
    assert first.stderr.count("had no budget: it now has epsilon 1 ") == 1
    assert f"statistics: paid with charge {statistics.id}" in first.stderr
    with Ledger(folder / "ledger.sqlite") as ledger:
        ledger.set_budget(ledger.balances()[0].account, epsilon=10)
    refused(release("--epsilon", 2, "--out", folder / "other"), 3, "moments of another request")
    again = release("--epsilon", 1)
    assert f"phenotype means and sds: paid for before, with charge {moments.id}" in again.stderr
    assert len(charges_of(folder)) == 2
    (folder / "all" / "phenotype_moments.json").unlink()
    lost = release("--epsilon", 1)
    assert "phenotype means and sds: the noise that was paid for is lost: paid again" in lost.stderr


def test_a_payment_is_told_although_a_signal_waits(folder):
    """The signal that came while noise was drawn ends the command as soon as it is drawn."""
    script = f"""
import os, signal, sys
from primo_scale.cli import finalize
def stop(event, arguments):
    if event == {AUDIT_EVENT!r} and arguments == ("statistics stored",):
        os.kill(os.getpid(), signal.SIGTERM)
sys.addaudithook(stop)
finalize.main(sys.argv[1:])
"""
    words = ["--work-dir", "work", "--out", "release", "--ledger", "ledger.sqlite",
             "--epsilon", "1", "--delta", "1e-6", "--accept-noise"]  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert result.returncode == 5, result.stderr
    (charge,) = charges_of(folder)
    assert f"statistics: paid with charge {charge.id}" in result.stderr
    assert "had no budget" in result.stderr


@pytest.mark.parametrize(
    ("option", "place"),
    [("--work-dir", "release"), ("--work-dir", "release/work"), ("--ledger", "release/ledger")],
)
def test_nothing_private_may_lie_in_what_gets_published(folder, option, place):
    places = {"--work-dir": folder / "all", "--ledger": folder / "ledger.sqlite"}
    places[option] = folder / "elsewhere" / ".." / place
    result = run(
        "gwas_release", "--bfile", folder / "cohort", "--pheno", folder / "pheno.tsv",
        "--pheno-bounds", folder / "bounds.tsv", "--epsilon", 1, "--delta", 1e-6,
        "--out", folder / "release", *(word for pair in places.items() for word in pair),
    )  # fmt: skip
    refused(result, 2, f"{option}: is private, and lies in what gets published")
    nothing_was_paid(folder)
    assert not (folder / "release").exists()


def test_the_default_ledger_may_not_either(folder, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    result = run(
        "finalize", "--work-dir", folder / "work", "--epsilon", 1, "--delta", 1e-6,
        "--out", folder / "state",
    )  # fmt: skip
    refused(result, 2, "--ledger: is private, and lies in what gets published")
    assert not (folder / "state").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--subsample", N], "must be smaller than the cohort"),
        (["--subsample", 9, "--privacy", "label"], "X'X is public"),
        (["--subsample", 9, "--adjacency", "add-remove", "--privacy", "feature"], "replace-one"),
    ],
)
def test_a_subsample_that_no_release_could_use_is_not_summed(folder, options, words):
    other = folder / "other"
    refused(accumulate(folder, other, *options), 2, words)
    assert not (other / "statistics.zarr").exists()


@pytest.mark.parametrize("private", [True, False])
def test_a_damaged_release_is_not_said_to_be_published(folder, private):
    release = folder / "release"
    words = ["--work-dir", folder / "work", "--out", release, "--ledger", folder / "ledger.sqlite"]
    words += ["--epsilon", 1, "--delta", 1e-6, "--accept-noise"] if private else ["--non-private"]
    assert run("finalize", *words).exit_code == 0
    whole = (release / "weights.tsv.gz").read_bytes()
    (release / "weights.tsv.gz").write_bytes(whole[:-9])
    refused(run("finalize", *words), 3, "the release there is damaged")
    shutil.rmtree(release)
    again = run("finalize", *words)
    assert again.exit_code == 0, again.stderr
    assert (release / "weights.tsv.gz").read_bytes() == whole
    assert "published already" in run("finalize", *words).stderr
