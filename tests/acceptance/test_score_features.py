"""Releases that stack public scores: exact sums, folded weights, statements and refusals."""

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from support.acceptance_inputs import clipped_blocks, norms
from support.command_io import PANEL
from support.documents import read_document
from support.release_edits import problems, problems_in, rewrite
from support.small_cohort import PanelCohort, command, refused, succeeded

import primo_scale as ps
from primo_scale.cli.commands import finalize, ingest, verify
from primo_scale.genotypes.coding import MatchCounts, read_reference_frequencies, reference_coding
from primo_scale.genotypes.store import copies_of_hard_calls, open_genotype_store
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.panel.components import open_components
from primo_scale.panel.ld import open_ld_panel
from primo_scale.run import score_features
from primo_scale.run.design import load_design
from primo_scale.run.public_inputs import exact_weights
from primo_scale.run.work_directory import SCORE_FEATURES
from primo_scale.storage import groups
from primo_scale.verify.release import document_findings

N, D, K = 1501, 400, 12
SCORES = "--score-features"


def write_score(path, bim, weights, name="study"):
    """Write a scoring file of the PGS Catalog whose other alleles are the counted ones."""
    rows = zip(bim["ID"], bim["A2"], bim["A1"], (-weights).tolist(), strict=True)
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    head = f"#trait_reported={name}\nrsID\teffect_allele\tother_allele\teffect_weight\n"
    with gzip.open(path, "wt") as file:
        file.write(head + text)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scores")
    fixed = ("--genome-build", "GRCh37", SCORES, folder / "scores")
    cohort = PanelCohort(folder, N, *fixed, variants=D, phenotypes=3, heritability=0.5)
    columns = ["chrom", "ID", "cM", "pos", "A1", "A2"]
    bim = pd.read_csv(folder / "cohort.bim", sep="\t", names=columns)
    weights = np.random.default_rng(1).normal(size=(D, K)) * 10.0 ** np.arange(-3, K - 3) / D
    weights[300:, 4:] = 0
    (folder / "scores").mkdir()
    for number in range(K):
        part = np.flatnonzero(weights[:, number])
        path = folder / "scores" / f"PGS{number:06}.txt.gz"
        write_score(path, bim.iloc[part], weights[part, number])
    cohort.weights, cohort.bim = weights, bim
    succeeded(cohort.release())
    return cohort


@pytest.fixture(scope="module")
def work(cohort):
    return cohort.folder / "release.work"


def test_scores_are_the_standardised_ones_of_each_person(cohort, work):
    genotypes = open_genotype_store(work / "genotypes.zarr")
    packed = genotypes.read_packed(slice(0, D), slice(0, N))
    copies = copies_of_hard_calls(packed, N).T.astype(float)
    variants = genotypes.variants
    frequencies = read_reference_frequencies(Path(f"{PANEL}.afreq"), variants)
    centre = reference_coding(frequencies).centre_dosage
    centred = np.where(copies < 0, 0, copies - centre)
    sd = open_ld_panel((PANEL,), variants).scores(cohort.weights).std(axis=0)
    expected = np.clip(np.rint(centred @ cohort.weights / sd * 16), -127, 127)
    store = open_genotype_store(work / SCORE_FEATURES)
    found = store.read_packed(slice(0, K), slice(0, N)).T.astype(int) - 127
    assert (np.abs(found - expected) > 1).sum() == 0
    assert (found != expected).mean() < 0.001  # ties of rounding
    stated = read_document(cohort.folder / "release")["public_inputs"]["score_features"]
    np.testing.assert_allclose([each["sd"] for each in stated], sd, rtol=1e-5)
    assert 14 < found.std() < 18


def test_an_interrupted_store_of_chunks_is_written_again(cohort, work, tmp_path, monkeypatch):
    kept, write = [], score_features.write_features
    catch = lambda features, store: kept.append(features) or write(features, store)  # noqa: E731
    monkeypatch.setattr(score_features, "write_features", catch)
    succeeded(cohort.release())
    narrow = tmp_path / "genotypes.zarr"
    succeeded(command(ingest, "--bfile", cohort.prefix, "--out", narrow, "--chunk-samples", 400))
    features = replace(kept[0], path=tmp_path / "scores.zarr", chunk_shape=(5, 400))
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(groups, "flush", lambda group: 1 / 0)
        write(features, open_genotype_store(narrow))
    found = write(features, open_genotype_store(narrow))
    everyone = slice(0, K), slice(0, N)
    expected = open_genotype_store(work / SCORE_FEATURES).read_packed(*everyone)
    np.testing.assert_array_equal(found.read_packed(*everyone), expected)


def test_a_score_of_large_weights_coarsens_no_other():
    weights = np.array([[1.0, 1e12], [-0.3, 1.0]])
    found, step = exact_weights(np.arange(2), weights, np.ones(2), MatchCounts(2, 2))
    np.testing.assert_allclose((found.per_allele1 * step)[:, 0], weights[:, 0], rtol=1e-8)


def test_sums_are_those_of_the_clipped_scores(work):
    design = load_design(work / "design.json")
    store = open_genotype_store(work / SCORE_FEATURES)
    codes = store.read_packed(slice(0, K), slice(0, N)).astype(int) - 127
    each = open_components(work / "ld_components.zarr").map_of(0)
    scaled = np.floor((each.matrix.astype(int) @ codes) * each.multipliers[:, None] / 2**24 + 0.5)
    rows = [np.clip(scaled, -127, 127).astype(np.int64).T]
    x, record = clipped_blocks(rows, design.block_norms, design.row_norm)
    z = open_outcome_store(work / "outcomes.zarr").read_rows(slice(0, N))
    before = np.stack([norms(part) for part in rows], axis=1)
    z = design.clipping_rule.clip_outcomes(z, design.layout.n_fixed, record, before)
    sums = zarr.open_group(work / "statistics.zarr", mode="r")
    np.testing.assert_array_equal(np.triu(sums["gram/0"][:]), np.triu(x[0].T @ x[0]))
    np.testing.assert_array_equal(sums["cross/0"][:], x[0].T @ z.astype(np.int64))
    assert all(norms(part).max() <= design.row_norm for part in x)


def test_weights_of_variants_are_the_folded_stack(cohort):
    out = cohort.folder / "release"
    succeeded(command(verify, out))
    stack = pd.read_csv(out / "stack.tsv", sep="\t", skiprows=1, index_col=0)
    assert list(stack.columns) == ["QT1", "QT2", "QT3"] and stack.index[0] == "PGS000000"
    document = read_document(out)
    sd = np.array([each["sd"] for each in document["public_inputs"]["score_features"]])
    found = ps.open_release(out).weights
    expected = (cohort.weights / sd) @ stack.to_numpy()
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found[[*stack.columns]], expected, rtol=6e-3, atol=1e-6 * scale)
    assert document["cohort"]["n_variants"] == len(found) == D
    assert document["cohort"]["component_sizes"][0] <= K
    assert "stack.tsv" in (out / "report.html").read_text()
    assert "stack.tsv" in (out / "README.txt").read_text()


def test_the_same_command_finds_its_release(cohort, work):
    assert "published already" in succeeded(cohort.release()).stderr
    asked = ("--work-dir", work, *cohort.budget, "--out", cohort.folder / "other")
    refused(command(finalize, *asked), 2, "sums of scores", "--score-features")


def test_stacked_scores_are_measured_in_people_held_out(cohort):
    options = ("--hold-out", 0.2, "--rounds", 1, "--purge-intermediates")
    apart = cohort.released("apart", *options)
    assert not (cohort.folder / "apart.work" / SCORE_FEATURES).exists()
    assert read_document(apart)["hold_out"]["people"] == N // 5


def test_a_stack_without_noise_predicts_what_its_scores_do(cohort, tmp_path, monkeypatch):
    for name in ("S#2", "S.1", "S.2"):
        write_score(tmp_path / f"{name}.gz", cohort.bim, cohort.weights[:, 1])
    monkeypatch.setattr(cohort, "fixed", (SCORES, tmp_path))
    options = ("--non-private", "--keep", cohort.folder / "cohort.fam")
    release = ps.open_release(cohort.released("one", *options, budget=()))
    assert abs(np.corrcoef(release.weights["QT1"], cohort.weights[:, 1])[0, 1]) > 0.9999
    stated = release.document["public_inputs"]["score_features"]
    assert [each["name"] for each in stated] == ["S#2", "S", "S#3"]


def test_options_of_variants_are_refused(cohort):
    score = cohort.folder / "scores" / "PGS000001.txt.gz"
    for options in (("--prior-weights", score), ("--sumstats",), ("--ld-blocks", "window:9")):
        refused(cohort.release(*options, out="other"), 2, options[0], SCORES)


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "reuse-cov-proj"),
        ("--method", "reuse-cov-proj-x", "--privacy", "label"),
        ("--method", "reuse-cov-proj-y", "--privacy", "feature"),
        ("--method", "ada-ssp"),
        ("--shrinkage", "effect-variances"),
    ],
)
def test_methods_of_the_papers_take_scores(cohort, options):
    out = cohort.released("-".join(options[1:]).replace("--", ""), "--no-ld-components", *options)
    document = read_document(out)
    assert document["cohort"]["component_sizes"] == [K]
    assert document["cohort"]["block_sizes"] == [D]


def test_ancestry_of_a_score_is_that_of_its_variants(cohort):
    bim = cohort.bim.rename(columns={"chrom": "#CHROM", "A1": "ALT", "A2": "REF"})
    prefix = cohort.folder / "loadings"
    rows = bim[["#CHROM", "ID", "REF", "ALT"]]
    frequency = pd.read_csv(f"{PANEL}.afreq", sep="\t").set_index("ID")
    found = frequency.loc[bim["ID"]]
    same, shares = found["ALT"].to_numpy() == bim["ALT"], found["ALT_FREQS"].to_numpy()
    shares = np.where(same, shares, 1 - shares)
    counts = rows.assign(ALT_CTS=np.rint(1000 * shares).astype(int), OBS_CT=1000)
    counts.to_csv(f"{prefix}.acount", sep="\t", index=False)
    loading = np.random.default_rng(5).normal(size=D)
    path = prefix.with_name("loadings.eigenvec.allele")
    rows.assign(A1=rows["ALT"], PC1=loading).to_csv(path, sep="\t", index=False)
    bounds = cohort.folder / "pc-bounds.tsv"
    bounds.write_text("name\tlower\tupper\nPC1\t-1\t1\n")
    options = ("--pc-loadings", path, "--covar-bounds", bounds)
    cohort.released("ancestry", *options)
    slopes = np.load(cohort.folder / "ancestry.work" / "ancestry.npy")[:, 0]
    design = load_design(cohort.folder / "ancestry.work" / "design.json")
    # The component is the mean of loadings times standardised genotypes.
    p = np.rint(1000 * shares) / 1000
    sd = np.sqrt(2 * p * (1 - p))
    per_sd = np.divide(loading * 1.0, D)
    of_copies = np.where(sd > 0, per_sd * sd / (per_sd[sd > 0] ** 2).sum(), 0)
    scale = design.outcomes.covariates[-1].scale
    of_score = np.array([each.sd for each in design.features])
    expected = 16 * (cohort.weights.T @ of_copies) / of_score / scale
    np.testing.assert_allclose(slopes, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_scores_that_cannot_be_features_are_refused(cohort, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    cases = [(f"{cohort.prefix}.bim", "no scoring file"), (tmp_path / "empty", "holds no scoring")]
    one = cohort.weights[:, 1]
    scores = {"flat": 0 * one, "huge": 1e105 * one, "tiny": 1e-105 * one, "=cmd": one}
    for name, weights in scores.items():
        write_score(tmp_path / f"{name}.gz", cohort.bim, weights)
        cases.append((tmp_path / f"{name}.gz", "formula" if name == "=cmd" else "too little"))
    for scores, words in cases:
        monkeypatch.setattr(cohort, "fixed", (SCORES, scores))
        refused(cohort.release(out="other"), 3, words)
    assert not (cohort.folder / "other").exists()


def test_a_changed_stack_is_found(cohort, tmp_path):
    copied = shutil.copytree(cohort.folder / "release", tmp_path / "release")
    rewrite(copied, "stack.tsv", lambda text: text.replace("PGS000003", "PGS000099"))
    assert any("stack.tsv does not have one row" in each for each in problems(copied))
    document = read_document(copied)
    document["public_inputs"]["score_features"] = document["public_inputs"]["score_features"][:1]
    found = problems_in(document_findings(document))
    assert any("more columns than public scores" in each for each in found)
