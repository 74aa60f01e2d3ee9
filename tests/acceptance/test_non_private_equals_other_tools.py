"""Without noise, a release equals scikit-learn's Ridge, plink2 --glm and plink2 --score.

The oracles read the original files, and only `release.json` for the public numbers of the coding.
"""

import gzip
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from support.acceptance_inputs import (
    GENOTYPE_UNIT,
    RAREST_IN_PANEL,
    Float64,
    Published,
    RealSet,
    blocks,
    coded,
    public_coding,
)
from support.processes import run_program
from support.readme_scores import PRINTED_BY_PLINK2, own_scores, readme_scores
from support.tiers import thinned

# Weights are printed with nine digits, and solving loses a few of them.
RELATIVE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Release:
    inputs: RealSet
    published: Published
    with_frequencies: bool
    ridge: float


@dataclass(frozen=True)
class Regression:
    multiplier: Float64  # k of every variant: genotype g is k g - m, and 0 if missing
    centre: Float64  # m of every variant
    genotypes: Float64  # shape (n, d)
    fixed: Float64  # constant and covariates, shape (n, 1 + c)
    phenotypes: (
        Float64  # shape (n, l), 0 where missing, multiplied by n / n_j for n_j observed values
    )
    phenotype_unit: Float64  # raw units per unit of each phenotype column
    fixed_unit: Float64  # units of each fixed column per raw unit


def coding_of(release):
    if release.with_frequencies:
        return public_coding(release.inputs.alt_frequencies()[variants_of(release)])
    d = len(release.published.variant_weights)
    return np.ones(d), np.ones(d)


def regression(release):
    inputs, public = release.inputs, release.published.statement["public_inputs"]
    k, m = coding_of(release)
    dosages = inputs.dosages(variants_of(release))
    genotypes = np.where(np.isnan(dosages), 0.0, k * dosages - m)
    n = len(genotypes)

    constant = public["constant"]
    columns, units = [np.full(n, constant)], [constant]
    table = inputs.table(inputs.covar)
    for b in public["covariates"]:
        units.append(b["scale"])
        place = b["lower"], b["upper"], b["centre"], b["scale"]
        columns.append(coded(table[b["name"]], *place))

    step = public["phenotype_unit"]
    phenotypes, rescale, phenotype_units = [], [], []
    table = inputs.table(inputs.pheno)
    for b in public["phenotypes"]:
        place = b["lower"], b["upper"], b["mean"], step, b["sd"]
        phenotypes.append(coded(table[b["name"]], *place))
        rescale.append(n / table[b["name"]].notna().sum())
        phenotype_units.append(b["sd"] / step)
    return Regression(
        multiplier=k,
        centre=m,
        genotypes=genotypes,
        fixed=np.stack(columns, axis=1),
        phenotypes=np.stack(phenotypes, axis=1) * rescale,
        phenotype_unit=np.array(phenotype_units),
        fixed_unit=np.array(units),
    )


def blocks_of(release):
    sizes = release.published.statement["cohort"]["block_sizes"]
    return blocks(np.cumsum([0, *sizes]))


def penalty_of(release):
    """Return the ridge penalty in lattice units."""
    (penalty,) = set(release.published.statement["estimation"]["penalties"])
    return penalty


def solve_by_blocks(release, problem):
    """Solve ridge in every block with fixed columns projected out, then these by least squares."""
    basis = np.linalg.qr(problem.fixed)[0]
    targets = problem.phenotypes - basis @ (basis.T @ problem.phenotypes)
    weights = np.empty((problem.genotypes.shape[1], targets.shape[1]))
    for block in blocks_of(release):
        x = problem.genotypes[:, block]
        model = Ridge(alpha=penalty_of(release), fit_intercept=False).fit(
            x - basis @ (basis.T @ x), targets
        )
        weights[block] = model.coef_.reshape(targets.shape[1], -1).T
    residual = problem.phenotypes - problem.genotypes @ weights
    return weights, np.linalg.lstsq(problem.fixed, residual, rcond=None)[0]


def at_raw_units(release, problem, weights, fixed):
    public = release.published.statement["public_inputs"]
    means = np.array([bounds["mean"] for bounds in public["phenotypes"]])
    centres = np.array([bounds["centre"] for bounds in public["covariates"]])
    per_allele = problem.multiplier[:, None] * weights * problem.phenotype_unit
    raw_fixed = problem.fixed_unit[:, None] * fixed * problem.phenotype_unit
    intercept = (
        means
        + raw_fixed[0]
        - centres @ raw_fixed[1:]
        - problem.centre @ weights * problem.phenotype_unit
    )
    return per_allele, raw_fixed[1:], intercept


def assert_equal_columns(found, expected, *, relative=RELATIVE_TOLERANCE):
    """Compare columns, with a tolerance for each entry that includes the size of its column."""
    allowed = relative * (np.abs(expected) + np.abs(expected).max(axis=0))
    assert np.all(np.abs(found - expected) <= allowed), np.max(np.abs(found - expected) / allowed)


def variants_of(release):
    position = pd.Series(np.arange(len(release.inputs.bim)), index=release.inputs.bim["ID"])
    return position.loc[release.published.variant_weights.index].to_numpy()


# Filesets are released without or with frequencies, in LD blocks or with a dense Gram matrix.
# Larger ones keep every 30th or 8th variant, over all their chromosomes.
RELEASES = {
    "1000g": ("1000g", False, 800.0, "window:200", 30),
    "hapmap3-frequencies": ("hapmap3", True, 2_000.0, "window:100", 8),
    "regenie-dense": ("regenie", False, 1_100.0, None, None),
    "regenie-binary-frequencies": ("regenie-binary", True, 40.0, "window:250", None),
}


@pytest.fixture(scope="module", params=thinned(RELEASES, every=len(RELEASES)), ids=str)
def release(request, real_sets, run, tmp_path_factory):
    name, with_frequencies, ridge, blocks, step = RELEASES[request.param]
    inputs: RealSet = real_sets[name]
    directory = tmp_path_factory.mktemp(request.param)
    options: list[object] = [*inputs.options, "--non-private", "--ridge", ridge]
    if with_frequencies:
        options += ["--ref-freq", inputs.frequencies, "--sumstats"]
    if blocks is not None:
        options += ["--ld-blocks", blocks]
    if step is not None:
        listed = directory / "variants.txt"
        listed.write_text("\n".join(inputs.bim["ID"][::step]) + "\n")
        options += ["--extract", listed]
    run("gwas_release", *options, "--out", directory / "release")
    return Release(inputs, Published(directory / "release"), with_frequencies, ridge)


@pytest.fixture(scope="module")
def on_lattice(release):
    return regression(release)


def test_the_penalty_is_the_given_one(release):
    unit = GENOTYPE_UNIT if release.with_frequencies else 1
    assert penalty_of(release) == release.ridge * unit**2


def test_missing_genotypes_count_as_the_public_centre(release, on_lattice):
    centre = on_lattice.centre / on_lattice.multiplier
    np.testing.assert_allclose(release.published.centre, centre, rtol=1e-8)


def test_weights_equal_ridge_on_the_lattice(release, on_lattice):
    solution = solve_by_blocks(release, on_lattice)
    per_allele, covariates, intercept = at_raw_units(release, on_lattice, *solution)
    published = release.published
    assert_equal_columns(published.variant_weights.to_numpy(np.float64), per_allele)
    assert_equal_columns(published.covariate_weights, covariates)
    np.testing.assert_allclose(published.intercept, intercept, rtol=RELATIVE_TOLERANCE)


def test_summary_statistics_are_those_of_each_variant_alone(release, on_lattice):
    """Against the scores of least squares on the covariates, over the public variance."""
    if not release.with_frequencies:
        assert not (release.published.path / "sumstats").exists()
        return
    p = release.inputs.alt_frequencies()[variants_of(release)]
    p = np.clip(p, RAREST_IN_PANEL, 1 - RAREST_IN_PANEL)
    names = [b["name"] for b in release.published.statement["public_inputs"]["phenotypes"]]
    paths = [release.published.path / f"sumstats/{name}.tsv.gz" for name in names]
    tables = [pd.read_csv(path, sep="\t", na_filter=False) for path in paths]
    if release.inputs.name.startswith("regenie"):  # its alleles are 1 and 2
        assert all(table.empty for table in tables)
        return
    one_copy = on_lattice.centre == on_lattice.multiplier  # any p near 1/2
    frequency = np.where(one_copy, 0.5, p)
    np.testing.assert_allclose(tables[0]["effect_allele_frequency"], frequency, rtol=1e-4)
    problem, tolerance = on_lattice, 1e-5
    basis = np.linalg.qr(problem.fixed)[0]
    residual = problem.phenotypes - basis @ (basis.T @ problem.phenotypes)
    n, variance = len(residual), problem.multiplier**2 * 2 * p * (1 - p)
    unit = problem.multiplier[:, None] * problem.phenotype_unit / (n * variance)[:, None]
    beta = unit * (problem.genotypes.T @ residual)
    error = unit * np.sqrt(np.outer(variance, (residual**2).sum(axis=0)))
    for k, table in enumerate(tables):
        largest = np.abs(error[:, k]).max()
        np.testing.assert_allclose(
            table["beta"], beta[:, k], rtol=tolerance, atol=tolerance * largest
        )
        np.testing.assert_allclose(table["standard_error"], error[:, k], rtol=tolerance)


@pytest.mark.oracle
def test_plink2_score_reproduces_predictions(release, plink2):
    published, bfile = release.published.path, release.inputs.bfile
    expected = own_scores(published, bfile)
    found = readme_scores(plink2, published, bfile, expected.columns)
    assert_equal_columns(found, expected.to_numpy(), relative=PRINTED_BY_PLINK2)


@pytest.mark.oracle
def test_plink2_score_reads_a_pgs_file(release, plink2, tmp_path):
    """A binary phenotype's file has log odds, which K(1 - K) makes probabilities again."""
    expected = own_scores(release.published.path, release.inputs.bfile).iloc[:, -1:]
    (name,) = expected.columns
    stated = release.published.statement["public_inputs"]["phenotypes"][-1]
    share = stated["mean"] - stated["lower"]
    scale = share * (1 - share) if stated["kind"] == "binary" else 1
    text = gzip.decompress((release.published.path / f"pgs/{name}.txt.gz").read_bytes())
    table = tmp_path / "pgs.txt"  # without comments, because plink2 reads names in the first line
    lines = text.decode().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if not line.startswith("#")))
    centre = release.published.path / "centre.afreq"
    run_program(
        plink2, "--bfile", release.inputs.bfile, "--read-freq", centre, "--threads", "1",
        "--out", tmp_path / "scores", "--score", table, "1", "4", "6", "header-read",
        "cols=+scoresums",
    )  # fmt: skip
    found = scale * pd.read_csv(tmp_path / "scores.sscore", sep=r"\s+")["effect_weight_SUM"]
    assert_equal_columns(found.to_numpy()[:, None], expected.to_numpy(), relative=PRINTED_BY_PLINK2)


# With one LD block for each variant, every weight is that of a regression on this variant and the
# covariates, as in --glm.
def test_one_variant_and_covariates_equal_plink2_glm(real_sets, run, tmp_path):
    inputs: RealSet = real_sets["regenie"]
    phenotypes = ["Y1", "Y2"]
    chosen = common_variants_without_missing(inputs, count=8)
    listed = tmp_path / "variants.txt"
    listed.write_text("\n".join(chosen) + "\n")
    run("gwas_release", *inputs.options, "--pheno-name", ",".join(phenotypes),
        "--extract", listed, "--ld-blocks", "window:1", "--ridge", 0, "--non-private",
        "--out", tmp_path / "release")  # fmt: skip
    published = Published(tmp_path / "release")
    for phenotype in phenotypes:
        truth = plink2_glm(inputs, phenotype).loc[chosen]
        given = truth["BETA"].notna().to_numpy()  # plink2 omits collinear variants
        assert given.sum() >= len(chosen) - 1
        beta, error = truth["BETA"].to_numpy()[given], truth["SE"].to_numpy()[given]
        found = published.variant_weights.loc[chosen, phenotype][given]
        assert np.all(np.abs(found - beta) <= 0.05 * error)  # phenotypes are truncated


def common_variants_without_missing(inputs, *, count):
    frequency = inputs.dosages().mean(axis=0) / 2  # nan with any missing call
    common = np.flatnonzero((frequency > 0.1) & (frequency < 0.9))
    chosen = common[np.linspace(0, len(common) - 1, count).astype(int)]
    return list(inputs.bim["ID"].iloc[chosen])


def plink2_glm(inputs, phenotype):
    path = inputs.bfile.parent / "truth" / f"ex.covar.{phenotype}.glm.linear"
    table = pd.read_csv(path, sep=r"\s+", dtype={"ID": str, "A1": str}).set_index("ID")
    counted = inputs.bim.set_index("ID")["A1"].loc[table.index]
    assert np.array_equal(table["A1"], counted)
    return table
