"""X, with heterozygous men, pseudo-autosomal regions, Y and MT: plink2's scores equal ours."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.acceptance_inputs import Published, RealSet, write_bounds
from support.filesets import copy_fileset
from support.readme_scores import assert_equal_scores, own_scores, readme_scores
from support.tiers import thinned


@dataclass(frozen=True)
class Scored:
    inputs: RealSet
    published: Published


@pytest.fixture(
    scope="module", params=thinned(["sexchr_PAR_codes", "sexchr_numeric_unknown_sex"], every=2)
)
def released(request, reference: Path, run, tmp_path_factory) -> Scored:
    folder = tmp_path_factory.mktemp(request.param)
    inputs = randomised(reference / "data/edge/plink_made" / request.param, folder)
    out = folder / "release"
    run(
        "gwas_release", *inputs.options, "--ref-freq", inputs.frequencies, "--ld-blocks",
        "window:20", "--non-private", "--out", out,
    )  # fmt: skip
    return Scored(inputs, Published(out))


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


@pytest.mark.oracle
def test_plink2_scores_equal_weights_times_dosages(released: Scored, plink2: str) -> None:
    run = partial(readme_scores, plink2, released.published.path, released.inputs.bfile)
    expected = own_scores(released.published.path, released.inputs.bfile).to_numpy()
    assert_equal_scores(run(["phenoA", "phenoB"]), expected)
    # Another model of X gives other scores, so that the command needs the option.
    other = run(["phenoA", "phenoB"], xchr_model="1")
    assert np.abs(other - expected).max() > 1e-2 * expected.std()


def test_the_release_states_its_chromosomes_and_how_men_are_coded_on_x(released: Scored) -> None:
    chromosomes = set(released.published.statement["chromosomes"])
    assert "X" in chromosomes and chromosomes <= {"X", "XY", "PAR1", "PAR2"}
    assert "men count as 0 or 2 copies" in (released.published.path / "README.txt").read_text()
