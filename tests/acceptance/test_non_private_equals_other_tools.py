"""Without noise, a release equals scikit-learn's Ridge, plink2 --glm and plink2 --score.

The oracles read the original files with bed-reader, pandas and plink2, and share no code with the
product. Only `release.json` gives them the public numbers of the coding.
"""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from acceptance_inputs import GENOTYPE_UNIT, RAREST_IN_PANEL, Published, RealSet
from processes import run_program
from readme_scores import PRINTED_BY_PLINK2, own_scores, readme_scores
from ridge_oracle import (
    RELATIVE_TOLERANCE,
    Regression,
    Release,
    assert_equal_columns,
    at_raw_units,
    blocks_of,
    penalty_of,
    regression,
    solve_by_blocks,
    truncation_error,
    variants_of,
)
from tiers import thinned

# Filesets are released without or with frequencies, in LD blocks or with a dense Gram matrix.
# Larger ones keep every 30th or 8th variant, over all their chromosomes.
RELEASES = {
    "1000g": ("1000g", False, 800.0, "window:200", 30),
    "hapmap3-frequencies": ("hapmap3", True, 2_000.0, "window:100", 8),
    "regenie-dense": ("regenie", False, 1_100.0, None, None),
    "regenie-binary-frequencies": ("regenie-binary", True, 40.0, "window:250", None),
}


@pytest.fixture(scope="module", params=thinned(RELEASES, every=len(RELEASES)), ids=str)
def release(request, real_sets, run, tmp_path_factory) -> Release:
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
def on_lattice(release: Release) -> Regression:
    return regression(release, on_lattice=True)


@pytest.fixture(scope="module")
def on_floats(release: Release) -> Regression:
    return regression(release, on_lattice=False)


def test_the_penalty_is_the_given_one(release: Release) -> None:
    unit = GENOTYPE_UNIT if release.with_frequencies else 1
    assert penalty_of(release) == release.ridge * unit**2


def test_missing_genotypes_count_as_the_public_centre(
    release: Release, on_lattice: Regression
) -> None:
    centre = on_lattice.centre / on_lattice.multiplier
    np.testing.assert_allclose(release.published.centre, centre, rtol=1e-8)


def test_weights_equal_ridge_on_the_lattice(release: Release, on_lattice: Regression) -> None:
    solution = solve_by_blocks(release, on_lattice)
    per_allele, covariates, intercept = at_raw_units(release, on_lattice, *solution)
    published = release.published
    assert_equal_columns(published.variant_weights.to_numpy(np.float64), per_allele)
    assert_equal_columns(published.covariate_weights, covariates)
    np.testing.assert_allclose(published.intercept, intercept, rtol=RELATIVE_TOLERANCE)


def test_weights_equal_ridge_on_raw_numbers_up_to_truncation(
    release: Release, on_floats: Regression, on_lattice: Regression
) -> None:
    expected, _ = solve_by_blocks(release, on_floats)
    unit = on_floats.multiplier[:, None] * on_floats.phenotype_unit
    difference = release.published.variant_weights.to_numpy(np.float64) / unit - expected
    allowed = [
        truncation_error(release, on_floats, on_lattice, block, expected[block])
        for block in blocks_of(release)
    ]
    found = [np.linalg.norm(difference[block], axis=0) for block in blocks_of(release)]
    assert np.all(np.array(found) <= np.array(allowed))
    # The allowed error is small compared with the weights, so that wrong weights are detected.
    assert np.linalg.norm(allowed) < 0.05 * np.linalg.norm(expected)


def test_summary_statistics_are_those_of_each_variant_alone(
    release: Release, on_lattice: Regression, on_floats: Regression
) -> None:
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
    for problem, tolerance in ((on_lattice, 1e-5), (on_floats, 0.01)):
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
def test_plink2_score_reproduces_predictions(release: Release, plink2: str) -> None:
    published, bfile = release.published.path, release.inputs.bfile
    expected = own_scores(published, bfile)
    found = readme_scores(plink2, published, bfile, expected.columns)
    assert_equal_columns(found, expected.to_numpy(), relative=PRINTED_BY_PLINK2)


@pytest.mark.oracle
def test_plink2_score_reads_a_pgs_file(release: Release, plink2: str, tmp_path: Path) -> None:
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
def test_one_variant_and_covariates_equal_plink2_glm(real_sets, run, tmp_path: Path) -> None:
    inputs: RealSet = real_sets["regenie"]
    phenotypes = ["Y1", "Y2"]
    chosen = common_variants_without_missing(inputs, count=8)
    listed = tmp_path / "variants.txt"
    listed.write_text("\n".join(chosen) + "\n")
    run("gwas_release", *inputs.options, "--pheno-name", ",".join(phenotypes),
        "--extract", listed, "--ld-blocks", "window:1", "--ridge", 0, "--non-private",
        "--out", tmp_path / "release")  # fmt: skip
    release = Release(inputs, Published(tmp_path / "release"), with_frequencies=False, ridge=0)
    raw, lattice = regression(release, on_lattice=False), regression(release, on_lattice=True)
    expected, _ = solve_by_blocks(release, raw)
    allowed = raw.phenotype_unit * [
        truncation_error(release, raw, lattice, block, expected[block])
        for block in blocks_of(release)
    ]
    for index, phenotype in enumerate(phenotypes):
        truth = plink2_glm(inputs, phenotype).loc[chosen]
        given = truth["BETA"].notna().to_numpy()  # plink2 omits collinear variants
        assert given.sum() >= len(chosen) - 1
        beta, error = truth["BETA"].to_numpy()[given], truth["SE"].to_numpy()[given]
        difference = np.abs(release.published.variant_weights.loc[chosen, phenotype][given] - beta)
        assert np.all(difference <= allowed[given, index] + PRINTED_BY_PLINK2 * np.abs(beta))
        assert np.all(allowed[given, index] < 0.05 * error)


def common_variants_without_missing(inputs: RealSet, *, count: int) -> list[str]:
    """Return IDs of variants without missing calls and with a minor allele frequency above 0.1."""
    frequency = inputs.dosages().mean(axis=0) / 2  # nan with any missing call
    common = np.flatnonzero((frequency > 0.1) & (frequency < 0.9))
    chosen = common[np.linspace(0, len(common) - 1, count).astype(int)]
    return list(inputs.bim["ID"].iloc[chosen])


def plink2_glm(inputs: RealSet, phenotype: str) -> pd.DataFrame:
    """Return the rows of ``plink2 --glm`` by ID, from the data set's files."""
    path = inputs.bfile.parent / "truth" / f"ex.covar.{phenotype}.glm.linear"
    table = pd.read_csv(path, sep=r"\s+", dtype={"ID": str, "A1": str}).set_index("ID")
    counted = inputs.bim.set_index("ID")["A1"].loc[table.index]
    assert np.array_equal(table["A1"], counted)
    return table
