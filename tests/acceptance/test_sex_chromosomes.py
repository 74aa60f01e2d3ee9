"""X, pseudo-autosomal regions, Y and MT: plink2 scores equal weights times dosages.

The genotypes are random, with heterozygous men on X and missing calls. plink2 runs the command in
the release's README.txt.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from acceptance_inputs import Published, RealSet, write_bounds
from filesets import copy_fileset
from ridge_oracle import PRINTED_BY_PLINK2, Release, dosages_at_centre


@pytest.fixture(
    scope="module",
    params=["sexchr_PAR_codes", "sexchr_numeric_codes", "sexchr_numeric_unknown_sex"],
)
def released(request, reference: Path, run, tmp_path_factory) -> Release:
    folder = tmp_path_factory.mktemp(request.param)
    inputs = randomised(reference / "data/edge/plink_made" / request.param, folder)
    out = folder / "release"
    run("gwas_release", *inputs.options, "--ref-freq", inputs.frequencies, "--ld-blocks",
        "window:20", "--non-private", "--out", out)  # fmt: skip
    return Release(inputs, Published(out), with_frequencies=True, ridge=None)


def randomised(fileset: Path, folder: Path) -> RealSet:
    """Copy a fileset with random genotypes; write phenotypes, bounds and frequencies for it."""
    rng = np.random.default_rng(12)
    bfile = copy_fileset(fileset, folder / "cohort", random_genotypes=True)
    fam = pd.read_csv(bfile.with_suffix(".fam"), sep=r"\s+", header=None, dtype=str)
    for name in ("pheno", "covar"):
        table = pd.DataFrame({"FID": fam[0], "IID": fam[1]})
        for column in ("A", "B"):
            table[f"{name}{column}"] = rng.normal(size=len(fam))
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
        write_bounds(folder / f"{name}.tsv", folder / f"{name}.bounds.tsv")
    inputs = RealSet(
        "random", bfile, folder / "pheno.tsv", folder / "covar.tsv",
        folder / "pheno.bounds.tsv", folder / "covar.bounds.tsv", folder / "public.afreq",
    )  # fmt: skip
    panel = inputs.bim.rename(columns={"chrom": "#CHROM", "A2": "REF", "A1": "ALT"})
    panel["ALT_FREQS"], panel["OBS_CT"] = rng.uniform(0.05, 0.95, len(panel)), 686
    columns = ["#CHROM", "ID", "REF", "ALT", "ALT_FREQS", "OBS_CT"]
    panel[columns].to_csv(inputs.frequencies, sep="\t", index=False)
    return inputs


def scoring_command(release: Path) -> list[str]:
    """Return the command of README.txt as a list of words."""
    text = (release / "README.txt").read_text()
    start = text.index("plink2 ")
    return shlex.split(text[start : text.index("\n\n", start)].replace("\\\n", " "))


@pytest.mark.oracle
def test_plink2_scores_equal_weights_times_dosages(
    released: Release, plink2: str, tmp_path: Path
) -> None:
    command = [plink2, *scoring_command(released.published.path)[1:]]
    command[command.index("GENOTYPES")] = str(released.inputs.bfile)
    command[command.index("../scores")] = str(tmp_path / "scores")
    assert command[command.index("--xchr-model") + 1] == "2"
    subprocess.run(command, cwd=released.published.path, check=True, capture_output=True)
    found = pd.read_csv(tmp_path / "scores.sscore", sep=r"\s+")[["phenoA_SUM", "phenoB_SUM"]]
    weights = released.published.variant_weights.to_numpy(np.float64)
    expected = dosages_at_centre(released) @ weights
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        found, expected, rtol=PRINTED_BY_PLINK2, atol=PRINTED_BY_PLINK2 * scale
    )
    # Another model of X gives other scores, so that the command needs the option.
    command[command.index("--xchr-model") + 1] = "1"
    subprocess.run(command, cwd=released.published.path, check=True, capture_output=True)
    other = pd.read_csv(tmp_path / "scores.sscore", sep=r"\s+")[["phenoA_SUM", "phenoB_SUM"]]
    assert np.abs(other.to_numpy() - expected).max() > 1e-2 * expected.std()


def test_y_and_mt_are_left_out(released: Release) -> None:
    chromosomes = released.inputs.bim.set_index("ID")["chrom"]
    kept = chromosomes.loc[released.published.variant_weights.index]
    assert set(kept).isdisjoint({"Y", "24", "MT", "26"})
    assert len(chromosomes) - len(kept) == 9


def test_the_release_states_its_chromosomes_and_how_men_are_coded_on_x(released: Release) -> None:
    scoring = released.published.statement["scoring"]
    assert set(scoring["chromosomes"]) <= {"X", "XY", "PAR1", "PAR2"}
    assert "X" in scoring["chromosomes"]
    assert scoring["males_on_x"] == "0/2"
    assert "men count as 0 or 2 copies" in (released.published.path / "README.txt").read_text()


def test_scoring_files_name_chromosomes_as_the_catalog_does(released: Release) -> None:
    table = pd.read_csv(released.published.path / "pgs/phenoA.txt.gz", sep="\t", comment="#")
    assert set(table["chr_name"]) == {"X"}
    np.testing.assert_array_equal(
        table["chr_position"], released.inputs.bim.set_index("ID")["pos"].loc[table["rsID"]]
    )
