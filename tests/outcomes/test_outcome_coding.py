"""Phenotypes and covariates on the integer lattice."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.processes import run_program

from primo_scale.errors import InputError
from primo_scale.outcomes.coding import (
    CovariateBounds,
    CovariateCoding,
    OutcomeCoding,
    PhenotypeBounds,
    code_outcomes,
    has_components,
)
from primo_scale.outcomes.tables import open_outcome_table

ANY_VALUE = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([-9.0, 0.0, 1.0, 2.0])
FINITE = st.floats(-1e6, 1e6)


def quantitative(name, lower, upper, mean=0.0, sd=1.0):
    return PhenotypeBounds(name, lower, upper, mean, sd, "quantitative")


def binary(name, lower, upper):
    return PhenotypeBounds(name, lower, upper, (lower + upper) / 2, 0.5, "binary")


def test_values_are_clamped_scaled_and_truncated_to_zero():
    coding = code_outcomes([quantitative("y", -2, 3, mean=1, sd=2)], [])
    assert (coding.unit, coding.constant) == (8192, 8192)
    values = np.array([1, 1 + 2 / 8192, 1 + 1.99 / 8192, 1 - 1.99 / 8192, 3, 99, np.inf, -2, -8])
    codes = coding.code_phenotypes(values[:, None])[:, 0]
    assert codes.dtype == np.int16
    assert codes.tolist() == [0, 1, 0, 0, 8192, 8192, 8192, -12288, -12288]
    assert coding.code_phenotypes(np.array([[-np.inf]])) == -12288


def test_covariates_are_clamped_scaled_and_truncated_to_zero():
    coding = CovariateCoding("c", lower=-2.0, upper=3.0, centre=1.0, scale=100.0)
    both = dataclasses.replace(code_outcomes([], []), covariates=(coding,))
    values = np.array([1, 1.5, 1.019, 0.981, 3, 99, -2, -8, -9, np.nan])
    codes = both.code_covariates(values[:, None])[:, 0]
    assert codes.tolist() == [0, 50, 1, -1, 200, 200, -300, -300, 0, 0]


@given(FINITE, FINITE, FINITE, st.floats(0.01, 1e6), st.lists(ANY_VALUE, min_size=1))
def test_phenotype_codes_stay_in_range(a, b, c, sd, values):
    lower, mean, upper = sorted([a, b, c])
    assume(upper - lower > 1e-3)
    farthest = max(upper - mean, mean - lower) / sd
    bounds = quantitative("y", lower, upper, mean, sd)
    if farthest > 32767 / 1024:
        with pytest.raises(InputError, match="too far from its mean"):
            code_outcomes([bounds], [])
        return
    coding = code_outcomes([bounds], [])
    assert 1024 <= coding.unit <= 8192
    assert coding.unit == 8192 or (coding.unit + 1) * farthest > 32767 * (1 - 1e-12)
    column = np.array([*values, lower, upper, np.inf, -np.inf])[:, None]
    codes = coding.code_phenotypes(column)[:, 0].astype(int)
    assert np.abs(codes).max() <= coding.max_abs[1] <= 32767
    assert coding.phenotype_norm_cap == coding.max_abs[1] ** 2
    observed = coding.observed(column)[:, 0]
    ideal = (np.clip(column[:, 0], lower, upper) - mean) / sd * coding.unit
    assert not codes[~observed].any()
    assert np.all(np.abs(codes[observed] - ideal[observed]) < 1 + 1e-6)
    assert np.all(np.abs(codes[observed]) <= np.abs(ideal[observed]) + 1e-6)


@given(FINITE, FINITE, FINITE, st.lists(ANY_VALUE, min_size=1))
def test_covariate_codes_are_at_most_the_constant(a, b, c, values):
    lower, centre, upper = sorted([a, b, c])
    assume(upper - lower > 1e-3)
    coding = code_outcomes([], [CovariateBounds("c", lower, upper, centre)])
    assert coding.constant == coding.unit
    column = np.array([*values, lower, upper])[:, None]
    codes = np.abs(coding.code_covariates(column).astype(int))
    assert codes.max() <= coding.max_abs[1] <= coding.constant
    assert coding.max_abs[1] >= coding.constant - 1  # the scale is not wasted


def test_columns_and_digest():
    phenotypes = [quantitative("y", -4, 4), binary("cc", 1, 2)]
    covariates = [CovariateBounds("age", 0, 100, 50)]
    coding = code_outcomes(phenotypes, covariates)
    assert coding.n_columns == 4
    others = [
        code_outcomes(phenotypes, covariates, largest_unit=4096),
        code_outcomes(phenotypes[::-1], covariates),
        code_outcomes(phenotypes, [CovariateBounds("age", 0, 100, 40)]),
        code_outcomes(phenotypes, []),
    ]
    assert len({coding.digest, *(other.digest for other in others)}) == 5
    assert code_outcomes(phenotypes, covariates).digest == coding.digest
    with pytest.raises(InputError, match="the name y is used for 2 columns"):
        code_outcomes([*phenotypes, phenotypes[0]], [])
    with pytest.raises(InputError, match="the name y is used for 2 columns"):
        code_outcomes(phenotypes, [CovariateBounds("y", 0, 1, 0)])


def test_binary_codings():
    coding = code_outcomes([binary("b12", 1, 2), binary("b01", 0, 1)], [])
    values = np.array([[0, 0], [1, 1], [2, 2], [-9, -9], [np.nan, np.nan], [1.5, 0.5]])
    assert coding.observed(values)[:, 0].tolist() == [False, True, True, False, False, False]
    assert coding.observed(values)[:, 1].tolist() == [True, True, False, False, False, False]
    assert np.argwhere(coding.invalid_codes(values)).tolist() == [[2, 1], [5, 0], [5, 1]]
    assert coding.code_phenotypes(values).tolist() == [
        [0, -8192], [-8192, 8192], [8192, 0], [0, 0], [0, 0], [0, 0],
    ]  # fmt: skip
    assert np.argwhere(coding.cases(values)).tolist() == [[1, 1], [2, 0]]


TOKENS = ["-9", "-9.0", "-9e0", "-9.00001", "NA", "na", "nan", "NaN", "0", "0.0", "1", "2", "1e0"]


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("kind", "options"), [("quantitative", []), ("b12", []), ("b01", ["--1"]), ("covariate", [])]
)
def test_missing_values_are_those_of_plink2(reference, plink2, tmp_path, kind, options):
    """Each token stands for one person; plink2 writes NA for those it takes as missing."""
    fam = (reference / "data/real/regenie_example/example.fam").read_text().split("\n")
    people = [line.split()[:2] for line in fam if line]
    # plink2 takes a column as binary only if it holds nothing but codes.
    codes = {"b12": {0, 1, 2, -9}, "b01": {0, 1, -9}}.get(kind)
    numbers = [np.nan if token.lower() == "na" else float(token) for token in TOKENS]
    pairs = zip(TOKENS, numbers, strict=True)
    tokens = [t for t, v in pairs if codes is None or np.isnan(v) or v in codes]
    filler = ["0.5" if codes is None else "1"] * (len(people) - len(tokens))
    path = tmp_path / "table.txt"
    rows = [f"{f} {i} {t}\n" for (f, i), t in zip(people, tokens + filler, strict=True)]
    path.write_text("FID IID V\n" + "".join(rows))

    columns = ["--make-just-psam", "cols=maybefid,phenos"]
    source, suffix = ["--pheno", str(path)], "psam"
    if kind == "covariate":
        source, columns, suffix = ["--covar", str(path)], ["--write-covar", "cols=maybefid"], "cov"
    words = ["--no-psam-pheno", *source, *options, *columns, "--out", tmp_path / "out"]
    run_program(plink2, "--bfile", reference / "data/real/regenie_example/example", *words)
    theirs = pd.read_csv(tmp_path / f"out.{suffix}", sep="\t", dtype=str, keep_default_na=False)

    bounds = {"b12": binary("V", 1, 2), "b01": binary("V", 0, 1)}
    ((_, _, values),) = open_outcome_table(path).row_groups(["V"])
    if kind == "covariate":
        # No token equals the centre, so that the code 0 means missing.
        coding = code_outcomes([], [CovariateBounds("V", -20, 20, 15)])
        ours = coding.code_covariates(values)[:, 0] == 0
    else:
        coding = code_outcomes([bounds.get(kind, quantitative("V", -20, 20))], [])
        ours = ~coding.observed(values)[:, 0]
    assert ours.tolist() == (theirs["V"] == "NA").tolist()
    assert 0 < ours.sum() < len(tokens)


def test_reference_vector_13_is_coded_as_outcomes(reference):
    """Both matrices of the vector as phenotypes, with scales below those of `code_outcomes`."""
    vector = np.load(reference / "vectors" / "13_fixed_point.npz")
    for values, scale, expected in (
        (vector["X"], vector["scale_x"], vector["out_qx"]),
        (vector["Y"], vector["scale_y"], vector["out_qy"]),
    ):
        columns = tuple(
            PhenotypeBounds(f"y{j}", -100.0, 100.0, 0.0, 1.0, "quantitative")
            for j in range(values.shape[1])
        )
        coding = OutcomeCoding(constant=1, covariates=(), phenotypes=columns, unit=int(scale))
        np.testing.assert_array_equal(coding.code_phenotypes(values), expected)
    genotypes = vector["out_qx"].astype(np.int64)
    np.testing.assert_array_equal(genotypes.T @ vector["out_qy"], vector["out_G_int"])


COMPONENTS = [
    "PC1", "pc1", "PC_1", "PC01", "PC.10", "PCA1", "pca_2", "PC1_AVG", "PC1_SUM", "gPC1", "x PC-3",
    "genetic_pc4", "22009-0.1", "p22009_a1", "f.22009.0.1",
]  # fmt: skip
OTHERS = ["AGE", "PC", "NPC1", "PCSK9", "PCR", "spc1", "PC1x", "array1", "220090", "U1", "sex"]


@pytest.mark.parametrize("name", [*COMPONENTS, *OTHERS])
def test_names_of_components(name):
    assert has_components(["AGE", name]) is (name in COMPONENTS)
