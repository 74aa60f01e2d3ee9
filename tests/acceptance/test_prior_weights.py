"""Releases that build on public scores, through the commands, with simulated people."""

import gzip
import re

import numpy as np
import pandas as pd
import pytest
from support.command_io import PANEL, simulated
from support.small_cohort import command, refused, succeeded

import primo_scale as ps
from primo_scale.cli.commands import finalize, ingest, release
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.ledger.ledger import Ledger

BUDGET = ("--epsilon", 20, "--delta", 1e-7)
LITTLE_NOISE = ("--epsilon", 100, "--delta", 1e-7)
BUILD = ("--genome-build", "GRCh37")
NAMES = ("QT1", "QT2")
TRAITS = {"phenotypes": 2, "heritability": 0.5, "causal_fraction": 0.2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Statistics of a small cohort, and a release of a large one; the last release has no prior."""
    folder = tmp_path_factory.mktemp("prior")
    for name, seed, samples in (("small", 1, 1_000), ("public", 2, 2_000), ("fresh", 3, 1_000)):
        simulated(folder / name, samples, seed, variants=300, mean_segment=60, **TRAITS)
    run(folder, "public", folder / "public-release", budget=LITTLE_NOISE)
    run(folder, "small", folder / "alone", "--work-dir", folder / "work")
    return folder


def run(folder, cohort, out, *options, budget=BUDGET):
    tables = [f"--{kind}={folder / cohort}.{kind}.tsv" for kind in ("pheno", "pheno-bounds")]
    model = ("--ref-freq", f"{PANEL}.afreq", "--ld-blocks", "window:100")
    ledger = ("--ledger", folder / f"{cohort}.sqlite")
    inputs = ("--bfile", folder / cohort, *tables, *model, *ledger)
    return succeeded(command(release, *inputs, *budget, *BUILD, "--out", out, *options))


def finished(folder, out, *priors, options=()):
    """Finalize the small cohort again, from the same noise."""
    words = [word for prior in priors for word in ("--prior-weights", prior)]
    places = ("--work-dir", folder / "work", "--out", out, "--ledger", folder / "small.sqlite")
    return command(finalize, *places, *BUDGET, *BUILD, *words, *options)


def weights(directory):
    return ps.open_release(directory).weights[[*NAMES]].to_numpy()


@pytest.fixture(scope="module")
def with_prior(folder):
    out = folder / "with-prior"
    result = succeeded(finished(folder, out, folder / "public-release" / "weights.tsv.gz"))
    assert "300 of 300 variants matched" in result.stderr
    return out


def public_pgs(folder, trait="QT1"):
    return folder / "public-release" / "pgs" / f"{trait}.txt.gz"


def rewritten(path, target, change):
    """Copy a PGS file with a changed table, and another trait, so that it is of no phenotype."""
    text = gzip.decompress(path.read_bytes()).decode()
    text = text.replace("#trait_reported=QT", "#trait_reported=study of QT")
    comments = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    body = text.removeprefix(comments)
    rows = [line.split("\t") for line in body.splitlines()]
    table = change(pd.DataFrame(rows[1:], columns=rows[0]))
    target.write_text(comments + table.to_csv(sep="\t", index=False))
    return target


@pytest.mark.slow
def test_scores_predict_better_in_fresh_people_and_cost_no_budget(folder, with_prior):
    evaluation = ps.evaluate(
        weights=(folder / "alone", folder / "public-release", with_prior),
        bfile=(folder / "fresh",),
        pheno=folder / "fresh.pheno.tsv",
        out=folder / "evaluation",
    )
    r2 = np.array([result.measures.r2.value for result in evaluation.results]).reshape(3, 2)
    alone, public, both = r2
    # Both releases have the same noise, so that a prior that is not used gains nothing.
    assert (both - alone).mean() > 0.01
    assert (both > public - 0.05).all()
    with Ledger(folder / "small.sqlite", create=False) as ledger:
        assert [len(account.charges) for account in ledger.balances()] == [1]


def test_the_release_states_its_scores_and_verifies(folder, with_prior):
    assert ps.verify(with_prior).ok
    stated = ps.open_release(with_prior).document["estimation"]["public_scores"]
    assert [score["file"] for score in stated] == ["weights.tsv.gz"] * 2
    for name, score in zip(NAMES, stated, strict=True):
        (slope,) = score["slopes"]
        assert slope["phenotype"] == name
        assert slope["slope"] == pytest.approx(1, abs=4 * slope["standard_error"])
        assert slope["standard_error"] < 0.2
        assert (score["n_variants"], score["n_matched"]) == (300, 300)
    readme = (with_prior / "README.txt").read_text()
    assert "The weights build on public scores" in readme
    assert "weights.tsv.gz, 300 of 300 variants: QT1 " in readme
    assert "build on public scores" not in (folder / "alone" / "README.txt").read_text()


def test_a_score_of_no_phenotype_is_a_prior_of_all(folder, tmp_path):
    score = rewritten(public_pgs(folder), tmp_path / "score.txt", lambda table: table)
    succeeded(finished(folder, tmp_path / "out", score))
    (stated,) = ps.open_release(tmp_path / "out").document["estimation"]["public_scores"]
    own, other = stated["slopes"]
    assert [own["phenotype"], other["phenotype"]] == [*NAMES]
    assert abs(other["slope"]) < 0.6 < own["slope"]


REFUSALS = {
    "of a phenotype that is not released": ("QT3={score}", 2, "no such phenotype", "QT3"),
    "that does not exist": ("none.txt", 2, "no such file", "none.txt"),
    "with weights that are no numbers": ("{nan}", 3, "2 of 300 variants have a weight"),
    "of another genome build": ("{build}", 3, "positions are in GRCh38", "GRCh37"),
    "of other variants": ("{other}", 3, "0 of 300 variants of the score", "at least 10%"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_score_is_refused(folder, tmp_path, case):
    text, code, *words = REFUSALS[case]

    def with_nan(table):
        table.loc[:1, "effect_weight"] = "nan"
        return table

    def renamed(table):
        return table.assign(rsID="x" + table["rsID"])

    def without_names(table):
        return table.drop(columns="rsID")

    score = public_pgs(folder)
    files = {
        name: rewritten(score, tmp_path / f"{name}.txt", change)
        for name, change in (("nan", with_nan), ("other", renamed), ("build", without_names))
    }
    build = files["build"]
    build.write_text(re.sub("genome_build=.*", "genome_build=GRCh38", build.read_text()))
    given = text.format(score=score, **files)
    result = finished(folder, tmp_path / "out", given)
    refused(result, code, *words)
    assert not (tmp_path / "out").exists()


def test_weights_without_noise_are_no_public_score(folder, tmp_path):
    """They may be of the very cohort, and then a release of them would be without noise too."""
    exact, store = tmp_path / "exact", tmp_path / "top.zarr"
    run(folder, "small", exact, "--non-private", budget=())
    choice = ("--top", 40, "--ref-freq", f"{PANEL}.afreq", "--out", store)
    table, catalog = exact / "weights.tsv.gz", exact / "pgs" / "QT1.txt.gz"
    for score in (exact, table, catalog):
        refused(finished(folder, tmp_path / "out", score), 3, "is NOT PRIVATE", str(score))
    for score in (table, catalog):
        words = ("--bfile", folder / "small", "--extract-by-prior", score, *choice)
        refused(command(ingest, *words), 3, "is NOT PRIVATE", str(score))
    assert not (tmp_path / "out").exists() and not store.exists()


def test_a_score_chooses_the_variants_that_explain_most(folder, tmp_path):
    score, frequencies = public_pgs(folder), f"{PANEL}.afreq"
    store = tmp_path / "top.zarr"
    options = ("--extract-by-prior", score, "--top", 40, "--ref-freq", frequencies)
    result = succeeded(command(ingest, "--bfile", folder / "small", "--out", store, *options))
    assert "(not among the 40 most important of 300 that have a weight), 40 left" in result.stderr
    table = pd.read_csv(score, sep="\t", comment="#").set_index("rsID")
    p = pd.read_csv(frequencies, sep="\t").set_index("ID")["ALT_FREQS"]
    importance = (table["effect_weight"] ** 2 * 2 * p * (1 - p)).dropna()
    assert {*open_genotype_store(store).variants.identifier} == {*importance.nlargest(40).index}
