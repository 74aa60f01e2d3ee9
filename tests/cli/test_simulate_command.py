"""``python -m primo_scale simulate``: files other programs read, reproducible, in flat memory."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bed_reader import open_bed
from scipy import stats
from support.command_io import PANEL
from support.processes import run_program
from support.small_cohort import command, refused, succeeded

from primo_scale.cli.commands import simulate as main

TRAITS = (
    *("--phenotypes", 2, "--prevalence", 0.1),
    *("--heritability", 0.5, "--causal-fraction", 0.02),
)
SUFFIXES = (
    *(".bed", ".bim", ".fam", ".effects.tsv"),
    *(".covar.tsv", ".covar-bounds.tsv", ".pheno.tsv", ".pheno-bounds.tsv"),
)


def simulate(prefix, n_people, *options, seed=1):
    fixed = ["--bfile", PANEL, "--out", prefix, "--samples", n_people, "--seed", seed]
    return command(main, *fixed, *options)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("cohort") / "cohort"
    succeeded(simulate(prefix, 4_002, "--missing", 0.01, *TRAITS))
    return prefix


def test_bed_reader_reads_the_genotypes(cohort):
    with open_bed(f"{cohort}.bed") as bed, open_bed(f"{PANEL}.bed") as panel:
        dosages, reference = bed.read(dtype="float32"), panel.read(dtype="float32")
        assert dosages.shape == (4_002, 3_000)
        assert bed.sid.tolist() == panel.sid.tolist()
        assert bed.allele_1.tolist() == panel.allele_1.tolist()
        assert bed.iid[:2].tolist() == ["SIM1_1", "SIM1_2"]
    assert np.isnan(dosages).mean() == pytest.approx(0.01, rel=0.02)
    frequencies = np.nanmean(dosages, axis=0) / 2, reference.mean(axis=0) / 2
    assert np.corrcoef(*frequencies)[0, 1] > 0.999


@pytest.mark.oracle
def test_plink2_accepts_the_files_and_its_score_is_the_genetic_value(cohort, plink2, tmp_path):
    effects = pd.read_csv(f"{cohort}.effects.tsv", sep="\t")
    effects[effects["name"] == "QT1"].to_csv(tmp_path / "qt1.tsv", sep="\t", index=False)
    command = [plink2, "--bfile", cohort, "--pheno", f"{cohort}.pheno.tsv", "--1", "--validate"]
    command += ["--covar", f"{cohort}.covar.tsv", "--score", tmp_path / "qt1.tsv", "2", "3", "5"]
    command += ["header", "cols=+scoresums", "--threads", "1", "--out", tmp_path / "scored"]
    run_program(*command)
    scored = pd.read_csv(tmp_path / "scored.sscore", sep=r"\s+")
    fit = stats.linregress(scored["SCORE1_SUM"], scored["QT1"])
    # 1 % of calls are missing: plink2 puts the cohort's mean there, and the slope stays 1.
    assert abs(fit.slope - 1) < 5 * fit.stderr
    assert fit.rvalue**2 == pytest.approx(0.5, abs=0.06)  # 5 standard errors
    assert set(scored["CASE"]) == {1, 2}  # plink2 took it for a binary trait


def test_same_options_same_bytes(cohort, tmp_path):
    simulate(tmp_path / "again", 4_002, "--missing", 0.01, *TRAITS)
    for suffix in SUFFIXES:
        again = Path(f"{tmp_path / 'again'}{suffix}").read_bytes()
        assert again == Path(f"{cohort}{suffix}").read_bytes(), suffix


def test_other_people_with_the_same_effects(cohort, tmp_path):
    simulate(tmp_path / "fresh", 4_002, *TRAITS, seed=2)
    for suffix, equal in ((".effects.tsv", True), (".bed", False), (".pheno.tsv", False)):
        fresh = Path(f"{tmp_path / 'fresh'}{suffix}").read_bytes()
        assert (fresh == Path(f"{cohort}{suffix}").read_bytes()) is equal, suffix


@pytest.mark.parametrize(
    ("options", "exit_code", "message"),
    [
        (["--missing", "1"], 2, "--missing: is out of range (got 1; limit [0, 1))"),
        (["--bfile", "no-such-panel"], 3, "no-such-panel.bim: no such file"),
        *(
            ([f"--{name}", value], 2, f"--{name}: is out of range (got {value}; limit ")
            for name, value in (("heritability", "0.99"), ("prevalence", "nan"))
        ),
    ],
)
def test_bad_options(options, exit_code, message, tmp_path):
    result = simulate(tmp_path / "bad", 10, *TRAITS, *options)
    assert result.exit_code == exit_code
    assert message in result.output
    assert not list(tmp_path.iterdir())


def test_files_of_other_people_are_kept(tmp_path):
    prefix = tmp_path / "cohort"
    for _ in range(2):  # a simulated cohort is made again
        succeeded(simulate(prefix, 10))
    (tmp_path / "cohort.fam").write_text("F1 I1 0 0 1 -9\n")
    genotypes = (tmp_path / "cohort.bed").read_bytes()
    words = "cohort.fam: is not of a simulated cohort and would be overwritten"
    refused(simulate(prefix, 20), 3, words)
    assert (tmp_path / "cohort.bed").read_bytes() == genotypes


def test_a_disk_without_room_is_found_out_first(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    refused(simulate(tmp_path / "big", 10), 4, "KiB needed")
    assert not list(tmp_path.iterdir())
