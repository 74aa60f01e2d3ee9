"""Without noise a release is what other tools compute: scikit-learn's Ridge, plink2 --glm, --score.

The oracles read the original files themselves (bed-reader, pandas, plink2) and share no code with
the product. `release.json` gives them the public numbers of the lattice, nothing else does.
"""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from acceptance_inputs import Float64, Published, RealSet
from sklearn.linear_model import Ridge

# Weights are printed with nine digits; solving costs a few more than the last of them.
RELATIVE_TOLERANCE = 1e-6
PRINTED_BY_PLINK2 = 1e-5  # six digits

# The documented coding with frequencies, and the documented prior of the automatic penalty.
GENOTYPE_UNIT = 16
LARGEST_CODE = 127
RAREST_IN_PANEL = 1e-3
PRIOR_HERITABILITY = 0.3


@dataclass(frozen=True)
class Release:
    """One real release without noise."""

    inputs: RealSet
    published: Published
    with_frequencies: bool
    ridge: float | None


@dataclass(frozen=True)
class Regression:
    """The regression problem of a release: genotypes, fixed columns, phenotypes.

    Attributes
    ----------
    multiplier, centre
        k and m of every variant: a genotype g counts as k g - m, a missing one as 0.
    genotypes, fixed, phenotypes
        Shapes (n, d), (n, 1 + c) with the constant first, (n, l). A missing phenotype is 0, and a
        column with n_j values is multiplied by n / n_j.
    rescale
        n / n_j, shape (l,).
    phenotype_unit, fixed_unit
        What one raw sd, and one raw unit of each fixed column, is in these columns.
    """

    multiplier: Float64
    centre: Float64
    genotypes: Float64
    fixed: Float64
    phenotypes: Float64
    rescale: Float64
    phenotype_unit: Float64
    fixed_unit: Float64


# One release of each kind of input. Every fileset is released both without and with frequencies,
# and with the automatic penalty, a given one and one for a dense Gram matrix.
RELEASES = {
    "1000g": ("1000g", False, None, "window:500", None),
    "1000g-frequencies": ("1000g", True, 250.0, "window:500", 4000),
    "hapmap3": ("hapmap3", False, None, "window:300", None),
    "hapmap3-frequencies": ("hapmap3", True, None, "window:300", None),
    "regenie-dense": ("regenie", False, None, None, None),
    "regenie-binary-frequencies": ("regenie-binary", True, 40.0, "window:250", None),
}


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def release(request, real_sets, run, tmp_path_factory) -> Release:
    name, with_frequencies, ridge, blocks, first_variants = RELEASES[request.param]
    inputs: RealSet = real_sets[name]
    directory = tmp_path_factory.mktemp(request.param)
    options: list[object] = [*inputs.options, "--non-private", "--workers", 2]
    if with_frequencies:
        options += ["--ref-freq", inputs.frequencies]
    if ridge is not None:
        options += ["--ridge", ridge]
    if blocks is not None:
        options += ["--ld-blocks", blocks]
    if first_variants is not None:
        listed = directory / "variants.txt"
        listed.write_text("\n".join(inputs.bim["ID"][:first_variants]) + "\n")
        options += ["--extract", listed]
    run("gwas_release", *options, "--out", directory / "release")
    return Release(inputs, Published(directory / "release"), with_frequencies, ridge)


@pytest.fixture(scope="module")
def on_lattice(release: Release) -> Regression:
    return regression(release, on_lattice=True)


@pytest.fixture(scope="module")
def on_floats(release: Release) -> Regression:
    return regression(release, on_lattice=False)


def test_penalty_is_the_one_given_or_follows_from_public_sizes(
    release: Release, on_lattice: Regression
) -> None:
    p = release.inputs.alt_frequencies()[variants_of(release)] if release.with_frequencies else 0.5
    p = np.clip(p, RAREST_IN_PANEL, 1 - RAREST_IN_PANEL)
    variance = np.sum(on_lattice.multiplier**2 * 2 * p * (1 - p))
    unit = GENOTYPE_UNIT if release.with_frequencies else 1
    prior = variance * (1 - PRIOR_HERITABILITY) / PRIOR_HERITABILITY
    expected = prior if release.ridge is None else release.ridge * unit**2
    ridges = release.published.statement["estimation"]["ridge"]
    assert ridges == pytest.approx([expected] * len(ridges), rel=1e-9)


def test_missing_genotypes_stand_at_the_public_centre(
    release: Release, on_lattice: Regression
) -> None:
    centre = on_lattice.centre / on_lattice.multiplier
    np.testing.assert_allclose(release.published.centre, centre, rtol=1e-8)


def test_weights_are_those_of_ridge_on_the_lattice(
    release: Release, on_lattice: Regression
) -> None:
    solution = solve_by_blocks(release, on_lattice)
    per_allele, covariates, intercept = at_raw_units(release, on_lattice, *solution)
    published = release.published
    assert_equal_columns(published.variant_weights.to_numpy(np.float64), per_allele)
    assert_equal_columns(published.covariate_weights, covariates)
    np.testing.assert_allclose(published.intercept, intercept, rtol=RELATIVE_TOLERANCE)


def test_weights_are_those_of_ridge_on_raw_numbers_to_the_precision_of_the_lattice(
    release: Release, on_floats: Regression, on_lattice: Regression
) -> None:
    expected, _ = solve_by_blocks(release, on_floats)
    unit = on_floats.multiplier[:, None] * on_floats.phenotype_unit
    difference = release.published.variant_weights.to_numpy(np.float64) / unit - expected
    for block, ridge in blocks(release):
        allowed = allowed_difference(release, on_floats, on_lattice, block, ridge)
        size = np.linalg.norm(expected[block], axis=0)
        print("RATIO", np.max(allowed/size), np.median(allowed/size), np.max(np.linalg.norm(difference[block], axis=0)/size),np.median(np.linalg.norm(difference[block], axis=0)/allowed))
        assert np.all(np.linalg.norm(difference[block], axis=0) <= allowed)
    print(np.linalg.norm(difference) , np.linalg.norm(expected))


@pytest.mark.oracle
def test_plink2_score_reproduces_predictions(release: Release, plink2: str, tmp_path: Path) -> None:
    weights = release.published.variant_weights
    scores = plink2_sums(
        plink2, release, tmp_path / "scores",
        [release.published.path / "weights.tsv.gz", 1, 2, "header-read", "cols=+scoresums",
         "--score-col-nums", f"6-{5 + weights.shape[1]}"],
    )  # fmt: skip
    found = scores[[f"{name}_SUM" for name in weights.columns]].to_numpy(np.float64)
    expected = dosages_at_centre(release) @ weights.to_numpy(np.float64)
    assert_equal_columns(found, expected, relative=PRINTED_BY_PLINK2)


@pytest.mark.oracle
def test_plink2_score_reads_a_pgs_file(release: Release, plink2: str, tmp_path: Path) -> None:
    weights = release.published.variant_weights.iloc[:, -1]
    text = gzip.decompress((release.published.path / f"pgs/{weights.name}.txt.gz").read_bytes())
    table = tmp_path / "pgs.txt"  # plink2 reads its first line as names: no comments before it
    lines = text.decode().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if not line.startswith("#")))
    score = [table, 1, 4, 6, "header-read", "cols=+scoresums"]
    found = plink2_sums(plink2, release, tmp_path / "scores", score)["effect_weight_SUM"]
    expected = dosages_at_centre(release) @ weights.to_numpy(np.float64)
    assert_equal_columns(found.to_numpy()[:, None], expected[:, None], relative=PRINTED_BY_PLINK2)


# One LD block for each variant makes every weight that of a regression on this variant and the
# covariates, which is what --glm does.
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "phenotype"),
    [
        ("1000g", "CSF2RB"),
        ("1000g", "APOBEC3B"),
        ("1000g", "TK2"),
        ("regenie", "Y1"),
        ("regenie", "Y2"),
        ("hapmap3", "QT1"),
        ("hapmap3", "QT6"),
    ],
)
def test_one_variant_and_covariates_equal_plink2_glm(
    name: str, phenotype: str, real_sets, run, plink2: str, tmp_path: Path
) -> None:
    inputs: RealSet = real_sets[name]
    truth = plink2_glm(inputs, phenotype, plink2, tmp_path).iloc[::3]
    listed = tmp_path / "variants.txt"
    listed.write_text("\n".join(truth.index) + "\n")
    options = ["--pheno-name", phenotype, "--extract", listed, "--ld-blocks", "window:1"]
    run("gwas_release", *inputs.options, *options, "--ridge", 0, "--non-private",
        "--workers", 1, "--out", tmp_path / "release")  # fmt: skip
    release = Release(inputs, Published(tmp_path / "release"), with_frequencies=False, ridge=0)
    raw, lattice = regression(release, on_lattice=False), regression(release, on_lattice=True)
    found = release.published.variant_weights.loc[truth.index, phenotype].to_numpy()
    beta = truth["BETA"].to_numpy()
    allowed = np.array([
        raw.phenotype_unit[0] * allowed_difference(release, raw, lattice, block, ridge).item()
        for block, ridge in blocks(release)
    ])  # fmt: skip
    assert len(found) == len(truth) > 3
    assert np.all(np.abs(found - beta) <= allowed + PRINTED_BY_PLINK2 * np.abs(beta))
    # What truncation may change is little beside a standard error: this tells right from wrong.
    assert np.all(allowed < 0.05 * truth["SE"].to_numpy())


@pytest.mark.oracle
def test_a_single_variant_equals_plink2_glm(real_sets, run, plink2: str, tmp_path: Path) -> None:
    inputs: RealSet = real_sets["regenie"]
    truth = plink2_glm(inputs, "Y1", plink2, tmp_path).iloc[[7]]
    listed = tmp_path / "variants.txt"
    listed.write_text(f"{truth.index[0]}\n")
    run("gwas_release", *inputs.options, "--extract", listed, "--ridge", 0, "--non-private",
        "--workers", 1, "--out", tmp_path / "release")  # fmt: skip
    found = Published(tmp_path / "release").variant_weights["Y1"].item()
    assert found == pytest.approx(truth["BETA"].item(), abs=0.05 * truth["SE"].item())


def public_coding(release: Release) -> tuple[Float64, Float64]:
    """Multiplier k and centre m of every variant: k g - m, by the rule of the documentation.

    One copy of A1 without frequencies. With them, 16 lattice units a standard deviation, where
    the codes of both homozygotes stay within int8: the largest such k.
    """
    d = len(release.published.variant_weights)
    if not release.with_frequencies:
        return np.ones(d), np.ones(d)
    p = release.inputs.alt_frequencies()[variants_of(release)]
    p = np.clip(p, RAREST_IN_PANEL, 1 - RAREST_IN_PANEL)
    k = np.rint(GENOTYPE_UNIT / np.sqrt(2 * p * (1 - p)))
    while True:
        m = np.rint(2 * p * k)
        beyond = np.maximum(m, 2 * k - m) > LARGEST_CODE
        if not beyond.any():
            return k, m
        k -= beyond


def regression(release: Release, *, on_lattice: bool) -> Regression:
    """State the regression problem of a release from the input files and public numbers.

    With `on_lattice`, covariates and phenotypes are truncated as docs/maths.md, section 6, says;
    without, they are the plain numbers of the files, clamped, centred and scaled.
    """
    inputs, public = release.inputs, release.published.statement["public_inputs"]
    truncate = np.trunc if on_lattice else np.asarray
    k, m = public_coding(release)
    dosages = inputs.dosages(variants_of(release))
    genotypes = np.where(np.isnan(dosages), 0.0, k * dosages - m)
    n = len(genotypes)

    kappa, step = public["constant"], public["phenotype_unit"]
    columns = [np.full(n, 1.0 if not on_lattice else kappa)]
    units = [1.0 if not on_lattice else kappa]
    table = inputs.table(inputs.covar)
    for bounds in public["covariates"]:
        farthest = max(bounds["upper"] - bounds["centre"], bounds["centre"] - bounds["lower"])
        scale = bounds["scale"] if on_lattice else 1 / farthest
        values = table[bounds["name"]].to_numpy(np.float64)
        inside = np.clip(values, bounds["lower"], bounds["upper"])
        coded = truncate((inside - bounds["centre"]) * scale)
        columns.append(np.where(np.isnan(values), 0.0, coded))
        units.append(scale)

    phenotypes, rescale, phenotype_units = [], [], []
    table = inputs.table(inputs.pheno)
    for bounds in public["phenotypes"]:
        values = table[bounds["name"]].to_numpy(np.float64)
        inside = np.clip(values, bounds["lower"], bounds["upper"])
        coded = (inside - bounds["mean"]) / bounds["sd"]
        coded = truncate(coded * step) if on_lattice else coded
        phenotypes.append(np.where(np.isnan(values), 0.0, coded))
        rescale.append(n / np.count_nonzero(~np.isnan(values)))
        phenotype_units.append(bounds["sd"] / (step if on_lattice else 1))
    return Regression(
        multiplier=k,
        centre=m,
        genotypes=genotypes,
        fixed=np.stack(columns, axis=1),
        phenotypes=np.stack(phenotypes, axis=1) * rescale,
        rescale=np.array(rescale),
        phenotype_unit=np.array(phenotype_units),
        fixed_unit=np.array(units),
    )


def blocks(release: Release) -> Iterator[tuple[slice, float]]:
    """Variants and penalty of every LD block."""
    statement = release.published.statement
    edges = np.cumsum([0, *statement["cohort"]["block_sizes"]])
    ridges = statement["estimation"]["ridge"]
    yield from zip(map(slice, edges[:-1], edges[1:]), ridges, strict=True)


def solve_by_blocks(release: Release, problem: Regression) -> tuple[Float64, Float64]:
    """Ridge of scikit-learn in every block; fixed columns are projected out, so not penalised.

    The fixed columns' own weights are then those of least squares on what all blocks together
    leave. Shapes (d, l) and (1 + c, l).
    """
    projector = problem.fixed @ np.linalg.pinv(problem.fixed)
    targets = problem.phenotypes - projector @ problem.phenotypes
    weights = np.empty((problem.genotypes.shape[1], targets.shape[1]))
    for block, ridge in blocks(release):
        x = problem.genotypes[:, block]
        model = Ridge(alpha=ridge, fit_intercept=False).fit(x - projector @ x, targets)
        weights[block] = model.coef_.reshape(targets.shape[1], -1).T
    residual = problem.phenotypes - problem.genotypes @ weights
    return weights, np.linalg.lstsq(problem.fixed, residual, rcond=None)[0]


def at_raw_units(
    release: Release, problem: Regression, weights: Float64, fixed: Float64
) -> tuple[Float64, Float64, Float64]:
    """Weights per allele, of covariates, and the intercept, in the units of the files."""
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


def allowed_difference(
    release: Release, raw: Regression, lattice: Regression, block: slice, ridge: float
) -> Float64:
    """Bound on the difference that truncation can make to the weights of a block, shape (l,).

    Let W solve ``(X'MX + rI) W = X'MY`` with M the projector off the fixed columns C, and W', M',
    C' and Y' the same on the lattice, in the same units. With e = Y - XW,

        W' - W = (X'M'X + rI)^-1 X' [(M' - M) e + M' (Y' - Y)],
        (M' - M) e = -M' (C' - C) b - C'^+' (C' - C)' Me,    b = C^+ e,

    where an entry of Y' - Y is below 1/s_y (of an sd) and one of C' - C below 1/kappa.
    """
    public = release.published.statement["public_inputs"]
    n, columns = raw.fixed.shape
    x, y = raw.genotypes[:, block], raw.phenotypes
    fixed = lattice.fixed / public["constant"]
    project = np.eye(n) - raw.fixed @ np.linalg.pinv(raw.fixed)
    project_lattice = np.eye(n) - fixed @ np.linalg.pinv(fixed)

    def inverse(matrix: Float64, target: Float64) -> Float64:
        return np.linalg.solve(matrix + ridge * np.eye(len(matrix)), target)

    error = y - x @ inverse(x.T @ project @ x, x.T @ project @ y)
    gain = np.linalg.norm(inverse(x.T @ project_lattice @ x, x.T), ord=2)
    coefficients = np.linalg.norm(np.linalg.pinv(raw.fixed) @ error, axis=0)
    residual = np.linalg.norm(project @ error, axis=0)
    smallest = np.linalg.norm(np.linalg.pinv(fixed), ord=2)
    of_fixed = np.sqrt(n * (columns - 1)) / public["constant"]
    of_phenotypes = raw.rescale * np.sqrt(n / raw.rescale) / public["phenotype_unit"]
    return gain * (of_phenotypes + of_fixed * (coefficients + smallest * residual))


def assert_equal_columns(
    found: Float64, expected: Float64, *, relative: float = RELATIVE_TOLERANCE
) -> None:
    """Compare column by column: an entry near zero is held to the size of its column."""
    allowed = relative * (np.abs(expected) + np.abs(expected).max(axis=0))
    assert np.all(np.abs(found - expected) <= allowed), np.max(np.abs(found - expected) / allowed)


def variants_of(release: Release) -> npt.NDArray[np.intp]:
    """Rows of the .bim file that the release has."""
    position = pd.Series(np.arange(len(release.inputs.bim)), index=release.inputs.bim["ID"])
    return position.loc[release.published.variant_weights.index].to_numpy()


def dosages_at_centre(release: Release) -> Float64:
    """Dosages of the release's variants, missing ones at the centre that was published."""
    dosages = release.inputs.dosages(variants_of(release))
    return np.where(np.isnan(dosages), release.published.centre, dosages)


def plink2_sums(plink2: str, release: Release, out: Path, score: list[object]) -> pd.DataFrame:
    """Run ``plink2 --score`` with the public centres and read what it wrote."""
    centre = release.published.path / "centre.afreq"
    subprocess.run(
        [plink2, "--bfile", release.inputs.bfile, "--read-freq", centre, "--threads", "1",
         "--out", out, "--score", *map(str, score)],
        check=True, capture_output=True,
    )  # fmt: skip
    return pd.read_csv(f"{out}.sscore", sep=r"\s+")


def plink2_glm(inputs: RealSet, phenotype: str, plink2: str, directory: Path) -> pd.DataFrame:
    """Rows of ``plink2 --glm`` for a few common variants without missing genotypes, by ID.

    Shipped with the data, or computed here where that is not so.
    """
    calls = inputs.dosages()
    frequency = calls.mean(axis=0) / 2  # nan with any missing genotype
    common = np.flatnonzero((frequency > 0.1) & (frequency < 0.9))
    chosen = inputs.bim["ID"].iloc[common[:: max(1, len(common) // 30)]]
    found = sorted((inputs.bfile.parent / "truth").glob(f"*.covar.{phenotype}.glm.linear*"))
    if not found:
        listed = directory / "glm_variants.txt"
        listed.write_text("\n".join(chosen) + "\n")
        subprocess.run(
            [plink2, "--bfile", inputs.bfile, "--pheno", inputs.pheno, "--pheno-name", phenotype,
             "--covar", inputs.covar, "--glm", "omit-ref", "hide-covar", "--extract", listed,
             "--threads", "1", "--out", directory / "glm"],
            check=True, capture_output=True,
        )  # fmt: skip
        found = [directory / f"glm.{phenotype}.glm.linear"]
    table = pd.read_csv(found[0], sep=r"\s+", dtype={"ID": str, "A1": str}).set_index("ID")
    rows = table.loc[chosen]
    assert list(rows["A1"]) == list(inputs.bim.set_index("ID")["A1"].loc[chosen])
    return rows
