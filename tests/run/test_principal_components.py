"""Principal components projected from public loadings: values, bounds and releases."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.filesets import COMPONENTS as NAMES
from support.filesets import name_variants, write_fileset_of, write_loadings
from support.processes import run_program
from support.small_cohort import Cohort, refused, succeeded, write_cohort
from support.tiers import thinned

import primo_scale as ps
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.run.design import load_design
from primo_scale.run.public_inputs import project, read_loadings


def ingested(folder: Path, dosages: np.ndarray, chunks: tuple[int, int] = (5, 8)):
    """Return the genotype store of dosages, shape (variants, people), -1 where missing."""
    folder.mkdir()
    name_variants(write_fileset_of(folder / "people", dosages, range(1, len(dosages) + 1)))
    return ps.ingest(
        bfile=folder / "people",
        out=folder / "g.zarr",
        chunk_variants=chunks[0],
        chunk_samples=chunks[1],
    )


@pytest.fixture
def panel(tmp_path):
    random = np.random.default_rng(1)
    frequency, loadings = random.integers(1, 999, 23) / 1000, random.normal(size=(23, 2))
    return frequency, loadings, write_loadings(tmp_path / "panel", frequency, loadings)


def some_dosages(seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 3, (23, 45))


@pytest.mark.slow
@pytest.mark.oracle
def test_components_are_those_of_plink2(reference, plink2, tmp_path):
    everybody = reference / "data/real/hapmap3_chr1-10/hm3_chr1-10"
    people = pd.read_csv(f"{everybody}.fam", sep=r"\s+", header=None, dtype=str)

    run = partial(run_program, plink2, "--threads", 1)
    for name, chosen in (("panel", people[::2]), ("cohort", people[1::2])):
        chosen[[0, 1]].to_csv(tmp_path / f"{name}.txt", sep=" ", header=False, index=False)
        run("--bfile", everybody, "--keep", tmp_path / f"{name}.txt", "--make-bed", "--out",
            tmp_path / name)  # fmt: skip
    panel = str(tmp_path / "panel")
    run("--bfile", panel, "--freq", "counts", "--pca", "allele-wts", "3", "--out", panel)
    # The cohort has other alleles counted, and not all variants of the panel.
    variants = pd.read_csv(f"{panel}.bim", sep="\t", header=None)
    swapped = np.random.default_rng(3).random(len(variants)) < 0.5
    counted = variants[[1, 4]].assign(a=np.where(swapped, variants[4], variants[5]))[["a", 1]]
    counted.to_csv(tmp_path / "ref.txt", sep="\t", header=False, index=False)
    variants[1][: 3 * len(variants) // 4].to_csv(tmp_path / "v.txt", header=False, index=False)
    run("--bfile", tmp_path / "cohort", "--extract", tmp_path / "v.txt", "--ref-allele", "force",
        tmp_path / "ref.txt", "1", "2", "--make-bed", "--out", tmp_path / "fewer")  # fmt: skip
    for prefix in (panel, str(tmp_path / "fewer")):
        run("--bfile", prefix, "--read-freq", f"{panel}.acount", "--score-col-nums", "6-8",
            "--score", f"{panel}.eigenvec.allele", "2", "5", "header-read", "no-mean-imputation",
            "variance-standardize", "cols=+scoresums", "--out", prefix)  # fmt: skip
    store = ps.ingest(bfile=tmp_path / "fewer", out=tmp_path / "g.zarr")
    loadings = read_loadings(Path(f"{panel}.eigenvec.allele"), None, store)
    found = project(tmp_path / "pc.zarr", store, loadings).array[:]
    sums = pd.read_csv(tmp_path / "fewer.sscore", sep="\t")[[f"{name}_SUM" for name in NAMES]]
    assert loadings.weights.counts.swapped > 1000
    expected = sums.to_numpy() / (2 * store.n_variants)  # both alleles of each variant
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    lower, upper = np.array([(b.lower, b.upper) for b in loadings.bounds]).T
    assert (((found > lower) & (found < upper)).mean(axis=0) > 0.99).all()
    assert (upper - lower < 1.3 * np.ptp(expected, axis=0) + 0.15).all()


def test_a_component_is_a_function_of_one_person(tmp_path, panel):
    dosages = some_dosages()
    others = np.where(np.arange(45) == 7, dosages, some_dosages(seed=9))
    rows = []
    for name, genotypes, chunks in (("a", dosages, (5, 8)), ("b", others, (23, 44))):
        store = ingested(tmp_path / name, genotypes, chunks)
        loadings = read_loadings(panel[2], None, store)
        rows.append(project(tmp_path / f"{name}-pc.zarr", store, loadings).array[:])
    assert rows[0][7].tolist() == rows[1][7].tolist()  # the same bits
    assert not np.isclose(rows[0], rows[1]).all()
    frequency, loadings, _ = panel
    z = (dosages - 2 * frequency[:, None]) / np.sqrt(2 * frequency * (1 - frequency))[:, None]
    expected = np.where(dosages < 0, 0, z).T @ loadings / 23
    np.testing.assert_allclose(rows[0], expected, rtol=0, atol=1e-4)


def test_no_genotypes_exceed_the_bound_on_covariates(tmp_path, panel):
    """The bounds are asymmetric, and loadings may be far too large for them."""
    cohort = Cohort(write_cohort(tmp_path / "cohort", n_people=400, n_variants=23))
    large = write_loadings(tmp_path / "large", panel[0], 20 * panel[1])
    bounds = tmp_path / "c.tsv"
    bounds.write_text("name\tlower\tupper\tmean\nPC2\t-0.5\t3\t0.1\n")
    cohort.ingest()
    result = succeeded(cohort.accumulate("--pc-loadings", large, "--covar-bounds", bounds))
    assert "No covariate is named" not in result.stderr
    coding = load_design(cohort.work / "design.json").outcomes
    assert [c.name for c in coding.covariates] == ["PC1", "PC2"]
    assert (coding.covariates[1].lower, coding.covariates[1].upper) == (-0.5, 3)
    store = open_outcome_store(cohort.work / "unadjusted_outcomes.zarr")
    fixed = store.read_rows(slice(None)).astype(int)[:, :3]
    assert (np.abs(fixed) <= coding.constant).all()
    assert (np.abs(fixed).max(axis=0) == coding.max_abs[:3]).all()  # both ends are reached
    assert fixed[:, 1:].min() < 0 < fixed[:, 1:].max()


def edit_loadings(prefix: Path, dropped: str = "PC9", **columns: str) -> None:
    """Leave out columns of the loadings, by the beginning of their names, or replace some."""
    path = prefix.with_name("panel.eigenvec.allele")
    table = pd.read_csv(path, sep="\t", dtype=str).assign(**columns)
    kept = [name for name in table.columns if not name.startswith(dropped)]
    table[kept].to_csv(path, sep="\t", index=False)


def take_a_name_of_the_cohort(prefix: Path) -> None:
    scores = prefix.with_suffix(".sscore")
    scores.write_text(scores.read_text().replace("\nb\t", "\np7\t"))


FAULTS = {
    "plink2 --freq counts": lambda prefix: prefix.with_suffix(".acount").unlink(),
    "--covar-bounds": lambda prefix: prefix.with_suffix(".sscore").unlink(),
    "panel.sscore: has people with the IID of somebody in the cohort": take_a_name_of_the_cohort,
    "no finite": lambda prefix: edit_loadings(prefix, dropped="PC"),
    "is malformed": lambda prefix: edit_loadings(prefix, PC1="x"),
    "have 0 of": lambda prefix: edit_loadings(prefix, ID="rs9999999"),
}


@pytest.mark.parametrize("words", thinned(FAULTS, every=2))
def test_unusable_loadings_are_refused(tmp_path, panel, words):
    cohort = Cohort(write_cohort(tmp_path / "cohort", n_variants=23))
    cohort.ingest()
    FAULTS[words](tmp_path / "panel")
    refused(cohort.accumulate("--pc-loadings", panel[2]), 3, words)
