"""Releases of a structured cohort: accuracy beyond covariates, within groups, and ancestry told."""

import shutil

import numpy as np
import pandas as pd
import pytest
from support.documents import put, read_document
from support.filesets import name_variants, write_fileset_of, write_loadings
from support.readme_scores import own_scores
from support.small_cohort import command, refused, succeeded

from primo_scale.cli.commands import accumulate, finalize, ingest, release, verify
from primo_scale.evaluation.scores import open_files
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import HARD_CALLS, open_genotype_store
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.publication.weights import ScoringWeights
from primo_scale.run.design import load_design
from primo_scale.run.finalize_stage import score_held_out
from primo_scale.verify.release import document_findings

NAMES = np.array(["AFR", "EAS", "EUR"])
SIZES, PANEL, D, HELD = (1600, 800, 600), 150, 200, 900
TRAITS = ("ENVIRONMENT", "HERITABLE")
BUDGET = ("--epsilon", 30, "--delta", 1e-8)


def drawn(frequency, sizes, random):
    return random.binomial(2, np.repeat(frequency, sizes, axis=0)).T


@pytest.fixture(scope="module")
def structured(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("structured"), np.random.default_rng(3)
    ancestral = random.uniform(0.2, 0.8, D)
    frequency = np.clip(ancestral + random.normal(0, 0.12, (3, D)), 0.05, 0.95)
    panel, others = (drawn(frequency, [PANEL] * 3, random) for _ in range(2))
    people = drawn(frequency, SIZES, random)
    for name, dosages in (("panel", panel), ("others", others), ("people", people)):
        name_variants(write_fileset_of(folder / name, dosages, range(1, D + 1)))
        fam = pd.read_csv(folder / f"{name}.fam", sep=r"\s+", header=None)
        fam[[0, 1]] = np.array([[f"{name}{i}"] * 2 for i in range(dosages.shape[1])])
        fam.to_csv(folder / f"{name}.fam", sep="\t", header=False, index=False)
    counts = panel.sum(axis=1)
    mean = counts / panel.shape[1]
    sd = np.sqrt(mean * (1 - mean / 2))
    z = (panel - mean[:, None]) / sd[:, None]
    loadings = np.linalg.svd(z, full_matrices=False)[0][:, :2] * 10
    names = [f"panel{i}" for i in range(panel.shape[1])]
    scores = pd.DataFrame(z.T @ loadings / D, index=names, columns=["PC1", "PC2"])
    write_loadings(folder / "panel", mean / 2, loadings, 2 * panel.shape[1], scores)
    frequencies = pd.read_csv(folder / "panel.acount", sep="\t").assign(ALT_FREQS=mean / 2)
    frequencies.to_csv(folder / "panel.afreq", sep="\t", index=False)
    for kind in ("panel", "others"):
        lines = [f"{kind}{i}\t{name}\n" for i, name in enumerate(np.repeat(NAMES, PANEL))]
        (folder / f"{kind}.populations.tsv").write_text("".join(lines))
    own = ((people - mean[:, None]) / sd[:, None]).T @ random.normal(size=D)
    population = np.repeat(np.arange(3), SIZES)
    for number in range(3):
        own[population == number] -= own[population == number].mean()
    environment = np.array([-0.4, 0.3, 0.9])[population]
    noise = random.normal(size=(2, len(population)))
    traits = {
        TRAITS[0]: environment + noise[0],
        TRAITS[1]: environment + own / own.std() + noise[1],
    }
    table = pd.DataFrame({"FID": [f"people{i}" for i in range(len(population))]})
    table = table.assign(IID=table["FID"], **traits)
    table.to_csv(folder / "pheno.tsv", sep="\t", index=False)
    rows = "".join(f"{name}\t-9\t9\t0\t1.5\n" for name in TRAITS)
    (folder / "bounds.tsv").write_text("name\tlower\tupper\tmean\tsd\n" + rows)
    return folder


def words_of(folder, *options):
    return [
        "--bfile", folder / "people", "--pheno", folder / "pheno.tsv",
        "--pheno-bounds", folder / "bounds.tsv", "--ref-freq", folder / "panel.afreq",
        "--ld-panel", folder / "others", "--ld-blocks", "window:50",
        "--panel-populations", folder / "others.populations.tsv", *options,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def released(structured):
    result = succeeded(command(
        release, *words_of(structured), *BUDGET, "--hold-out", 0.3,
        "--pc-loadings", structured / "panel.eigenvec.allele",
        "--ledger", structured / "ledger", "--out", structured / "release",
    ))  # fmt: skip
    return structured, result.stderr + result.stdout


def test_a_trait_of_environment_alone_reads_nothing(released):
    folder, said = released
    document = read_document(folder / "release")
    nothing, half = document["hold_out"]["phenotypes"]
    apart = held_out(folder)
    scores = own_scores(folder / "release", folder / "people")[apart]
    pheno = pd.read_csv(folder / "pheno.tsv", sep="\t")[apart]
    for stated in (nothing, nothing["groups"][0]):
        # One interval of 40 begins above 0 by chance, and noise moves the estimate, .02 at times.
        assert stated["r2_lower"] < 0.02
        assert stated["r2"] is None or stated["r2"] < 0.1  # None where noise hides the score
    within = half["groups"][0]
    population = np.repeat(np.arange(3), SIZES)[apart]
    tables = scores["HERITABLE"].to_numpy(), pheno["HERITABLE"].to_numpy()
    s, y = (x - np.array([x[population == k].mean() for k in range(3)])[population] for x in tables)
    truth = np.corrcoef(s, y)[0, 1] ** 2
    assert truth > 0.2 and 0 < within["r2_lower"] <= truth <= within["r2_upper"]
    assert within["slope_lower"] <= (s @ y) / (s @ s) <= within["slope_upper"]
    told = [line for line in said.splitlines() if "held out: HERITABLE" in line]
    assert [line.split("HERITABLE, ")[1].split(":")[0] for line in told[:2]] == [
        "within groups",
        "all",
    ]
    assert all("beyond covariates r 0." in line for line in told)


def held_out(folder):
    store = open_outcome_store(folder / "release.work" / "outcomes.zarr")
    return store.held_out(slice(0, store.n_samples))


def test_the_sums_of_each_group_are_those_of_its_people(released):
    """Scores, components and residuals are computed from the files, without the product's code."""
    folder, _ = released
    document, apart = read_document(folder / "release"), held_out(folder)
    design = load_design(folder / "release.work" / "design.json")
    public, hold_out = document["public_inputs"], document["hold_out"]
    loadings = pd.read_csv(folder / "panel.eigenvec.allele", sep="\t").query("A1 == 'A'")
    loadings = loadings[["PC1", "PC2"]].to_numpy()
    mean = 2 * pd.read_csv(folder / "panel.acount", sep="\t").eval("ALT_CTS / OBS_CT").to_numpy()
    sd = np.sqrt(mean * (1 - mean / 2))
    z = ((dosages_of(folder) - mean[:, None]) / sd[:, None]).T[apart]
    components = z @ loadings / D
    centroids = np.array([each["centroid"] for each in public["panel_populations"]["populations"]])
    scale = np.array([c["scale"] for c in public["covariates"]])
    centroids = centroids / scale + [c["centre"] for c in public["covariates"]]
    group = np.argmin(((components[:, None] - centroids) ** 2).sum(axis=2), axis=1)
    assert np.mean(group == np.repeat(np.arange(3), SIZES)[apart]) > 0.95
    centre = np.array([c["centre"] for c in public["covariates"]])
    weights = pd.read_csv(folder / "release" / "covariates.tsv", sep="\t", skiprows=1, index_col=0)
    intercept, beside = weights.iloc[0].to_numpy(), weights.iloc[1:].to_numpy()
    scores = own_scores(folder / "release", folder / "people")[apart].to_numpy()
    table = pd.read_csv(folder / "release" / "weights.tsv.gz", sep="\t")
    per_allele = table[[*TRAITS]].to_numpy() * np.where(table[["effect_allele"]] == "A", 1, -1)
    slopes = loadings * sd[:, None] * D / (loadings**2).sum(axis=0)  # of a dosage on a component
    explained = slopes.T @ per_allele
    outcomes = design.outcomes
    moved = components - centre
    u = scores + intercept + centre @ beside - outcomes.means - moved @ explained
    pheno = pd.read_csv(folder / "pheno.tsv", sep="\t")[apart][[*TRAITS]].to_numpy()
    r = pheno - outcomes.means - moved @ outcomes.covariate_weights
    # What is released beside the score is the same regression.
    np.testing.assert_allclose(
        beside, outcomes.covariate_weights - explained, atol=0.1 * np.abs(explained).max()
    )
    sigma = {q["name"]: q["sigma"][0] for q in document["mechanism"]["queries"]}["held_out_gram"]
    unit, kappa = hold_out["unit"], hold_out["constant"] / hold_out["unit"]
    for j, stated in enumerate(hold_out["phenotypes"]):
        q = np.clip((u[:, j] - stated["score_centre"]) / stated["score_bound"], -1, 1)
        s = np.clip(r[:, j] / stated["residual_bound"], -1, 1)
        sums = np.array(stated["sums"]).reshape(3, 6) / unit**2
        for g in range(3):
            here = group == g
            a, b = q[here], s[here]
            exact = [here.sum() * kappa**2, a @ a, b @ b, kappa * a.sum(), kappa * b.sum(), a @ b]
            limit = 6 * sigma / unit**2 * np.array([1, 1, 1, *[np.sqrt(0.5)] * 3]) + 1
            assert (np.abs(sums[g] - exact) < limit).all()
            assert here.sum() * kappa**2 > limit[0], "noise does not hide a group"


def test_what_components_explain_is_subtracted_from_the_scores(released, tmp_path):
    folder, _ = released
    work, random = folder / "release.work", np.random.default_rng(4)
    design, store = load_design(work / "design.json"), open_genotype_store(work / "genotypes.zarr")
    outcomes = open_outcome_store(work / "outcomes.zarr")
    weights = ScoringWeights(
        store.variants, TRAITS, random.normal(size=(D, 2)), np.zeros(2), ("PC1", "PC2"),
        np.zeros((2, 2)), np.ones(D),
    )  # fmt: skip
    apart, explained = held_out(folder), random.normal(0, 50, (2, 2))
    scored = [
        np.concatenate(parts)
        for parts in zip(
            *score_held_out(store, outcomes, design, weights, explained, tmp_path).batches(),
            strict=True,
        )
    ]
    codes = outcomes.read_held_out(slice(0, store.n_samples))
    moved = codes[:, 1:3] / [c.scale for c in design.outcomes.covariates]
    plain = dosages_of(folder).T[apart] @ weights.per_allele - design.outcomes.means
    np.testing.assert_allclose(scored[0], plain - moved @ explained, atol=1e-6)
    assert np.abs(moved @ explained).max() > 10


def dosages_of(folder):
    people = open_files(SourceFiles((folder / "people",)))
    return HARD_CALLS.steps_or_missing(people.read(np.arange(D)), len(people.samples))


def test_the_share_between_populations_is_that_of_an_analysis_of_variance(released):
    folder, said = released
    document = read_document(folder / "release")
    scores = own_scores(folder / "release", folder / "others")
    shares = document["estimation"]["between_populations"]
    for name, share in zip(TRAITS, shares, strict=True):
        groups = np.split(scores[name].to_numpy(), 3)
        within = np.mean([group.var(ddof=1) for group in groups])  # of equal sizes
        between = max(np.var([group.mean() for group in groups], ddof=1) - within / PANEL, 0)
        assert share == pytest.approx(between / (between + within), abs=1e-3)
    assert ("scores are mostly ancestry" in said) == (max(shares) > 0.5)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("hold_out.phenotypes.0.groups.0.r2_upper", 0.9),
        ("hold_out.phenotypes.1.groups.2.slope", 0.5),
        ("hold_out.phenotypes.1.groups.2.name", "AMR"),
        ("hold_out.phenotypes.1.groups", []),
        ("hold_out.phenotypes.1.r2", 0.9),
        ("hold_out.phenotypes.0.sums", [1] * 6),
        ("hold_out.constant", 1 << 14),
        ("public_inputs.panel_populations", None),
        ("public_inputs.pc_loadings", None),
        ("public_inputs.panel_populations.populations.0.centroid", [1]),
        ("estimation.between_populations", [0.1]),
    ],
)
def test_a_false_statement_of_groups_is_found(released, path, value):
    document = read_document(released[0] / "release")
    assert all(finding.ok for finding in document_findings(document))
    assert not all(finding.ok for finding in document_findings(put(document, path, value)))
    assert command(verify, released[0] / "release").exit_code == 0


def test_the_same_panel_is_needed_again(structured, tmp_path):
    folder = shutil.copytree(
        structured, tmp_path / "copy", ignore=shutil.ignore_patterns("release*", "ledger*")
    )
    words = ("--work-dir", tmp_path / "work", "--ledger", tmp_path / "ledger")
    store = tmp_path / "people.zarr"
    succeeded(command(ingest, "--bfile", folder / "people", "--out", store))
    inputs = ["--genotypes", store, *words_of(folder)[2:]]
    succeeded(command(accumulate, *inputs, *words, *BUDGET))
    last = (*words, *BUDGET, "--out", tmp_path / "out")
    kept = (folder / "others.bed").read_bytes()
    (folder / "others.bed").write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    refused(command(finalize, *last), 3, "is not the panel that the statistics were made with")
    (folder / "others.bed").write_bytes(kept)
    succeeded(command(finalize, *last))
    shares = read_document(tmp_path / "out")["estimation"]["between_populations"]
    assert len(shares) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "none 450"),
        ("others0\tA\nothers1\tA\nothers2\tB\nothers3\tB\n", "none 446, A 2, B 2"),
        ("".join(f"others{i}\tA\n" for i in range(450)), "A 450"),
        ("".join(f"others{i}\t{'BA'[i > 0]}\n" for i in range(450)), "A 449, B 1"),
        ("others0\tA\tB\n", "is no row of IID and group"),
        ("others0\twithin groups\n", "is no row of IID and group"),
        ("others0\tall\n", "is no name of a group"),
    ],
)
def test_unusable_populations_are_refused(structured, tmp_path, content, message):
    table = tmp_path / "populations.tsv"
    table.write_text(content)
    words = [
        table if word == structured / "others.populations.tsv" else word
        for word in words_of(structured)
    ]
    words += [*BUDGET, "--out", tmp_path / "out", "--ledger", tmp_path / "ledger"]
    refused(command(release, *words), 3, str(table), message)
