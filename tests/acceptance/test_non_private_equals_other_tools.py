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
from acceptance_inputs import (
    GENOTYPE_UNIT,
    RAREST_IN_PANEL,
    Float64,
    Published,
    RealSet,
    public_coding,
)
from sklearn.linear_model import Ridge

# Weights are printed with nine digits; solving costs a few more than the last of them.
RELATIVE_TOLERANCE = 1e-6
PRINTED_BY_PLINK2 = 1e-5  # six digits

PRIOR_HERITABILITY = 0.3  # of the automatic penalty, docs/maths/gram.md


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
# and with the automatic penalty, a given one and one for a dense Gram matrix; the larger ones
# are thinned to every 30th or 8th variant, over all their chromosomes.
RELEASES = {
    "1000g": ("1000g", False, None, "window:200", 30),
    "1000g-frequencies": ("1000g", True, 250.0, "window:200", 30),
    "hapmap3": ("hapmap3", False, None, "window:100", 8),
    "hapmap3-frequencies": ("hapmap3", True, None, "window:100", 8),
    "regenie-dense": ("regenie", False, None, None, None),
    "regenie-binary-frequencies": ("regenie-binary", True, 40.0, "window:250", None),
}


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def release(request, real_sets, run, tmp_path_factory) -> Release:
    name, with_frequencies, ridge, blocks, step = RELEASES[request.param]
    inputs: RealSet = real_sets[name]
    directory = tmp_path_factory.mktemp(request.param)
    options: list[object] = [*inputs.options, "--non-private"]
    if with_frequencies:
        options += ["--ref-freq", inputs.frequencies]
    if ridge is not None:
        options += ["--ridge", ridge]
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


def test_penalty_is_the_one_given_or_follows_from_public_sizes(
    release: Release, on_lattice: Regression
) -> None:
    p = release.inputs.alt_frequencies()[variants_of(release)] if release.with_frequencies else 0.5
    p = np.clip(p, RAREST_IN_PANEL, 1 - RAREST_IN_PANEL)
    variance = np.sum(on_lattice.multiplier**2 * 2 * p * (1 - p))
    unit = GENOTYPE_UNIT if release.with_frequencies else 1
    prior = variance * (1 - PRIOR_HERITABILITY) / PRIOR_HERITABILITY
    expected = prior if release.ridge is None else release.ridge * unit**2
    assert penalty_of(release) == pytest.approx(expected, rel=1e-9)


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
    allowed = [
        truncation_error(release, on_floats, on_lattice, block, expected[block])
        for block in blocks(release)
    ]
    found = [np.linalg.norm(difference[block], axis=0) for block in blocks(release)]
    assert np.all(np.array(found) <= np.array(allowed))
    # Truncation is worth little beside the weights, so that this tells right from wrong.
    assert np.linalg.norm(allowed) < 0.05 * np.linalg.norm(expected)


@pytest.mark.oracle
def test_plink2_score_reproduces_predictions(release: Release, plink2: str, tmp_path: Path) -> None:
    weights = release.published.variant_weights
    scores = plink2_sums(
        plink2, release, tmp_path / "scores",
        [release.published.path / "weights.tsv.gz", 1, 2, "header-read", "cols=+scoresums",
         "--score-col-nums", f"7-{6 + weights.shape[1]}"],
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
    ("name", "phenotypes"),
    [
        ("1000g", ["CSF2RB", "APOBEC3B", "TK2"]),
        ("regenie", ["Y1", "Y2"]),
        ("hapmap3", ["QT1", "QT6"]),  # those nobody lacks
    ],
)
def test_one_variant_and_covariates_equal_plink2_glm(
    name: str, phenotypes: list[str], real_sets, run, plink2: str, tmp_path: Path
) -> None:
    inputs: RealSet = real_sets[name]
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
        truncation_error(release, raw, lattice, block, expected[block]) for block in blocks(release)
    ]
    for index, phenotype in enumerate(phenotypes):
        truth = plink2_glm(inputs, phenotype, listed, plink2, tmp_path / "glm").loc[chosen]
        given = truth["BETA"].notna().to_numpy()  # plink2 gives none where it finds collinearity
        assert given.sum() >= len(chosen) - 1
        beta, error = truth["BETA"].to_numpy()[given], truth["SE"].to_numpy()[given]
        difference = np.abs(release.published.variant_weights.loc[chosen, phenotype][given] - beta)
        assert np.all(difference <= allowed[given, index] + PRINTED_BY_PLINK2 * np.abs(beta))
        assert np.all(allowed[given, index] < 0.05 * error)


def coding_of(release: Release) -> tuple[Float64, Float64]:
    """k and m of every variant: without frequencies, copies of A1 beside one copy."""
    if release.with_frequencies:
        return public_coding(release.inputs.alt_frequencies()[variants_of(release)])
    d = len(release.published.variant_weights)
    return np.ones(d), np.ones(d)


def regression(release: Release, *, on_lattice: bool) -> Regression:
    """State the regression problem of a release from the input files and public numbers.

    With `on_lattice`, covariates and phenotypes are truncated as
    docs/maths/clipping-and-integers.md says; without, they are the plain numbers of the files,
    clamped, centred and scaled.
    """
    inputs, public = release.inputs, release.published.statement["public_inputs"]
    truncate = np.trunc if on_lattice else np.asarray
    k, m = coding_of(release)
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


def blocks(release: Release) -> Iterator[slice]:
    """Variants of every LD block."""
    edges = np.cumsum([0, *release.published.statement["cohort"]["block_sizes"]])
    return map(slice, edges[:-1], edges[1:])


def penalty_of(release: Release) -> float:
    """Ridge penalty, in lattice units."""
    (penalty,) = set(release.published.statement["estimation"]["penalties"])
    return penalty


def solve_by_blocks(release: Release, problem: Regression) -> tuple[Float64, Float64]:
    """Ridge of scikit-learn in every block; fixed columns are projected out, so not penalised.

    The fixed columns' own weights are then those of least squares on what all blocks together
    leave. Shapes (d, l) and (1 + c, l).
    """
    basis = np.linalg.qr(problem.fixed)[0]
    targets = problem.phenotypes - basis @ (basis.T @ problem.phenotypes)
    weights = np.empty((problem.genotypes.shape[1], targets.shape[1]))
    for block in blocks(release):
        x = problem.genotypes[:, block]
        model = Ridge(alpha=penalty_of(release), fit_intercept=False).fit(
            x - basis @ (basis.T @ x), targets
        )
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


def truncation_error(
    release: Release,
    raw: Regression,
    lattice: Regression,
    block: slice,
    weights: Float64,
) -> Float64:
    """Size of the change that truncation makes to the weights of a block, in sds, shape (l,).

    Let W solve ``(X'MX + rI) W = X'MY`` with M the projector off the fixed columns C, and W', M',
    C' and Y' the same on the lattice, in the same units. With e = Y - XW and b = C^+ e,

        W' - W = (X'M'X + rI)^-1 X' [M' (Y' - Y) - M' (C' - C) b - C'^+' (C' - C)' Me].

    An entry of Y' - Y is below 1/s_y and one of C' - C below 1/kappa, and different people's do
    not conspire: their squares add. Three times that is allowed.
    """
    public = release.published.statement["public_inputs"]
    step, coarse = 1 / public["phenotype_unit"], 1 / public["constant"]
    x = raw.genotypes[:, block]
    fixed = lattice.fixed * coarse
    inverse = np.linalg.pinv(fixed)
    error = raw.phenotypes - x @ weights
    coefficients = np.linalg.lstsq(raw.fixed, error, rcond=None)[0]
    residual = np.linalg.norm(error - raw.fixed @ coefficients, axis=0)
    slope = np.abs(coefficients[1:]).sum(axis=0)  # the constant is exact
    matrix = x.T @ (x - fixed @ (inverse @ x)) + penalty_of(release) * np.eye(x.shape[1])
    gain = np.linalg.solve(matrix, x.T)
    of_entries = np.linalg.norm(gain) * (step * np.sqrt(raw.rescale) + coarse * slope)
    of_projector = np.linalg.norm(gain @ inverse.T[:, 1:]) * coarse * residual
    return 3 * (of_entries + of_projector)


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


def common_variants_without_missing(inputs: RealSet, *, count: int) -> list[str]:
    """IDs of some variants of minor allele frequency above 0.1 that everybody has a call of."""
    frequency = inputs.dosages().mean(axis=0) / 2  # nan with any missing call
    common = np.flatnonzero((frequency > 0.1) & (frequency < 0.9))
    chosen = common[np.linspace(0, len(common) - 1, count).astype(int)]
    return list(inputs.bim["ID"].iloc[chosen])


def plink2_glm(
    inputs: RealSet, phenotype: str, variants: Path, plink2: str, out: Path
) -> pd.DataFrame:
    """Rows of ``plink2 --glm`` by ID, counting A1: shipped with the data, or computed here."""
    found = list((inputs.bfile.parent / "truth").glob(f"*.covar.{phenotype}.glm.linear*"))
    if not found:
        subprocess.run(
            [plink2, "--bfile", inputs.bfile, "--pheno", inputs.pheno, "--pheno-name", phenotype,
             "--covar", inputs.covar, "--glm", "omit-ref", "hide-covar", "--extract", variants,
             "--threads", "1", "--out", out],
            check=True, capture_output=True,
        )  # fmt: skip
        found = [Path(f"{out}.{phenotype}.glm.linear")]
    table = pd.read_csv(found[0], sep=r"\s+", dtype={"ID": str, "A1": str}).set_index("ID")
    counted = inputs.bim.set_index("ID")["A1"].loc[table.index]
    assert np.array_equal(table["A1"], counted)
    return table
