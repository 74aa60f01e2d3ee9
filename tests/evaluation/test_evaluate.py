"""``primo-scale evaluate`` on simulated people: scores of plink2, matching, files and refusals."""

import gzip
import json
import re
import shutil
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from support.command_io import PANEL, simulated
from support.filesets import name_variants, write_fileset_of, write_loadings
from support.readme_scores import own_scores, readme_scores
from support.small_cohort import command, refused, succeeded

import primo_scale as ps
from primo_scale.cli.commands import evaluate
from primo_scale.evaluation import scores
from primo_scale.evaluation.scores import match_weights, open_files, read_scoring_file, score_people
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import HARD_CALLS
from primo_scale.run.public_inputs import components_of

NAMES = ("QT1", "QT2", "CASE")
OPPOSITE = str.maketrans("ACGT", "TGCA")


def request_of(folder, train, out):
    tables = ("pheno", "pheno_bounds", "covar", "covar_bounds")
    return ps.ReleaseRequest(
        bfile=folder / "train",
        **{name: folder / f"{train}.{name.replace('_', '-')}.tsv" for name in tables},
        ref_freq=f"{PANEL}.afreq",
        non_private=True,
        out=out,
        ledger=folder / "ledger.sqlite",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluation")
    for name, seed in (("train", 1), ("fresh", 2)):
        simulated(
            folder / name, 500, seed, variants=200, phenotypes=2, prevalence=0.3,
            heritability=0.5, causal_fraction=0.2, missing=0.02,
        )  # fmt: skip
    ps.release(request_of(folder, "train", folder / "release"))
    fam = pd.read_csv(folder / "fresh.fam", sep=r"\s+", header=None)
    pd.DataFrame({"IID": fam[1], "group": np.where(np.arange(500) < 200, "A", "B")}).to_csv(
        folder / "groups.tsv", sep="\t", index=False
    )
    return folder


def run(folder, out, *options):
    pheno = ("--pheno", folder / "fresh.pheno.tsv")
    return command(evaluate, *pheno, *options, "--out", out)


def people(folder):
    return ("--bfile", folder / "fresh")


def table(out):
    frame = pd.read_csv(out / "evaluation.tsv", sep="\t", skiprows=1)
    return frame.set_index(["weights", "phenotype", "group"]).sort_index()


@pytest.fixture(scope="module")
def evaluated(folder):
    out, release = folder / "evaluation", folder / "release"
    weights = (release, release / "weights.tsv.gz", release / "pgs" / "QT1.txt.gz")
    options = [word for path in weights for word in ("--weights", path)]
    options += ["--covar", folder / "fresh.covar.tsv", "--groups", folder / "groups.tsv"]
    result = succeeded(run(folder, out, *people(folder), *options, "--prevalence", "CASE=0.3"))
    assert "200 of 200 variants matched" in result.stderr
    assert re.search(
        r"^\S+/release: QT1, all, n = \d+: beyond covariates r 0\.\d+, R\^2 0\.\d+ \(.*\), "
        r"slope \d\S+ \(.*\); not adjusted R\^2 0\.\d+ \(.*\)$",
        result.stdout,
        re.MULTILINE,
    )
    assert "predicts the opposite" not in result.stderr
    return out


def phenotypes(folder):
    return pd.read_csv(folder / "fresh.pheno.tsv", sep="\t").set_index("IID")[[*NAMES]]


def scores_of(path, folder, names=NAMES):
    genotypes = open_files(SourceFiles((folder / "fresh",)))
    matched = match_weights(read_scoring_file(path, names), genotypes.variants)
    return score_people(genotypes, matched), matched.counts


@pytest.mark.oracle
def test_scores_are_those_of_plink2(folder, plink2, tmp_path):
    shutil.copytree(folder / "release", tmp_path / "release")
    found, _ = scores_of(folder / "release", folder)
    expected = readme_scores(plink2, tmp_path / "release", folder / "fresh", NAMES)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_scores_do_not_depend_on_the_chunks(folder, monkeypatch):
    genotypes = open_files(SourceFiles((folder / "fresh",)))
    matched = match_weights(read_scoring_file(folder / "release", NAMES), genotypes.variants)
    whole = score_people(genotypes, matched)
    monkeypatch.setattr(scores, "_PEOPLE_PER_BATCH", 48)
    read = Mock(wraps=genotypes.read)
    in_parts = score_people(replace(genotypes, read=read, variants_per_read=7), matched)
    assert max(len(call.args[0]) for call in read.mock_calls) == 7
    np.testing.assert_allclose(in_parts, whole, rtol=1e-12)


@pytest.mark.slow
def test_results_are_those_of_independent_tools(folder, evaluated):
    predicted, truth = own_scores(folder / "release", folder / "fresh"), phenotypes(folder)
    predicted, found = predicted.loc[truth.index], table(evaluated)
    own = found.loc[str(folder / "release")]
    groups = pd.read_csv(folder / "groups.tsv", sep="\t", index_col="IID")["group"]
    for name in NAMES:
        members = {"all": truth.index, "A": groups.index[groups == "A"]}
        for group, index in members.items():
            r2 = np.corrcoef(predicted.loc[index, name], truth.loc[index, name])[0, 1] ** 2
            assert own.loc[(name, group), "r2"] == pytest.approx(r2, rel=1e-5)
            assert own.loc[(name, group), "n"] == len(index)
    auc = roc_auc_score(truth["CASE"], predicted["CASE"])
    assert own.loc[("CASE", "all"), "auc"] == pytest.approx(auc, rel=1e-5)
    assert own.loc[("QT1", "all"), ["n_cases", "auc", "liability_r2"]].isna().all()
    assert (own["r2_lower"] <= own["r2"]).all()
    liability = own["liability_r2"].dropna()
    assert (liability > own.loc[liability.index, "r2"]).all()


def test_the_calibration_uses_the_releases_intercept_and_covariates(folder, evaluated):
    content = json.loads((evaluated / "evaluation.json").read_text())
    offset = {result["weights"]: result["measures"]["offset"] for result in content["results"]}
    assert list(offset.values()) == [True, False, False]
    covariates = pd.read_csv(folder / "fresh.covar.tsv", sep="\t").set_index("IID")
    weights = ps.open_release(folder / "release").covariates["QT2"]
    predicted = own_scores(folder / "release", folder / "fresh").loc[covariates.index, "QT2"]
    fixed = weights["(intercept)"] + covariates[["age", "sex"]] @ weights[["age", "sex"]]
    slope, intercept = np.polyfit(predicted, phenotypes(folder)["QT2"] - fixed, 1)
    found = table(evaluated).loc[(str(folder / "release"), "QT2", "all")]
    assert found["slope"] == pytest.approx(slope, rel=1e-5)
    assert found["intercept"] == pytest.approx(intercept, rel=1e-4)


def test_a_pgs_file_is_scored_like_the_weights_it_was_made_from(folder, evaluated):
    weights, catalog = (folder / "release" / name for name in ("weights.tsv.gz", "pgs/QT1.txt.gz"))
    found = table(evaluated).drop(columns="intercept")
    assert found.loc[(str(catalog),)].equals(found.loc[(str(weights),)].loc[["QT1"]])


def test_every_file_carries_the_stamp(folder, evaluated):
    stamp = f"NOT PRIVATE: computed from the people of {folder / 'fresh'}, who must have consented"
    assert {path.name for path in evaluated.iterdir()} == {"evaluation.json", "evaluation.tsv"}
    for path in evaluated.iterdir():
        assert path.read_text().count("NOT PRIVATE: computed from") == 1
    assert json.loads((evaluated / "evaluation.json").read_text())["stamp"] == stamp


def test_alleles_are_matched_in_any_order_and_on_either_strand(folder, tmp_path):
    rows = pd.read_csv(folder / "release" / "weights.tsv.gz", sep="\t", dtype={"ID": str})
    rows = rows[["ID", "effect_allele", "other_allele", "chrom", "pos", "QT1"]]
    kept = rows.copy().astype(str)
    kept.insert(5, "epsilon=1", ".")
    alleles = ["effect_allele", "other_allele"]
    kept.loc[:49, alleles] = kept.loc[:49, alleles[::-1]].to_numpy()
    kept.loc[:49, "QT1"] = (-rows.loc[:49, "QT1"]).map("{:.9g}".format)
    for name in alleles:
        kept.loc[25:74, name] = kept.loc[25:74, name].str.translate(OPPOSITE)
    kept.loc[[80, 81], "effect_allele"] = "N"
    kept.loc[[90, 91, 92], "ID"] = ["x1", "x2", "."]
    path = tmp_path / "other.tsv"
    path.write_text("# a comment\n" + kept.to_csv(sep="\t", index=False))
    found, counts = scores_of(path, folder, ("QT1",))
    assert (counts.total, counts.matched, counts.mismatched, counts.absent) == (200, 195, 2, 3)
    assert (counts.swapped, counts.flipped) == (50, 50)
    left_out = rows.assign(QT1=rows["QT1"].where(~rows.index.isin([80, 81, 90, 91, 92]), 0))
    left_out.insert(5, "epsilon=1", ".")
    left_out.to_csv(tmp_path / "same.tsv", sep="\t", index=False)
    expected, _ = scores_of(tmp_path / "same.tsv", folder, ("QT1",))
    constant = -2 * rows.loc[:49, "QT1"].sum()  # of the swapped alleles
    np.testing.assert_allclose(found - expected, np.full_like(found, constant), rtol=1e-7)


@pytest.fixture(scope="module")
def plink_release(folder):
    for kind in ("covar", "covar-bounds"):
        shutil.copy(folder / f"train.{kind}.tsv", folder / f"plink.{kind}.tsv")
    pheno, bounds = (
        pd.read_csv(folder / f"train.{kind}.tsv", sep="\t") for kind in ("pheno", "pheno-bounds")
    )
    bounds.loc[bounds["name"] == "CASE", ["lower", "upper", "mean"]] += 1
    pheno["CASE"] += 1
    for kind, found in (("pheno", pheno), ("pheno-bounds", bounds)):
        found.to_csv(folder / f"plink.{kind}.tsv", sep="\t", index=False, na_rep="NA")
    ps.release(request_of(folder, "plink", folder / "plink"))
    return folder / "plink"


@pytest.mark.parametrize("weights", ["release", "plink", "weights.tsv.gz", "pgs/CASE.txt.gz"])
def test_the_coding_of_a_binary_trait_is_that_of_the_table(
    weights, folder, plink_release, tmp_path
):
    plain = pd.read_csv(folder / "fresh.pheno.tsv", sep="\t")
    cases, missing = plain["CASE"], plain.index < 50
    assert {*cases} == {0, 1}
    codings = {
        "zero-one": cases.mask(missing, -9),
        "one-two": (cases + 1).mask(missing, -9),
        "zero-one-two": (cases + 1).mask(missing, 0),
    }
    path = {"release": folder / "release", "plink": plink_release}.get(
        weights, folder / "release" / weights
    )
    options = ["--weights", path, *people(folder), "--prevalence", "CASE=0.3"]
    options += ["--covar", folder / "fresh.covar.tsv", "--pheno", tmp_path / "pheno.tsv"]
    results = []
    for name, values in codings.items():
        plain.assign(CASE=values).to_csv(tmp_path / "pheno.tsv", sep="\t", index=False)
        succeeded(command(evaluate, *options, "--out", tmp_path / name))
        results.append(table(tmp_path / name).xs("CASE", level="phenotype"))
        assert results[-1]["n"].item() == 450
        assert results[-1]["n_cases"].item() == cases[~missing].sum()
    if not path.is_dir():  # the intercept of a release's calibration is in its own coding
        results = [found.drop(columns="intercept") for found in results]
    for found in results[1:]:
        pd.testing.assert_frame_equal(found, results[0])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (lambda qt: qt * np.nan, "nobody has a value"),
        (lambda qt: qt * 0 + 2, "the phenotype does not vary, it is 2 in all 500 people"),
        (lambda qt: qt.where(qt.index < 12), "there are 12 people, and a result needs at least 30"),
        (lambda qt: (qt.index < 7) * 1.0, "7 people have the value 1, and a result needs at least"),
    ],
)
def test_the_reason_why_a_score_has_no_result_is_named(values, reason, folder, tmp_path):
    plain = pd.read_csv(folder / "fresh.pheno.tsv", sep="\t")
    pheno, weights = tmp_path / "pheno.tsv", folder / "release" / "pgs" / "QT1.txt.gz"
    table = plain[["FID", "IID"]].assign(QT1=values(plain["QT1"]))
    table.to_csv(pheno, sep="\t", index=False, na_rep="NA")
    options = ["--weights", weights, "--pheno", pheno, *people(folder), "--out", tmp_path / "out"]
    result = command(evaluate, *options)
    refused(result, 3, f"no score has a result; QT1 in group all: {reason}")
    assert f"QT1.txt.gz: no result for QT1 in group all: {reason}" in result.stderr


@pytest.fixture(scope="module")
def structured(tmp_path_factory):
    """Two populations of other means; within them the score explains half of HERITABLE alone."""
    folder, rng = tmp_path_factory.mktemp("structured"), np.random.default_rng(1)
    n_variants, sizes = 400, (500, 60)
    population = np.repeat([0, 1], sizes)
    frequency = rng.uniform(0.25, 0.75, n_variants)
    difference = rng.normal(0, 0.1, n_variants)
    of_people = np.clip(frequency + np.outer(population - 0.5, difference), 0.05, 0.95)
    dosages = rng.binomial(2, of_people).T
    dosages = np.where(rng.random(dosages.shape) < 0.01, -1, dosages)
    name_variants(write_fileset_of(folder / "people", dosages, range(1, n_variants + 1)))
    sd = np.sqrt(2 * frequency * (1 - frequency))
    write_loadings(folder / "panel", frequency, (difference / sd)[:, None])
    weights = rng.normal(size=n_variants) + 10 * difference
    lines = [f"rs{j} A G {weight:.9g}" for j, weight in enumerate(weights)]
    head = "rsID effect_allele other_allele effect_weight"
    text = "\n".join(["#trait_reported=any", *(line.replace(" ", "\t") for line in [head, *lines])])
    (folder / "score.txt").write_text(text + "\n")
    score = np.where(dosages < 0, 2 * frequency[:, None], dosages).T @ weights
    means = np.array([score[population == k].mean() for k in (0, 1)])
    own = (score - means[population]) / (score - means[population]).std()
    people = pd.DataFrame({"IID": [f"I{i}" for i in range(len(population))]})
    noise = rng.normal(size=(2, len(population)))
    traits = {"ENVIRONMENT": noise[0], "HERITABLE": own + noise[1]}
    traits = {name: values + 2 * population for name, values in traits.items()}
    people.assign(**traits).to_csv(folder / "pheno.tsv", sep="\t", index=False)
    labels = people.assign(group=np.array(["LARGE", "SMALL"])[population])
    labels.to_csv(folder / "groups.tsv", sep="\t", index=False)
    return folder


def evaluated_in(folder, out, *options):
    words = ("--bfile", folder / "people", "--weights", folder / "score.txt")
    return command(evaluate, *words, "--pheno", folder / "pheno.tsv", *options, "--out", out)


def test_ancestry_is_taken_off_by_groups_and_by_components(structured, tmp_path):
    options = ("--groups", structured / "groups.tsv")
    options += ("--pc-loadings", structured / "panel.eigenvec.allele")
    result = succeeded(evaluated_in(structured, tmp_path / "out", *options))
    found = table(tmp_path / "out").droplevel("weights")
    nothing, half = found.loc["ENVIRONMENT"], found.loc["HERITABLE"]
    assert nothing.loc["all", "r2_lower"] > 0.1
    for group, kind in (("all", "partial_r2"), ("within groups", "r2"),
                        ("within groups", "partial_r2")):  # fmt: skip
        assert nothing.loc[group, f"{kind}_lower"] == 0
        assert nothing.loc[group, kind] < 0.01
        assert half.loc[group, f"{kind}_lower"] > 0.2  # the components are a part of the score
    within = half.loc["within groups"]
    assert within["r2_lower"] < 0.5 < within["r2_upper"]
    assert {*found.loc["ENVIRONMENT"].index} == {"all", "within groups", "LARGE", "SMALL"}
    told = re.findall(r"score.txt: (\w+), ([\w ]+), n = (\d+): beyond .* to .*; not", result.stdout)
    groups = [("within groups", "560"), ("all", "560"), ("LARGE", "500"), ("SMALL", "60")]
    expected = [("ENVIRONMENT", *each) for each in groups[:3]]
    assert told == expected + [("HERITABLE", *each) for each in groups]
    assert "1 results of single groups are in the files alone" in result.stdout
    beyond = nothing.loc["within groups"]
    assert re.search(
        rf"ENVIRONMENT, within groups, .*: beyond covariates r .*, R\^2 {beyond['partial_r2']:.4f} "
        rf"\(0\.0000 to {beyond['partial_r2_upper']:.4f}\), slope {beyond['partial_slope']:.3g} \(",
        result.stdout,
    )


def test_components_are_covariates_like_those_of_a_table(structured, tmp_path):
    """Computed here from the definition of docs/maths/adjustment.md."""
    genotypes = open_files(SourceFiles((structured / "people",)))
    path = structured / "panel.eigenvec.allele"
    found = components_of(path, genotypes)
    rows = pd.read_csv(path, sep="\t").query("A1 == 'A'")
    counts = pd.read_csv(structured / "panel.acount", sep="\t")
    frequency = (counts["ALT_CTS"] / counts["OBS_CT"]).to_numpy()[:, None]
    copies = HARD_CALLS.steps_or_missing(
        genotypes.read(np.arange(len(frequency))), len(genotypes.samples)
    )
    z = (copies - 2 * frequency) / np.sqrt(2 * frequency * (1 - frequency))
    expected = np.where(copies < 0, 0, z).T @ rows["PC1"].to_numpy() / len(frequency)
    assert (copies < 0).any()
    assert [*found] == ["PC1"]
    np.testing.assert_allclose(found["PC1"], expected, rtol=0, atol=1e-5 * np.ptp(expected))
    covar = tmp_path / "covar.tsv"
    people = pd.DataFrame({"IID": genotypes.samples.individual, "PC1": expected})
    people.to_csv(covar, sep="\t", index=False)
    for name, options in (("a", ("--pc-loadings", path)), ("b", ("--covar", covar))):
        succeeded(evaluated_in(structured, tmp_path / name, *options))
    ours, theirs = (table(tmp_path / name).dropna(axis="columns") for name in ("a", "b"))
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-3, atol=1e-6)
    assert "partial_slope" in ours.columns
    both = evaluated_in(structured, tmp_path / "c", "--pc-loadings", path, "--covar", covar)
    refused(both, 3, "panel.eigenvec.allele", "PC1", "--covar-name")
    assert not (tmp_path / "c").exists()


def edited(change):
    def weights(folder, tmp_path):
        text = gzip.decompress((folder / "release" / "weights.tsv.gz").read_bytes()).decode()
        (tmp_path / "edited.tsv").write_text(change(text))
        return tmp_path / "edited.tsv"

    return weights


def damaged(folder, tmp_path):
    shutil.copytree(folder / "release", tmp_path / "damaged")
    with (tmp_path / "damaged" / "covariates.tsv").open("a") as file:
        file.write("x\n")
    return tmp_path / "damaged"


def in_two_groups(folder):
    text = (folder / "groups.tsv").read_text()
    person = text.splitlines()[1].split()[0]
    (folder / "twice.tsv").write_text(f"{text}{person} B\n")
    return (*people(folder), "--groups", folder / "twice.tsv")


@pytest.mark.parametrize(
    ("weights", "options", "code", "words"),
    [
        (damaged, people, 3, ["fails its verification"]),
        (edited(lambda text: text.replace("\nrs", "\nxx")), people, 3,
         ["0 of 200 variants", "limit at least 10%"]),
        (edited(lambda text: f"{text}{text.splitlines()[-1]}\n"), people, 3, ["has two matches"]),
        (lambda f, _: f / "fresh.fam", people, 3, ["is no scoring file"]),
        (lambda f, _: f / "release", lambda _: (), 2, ["files or from --genotypes"]),
        (lambda f, _: f / "release", lambda f: (*people(f), "--prevalence", "CASE=2"), 2,
         ["is no prevalence"]),
        (lambda f, _: f / "release", lambda f: (*people(f), "--prevalence", "X=.1"), 2,
         ["names no phenotype"]),
        (lambda f, _: f / "release", lambda f: (*people(f), "--prevalence", "QT1=.1"), 2,
         ["--prevalence QT1", "is not binary", "500 values"]),
        (lambda f, _: f / "release", in_two_groups, 3, ["twice.tsv:502", "one person in two"]),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused(weights, options, code, words, folder, tmp_path):
    path = weights(folder, tmp_path)
    result = run(folder, tmp_path / "out", "--weights", path, *options(folder))
    refused(result, code, *words)
    assert not (tmp_path / "out").exists()
