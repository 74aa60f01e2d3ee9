"""weights.tsv.gz and centre.afreq: format, refusals, and scores by plink2."""

from __future__ import annotations

import dataclasses
import gzip
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bed_reader import open_bed
from release_examples import example_document, example_variants, example_weights

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import VariantTable, read_bim
from primo_scale.publication.pgs import write_pgs_files
from primo_scale.publication.releasable import check_releasable, refuse_formulas
from primo_scale.publication.weights import (
    ScoringWeights,
    write_centre_afreq,
    write_covariates,
    write_weights,
)
from primo_scale.publication.wording import stamp_column, stamp_of

DOCUMENT = example_document()
STAMP, COLUMN = stamp_of(DOCUMENT), stamp_column(DOCUMENT)


def test_layout_is_that_of_the_contract(tmp_path):
    """Also: the bytes do not depend on the name, and weights keep nine digits."""
    weights = example_weights()
    per_allele = weights.per_allele * 10.0 ** -np.arange(7)[:, None]
    for name in ("a.gz", "another_name.gz"):
        scaled = dataclasses.replace(weights, per_allele=per_allele)
        write_weights(tmp_path / name, scaled, DOCUMENT)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "another_name.gz").read_bytes()
    lines = gzip.decompress((tmp_path / "a.gz").read_bytes()).decode().splitlines()
    assert lines[0] == f"ID\teffect_allele\tother_allele\tchrom\tpos\t{COLUMN}\theight\tLDL"
    assert lines[1].startswith("rs0\tA\tG\t22\t100\t.\t")
    table = pd.read_csv(tmp_path / "a.gz", sep="\t")
    assert set(table[COLUMN]) == {"."}
    assert pd.api.types.is_integer_dtype(table["pos"])
    np.testing.assert_allclose(table[["height", "LDL"]], per_allele, rtol=5e-9)


def test_intercept_and_covariates_have_a_table_of_their_own(tmp_path):
    weights = example_weights()
    write_covariates(tmp_path / "c.tsv", weights, DOCUMENT)
    stamp, header, *rows = (tmp_path / "c.tsv").read_text().splitlines()
    assert (stamp, header) == (f"##{STAMP}", "term\theight\tLDL")
    assert [row.split("\t")[0] for row in rows] == ["(intercept)", "AGE"]
    numbers = np.array([row.split("\t")[1:] for row in rows], dtype=float)
    expected = np.vstack([weights.intercept, weights.covariate_weights])
    np.testing.assert_allclose(numbers, expected, rtol=5e-9)


def with_identifiers(*changes: tuple[int, str]) -> ScoringWeights:
    variants = example_variants()
    identifiers = variants.identifier.copy()
    for index, name in changes:
        identifiers[index] = name
    return example_weights(dataclasses.replace(variants, identifier=identifiers))


@pytest.mark.parametrize(
    "changes, message",
    [
        ([(2, "rs1"), (5, "rs4")], "'rs1', 'rs4'"),
        ([(0, ".")], "'.'"),
        ([(0, "#ID")], "#ID"),
    ],
)
def test_ambiguous_identifiers_are_refused_with_a_remedy(changes, message):
    with pytest.raises(InputError) as refusal:
        check_releasable(with_identifiers(*changes))
    assert message in str(refusal.value)
    assert "plink2 --set-all-var-ids" in str(refusal.value)


@pytest.mark.parametrize("field", ["per_allele", "intercept", "covariate_weights", "centre_dosage"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(field, value):
    weights = example_weights()
    damaged = getattr(weights, field).copy()
    damaged.flat[-1] = value
    with pytest.raises(InputError, match="not finite"):
        check_releasable(dataclasses.replace(weights, **{field: damaged}))


@pytest.mark.parametrize(
    "names", [("a b", "c"), ("a\tb", "c"), ("", "c"), ("a\x1b", "c"), ("c", "c"), ("(intercept)",)]
)
def test_names_that_would_break_a_table_are_refused(names):
    with pytest.raises(InputError):
        check_releasable(example_weights(phenotypes=names))


# ---------------------------------------------------------------- formulas of spreadsheets


def columns(**changed):
    return {"phenotypes": ["height"], "covariates": ["AGE"], **changed}


@pytest.mark.parametrize("first", ["=", "+", "-", "@"])
@pytest.mark.parametrize("column", ["phenotypes", "covariates"])
def test_a_column_that_is_a_formula_is_refused(column, first):
    name = f"{first}cmd"
    with pytest.raises(InputError, match=r"name begins with =, \+, - or @.*Rename the column"):
        refuse_formulas(example_variants(), **columns(**{column: ["LDL", name]}))


@pytest.mark.parametrize("column", ["identifier", "allele1", "allele2", "chromosome"])
def test_a_variant_that_is_a_formula_is_refused(column):
    variants = example_variants()
    values = getattr(variants, column).copy()
    values[-1] = "=1+1"
    changed = dataclasses.replace(variants, **{column: values})
    with pytest.raises(InputError, match=r"spreadsheets execute as a formula \(got '=1\+1'\)"):
        refuse_formulas(changed, **columns())
    with pytest.raises(InputError, match="spreadsheets execute as a formula"):
        check_releasable(dataclasses.replace(example_weights(), variants=changed))


def test_an_absent_allele_and_a_sign_within_a_name_are_text():
    variants = example_variants()
    absent = np.array(["-"] * len(variants), dtype=object)
    ids = np.array([f"1:{k}:A:-" for k in range(len(variants))], dtype=object)
    changed = dataclasses.replace(variants, allele2=absent, identifier=ids)
    refuse_formulas(changed, phenotypes=["HDL-C", "a=b"], covariates=["age@visit"])


# -------------------------------------------------------------------------------- against plink2


def real_set(reference: Path, name: str) -> tuple[Path, VariantTable, np.ndarray]:
    """Return a real fileset, its variants, and bed-reader's copies of A1 (NaN: missing)."""
    prefix = {
        "regenie": reference / "data/real/regenie_example/example",
        "hapmap3": reference / "data/real/hapmap3_chr1-10/hm3_chr1-10",
    }[name]
    with open_bed(f"{prefix}.bed", count_A1=True) as bed:
        dosage = bed.read(dtype="float64")
    return prefix, read_bim(Path(f"{prefix}.bim")).variants, dosage


def genetic_score(weights: ScoringWeights, dosage: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(dosage), weights.centre_dosage, dosage) @ weights.per_allele


def plink2_sums(plink2: str, prefix: Path, score: list[str], out: Path) -> pd.DataFrame:
    where = ["--bfile", str(prefix), "--threads", "1", "--out", str(out)]
    subprocess.run([plink2, *where, "--score", *score], check=True, capture_output=True)
    return pd.read_csv(f"{out}.sscore", sep=r"\s+")


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["regenie", "hapmap3"])
def test_plink2_scores_the_weights_as_bed_reader_and_numpy_do(name, reference, plink2, tmp_path):
    prefix, variants, dosage = real_set(reference, name)
    weights = example_weights(variants, phenotypes=("Y1", "Y2", "Y3"))
    write_weights(tmp_path / "weights.tsv.gz", weights, DOCUMENT)
    write_centre_afreq(tmp_path / "centre.afreq", weights, DOCUMENT)
    # The contract's command, with sums beside the averages.
    score = [str(tmp_path / "weights.tsv.gz"), "1", "2", "header-read", "cols=+scoresums"]
    score += ["--score-col-nums", "7-9", "--read-freq", str(tmp_path / "centre.afreq")]
    sums = plink2_sums(plink2, prefix, score, tmp_path / "out")
    expected = genetic_score(weights, dosage)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        sums[["Y1_SUM", "Y2_SUM", "Y3_SUM"]], expected, rtol=1e-5, atol=1e-6 * scale
    )
    # The centres matter: with the sample's own frequencies, missing genotypes score otherwise.
    if np.isnan(dosage).any():
        sums = plink2_sums(plink2, prefix, score[:-2], tmp_path / "no_centre")
        assert np.abs(sums["Y1_SUM"] - expected[:, 0]).max() > 1e-3 * scale


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["regenie", "hapmap3"])
def test_plink2_scores_the_pgs_files_alike(name, reference, plink2, tmp_path):
    prefix, variants, dosage = real_set(reference, name)
    weights = example_weights(variants)
    write_centre_afreq(tmp_path / "centre.afreq", weights, DOCUMENT)
    write_pgs_files(tmp_path / "pgs", weights, DOCUMENT)
    expected = genetic_score(weights, dosage)
    for index, phenotype in enumerate(weights.phenotypes):
        text = gzip.decompress((tmp_path / f"pgs/{phenotype}.txt.gz").read_bytes()).decode()
        table = tmp_path / f"{phenotype}.txt"
        table.write_text("\n".join(line for line in text.split("\n") if not line.startswith("#")))
        score = [str(table), "1", "4", "6", "header-read", "cols=+scoresums"]
        score += ["--read-freq", str(tmp_path / "centre.afreq")]
        sums = plink2_sums(plink2, prefix, score, tmp_path / phenotype)["effect_weight_SUM"]
        scale = np.abs(expected[:, index]).max()
        np.testing.assert_allclose(sums, expected[:, index], rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.oracle
def test_plink2_reads_weights_of_variants_without_a_second_allele(reference, plink2, tmp_path):
    prefix = reference / "data/edge/plink_made/rare_indels_a1zero"
    weights = example_weights(read_bim(Path(f"{prefix}.bim")).variants)
    write_weights(tmp_path / "weights.tsv.gz", weights, DOCUMENT)
    write_centre_afreq(tmp_path / "centre.afreq", weights, DOCUMENT)
    with open_bed(f"{prefix}.bed", count_A1=True) as bed:
        expected = genetic_score(weights, bed.read(dtype="float64"))
    score = [str(tmp_path / "weights.tsv.gz"), "1", "2", "header-read", "cols=+scoresums"]
    score += ["--score-col-nums", "7-8", "--read-freq", str(tmp_path / "centre.afreq")]
    sums = plink2_sums(plink2, prefix, score, tmp_path / "out")
    np.testing.assert_allclose(sums[["height_SUM", "LDL_SUM"]], expected, rtol=1e-4, atol=1e-4)
