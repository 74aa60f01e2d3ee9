"""Weights, covariates and scoring files: names, formats, rows and refusals."""

import dataclasses
import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.release_examples import example_document, example_variants, example_weights

from primo_scale.errors import InputError
from primo_scale.publication.weights import check_releasable, write_files
from primo_scale.verify.formats import pgs_file_stems
from primo_scale.verify.words import stamp_column, stamp_of

DOCUMENT = example_document()
STAMP, COLUMN = stamp_of(DOCUMENT), stamp_column(DOCUMENT)


def test_layout_is_that_of_the_contract(tmp_path):
    """The bytes do not depend on the name of the file, and weights keep nine digits."""
    weights = example_weights()
    per_allele = weights.per_allele * 10.0 ** -np.arange(7)[:, None]
    for name in ("a", "another"):
        scaled = dataclasses.replace(weights, per_allele=per_allele)
        (tmp_path / name).mkdir()
        write_files(tmp_path / name, scaled, DOCUMENT)
    path, other = (tmp_path / name / "weights.tsv.gz" for name in ("a", "another"))
    assert path.read_bytes() == other.read_bytes()
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert lines[0] == f"ID\teffect_allele\tother_allele\tchrom\tpos\t{COLUMN}\theight\tLDL"
    assert lines[1].startswith("rs0\tA\tG\t22\t100\t.\t")
    table = pd.read_csv(path, sep="\t")
    assert set(table[COLUMN]) == {"."}
    assert pd.api.types.is_integer_dtype(table["pos"])
    np.testing.assert_allclose(table[["height", "LDL"]], per_allele, rtol=5e-9)


def test_intercept_and_covariates_have_a_table_of_their_own(tmp_path):
    weights = example_weights()
    write_files(tmp_path, weights, DOCUMENT)
    stamp, header, *rows = (tmp_path / "covariates.tsv").read_text().splitlines()
    assert (stamp, header) == (f"##{STAMP}", "term\theight\tLDL")
    assert [row.split("\t")[0] for row in rows] == ["(intercept)", "AGE"]
    numbers = np.array([row.split("\t")[1:] for row in rows], dtype=float)
    expected = np.vstack([weights.intercept, weights.covariate_weights])
    np.testing.assert_allclose(numbers, expected, rtol=5e-9)


@pytest.mark.parametrize(
    "changes, message",
    [([(2, "rs1"), (5, "rs4")], "'rs1', 'rs4'"), ([(0, ".")], "'.'"), ([(0, "#ID")], "#ID")],
)
def test_ambiguous_identifiers_are_refused_with_a_remedy(changes, message):
    variants = example_variants()
    for index, name in changes:
        variants.identifier[index] = name
    with pytest.raises(InputError) as refusal:
        check_releasable(example_weights(variants))
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
    "names",
    [("a b", "c"), ("a\tb", "c"), ("", "c"), ("a\x1b", "c"), ("c", "c"), ("(intercept)",),
     ("ID",), ("c", "pos"), ("term",)],
)  # fmt: skip
def test_names_that_would_break_a_table_are_refused(names):
    with pytest.raises(InputError):
        check_releasable(example_weights(phenotypes=names))


@pytest.mark.parametrize("first", ["=", "+", "-", "@"])
@pytest.mark.parametrize("column", ["phenotypes", "covariates"])
def test_a_column_that_is_a_formula_is_refused(column, first):
    with pytest.raises(InputError, match=r"name begins with =, \+, - or @.*Rename the column"):
        check_releasable(example_weights(**{column: ("LDL", f"{first}cmd")}))


FORMULA = r"spreadsheets execute as a formula \(got '=1\+1'\)"


@pytest.mark.parametrize(
    ("column", "text", "message"),
    [
        *((name, "=1+1", FORMULA) for name in ("identifier", "allele1", "allele2", "chromosome")),
        ("chromosome", "1\x1b", "control characters in its name"),
    ],
)
def test_a_variant_that_is_a_formula_or_has_a_control_character_is_refused(column, text, message):
    variants = example_variants()
    getattr(variants, column)[-1] = text
    with pytest.raises(InputError, match=message):
        check_releasable(example_weights(variants))


VISIBLE = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=40)


@given(VISIBLE)
def test_no_name_leaves_the_directory_or_hides_in_it(name):
    (stem,) = pgs_file_stems([name])
    assert set(stem) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert stem[0] not in ".-"


@pytest.mark.parametrize("names", [("a/b", "a_b"), ("LDL", "ldl"), ("x|y", "x:y")])
def test_two_phenotypes_never_share_a_file(names):
    with pytest.raises(InputError) as refusal:
        pgs_file_stems(names)
    assert all(repr(name) in str(refusal.value) for name in names)


def read_scoring_file(path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Read as the Catalog does: ``##`` lines skipped, ``#key=value`` split at each '='."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert lines[: len(comments)] == comments
    pairs = [line[1:].split("=") for line in comments if not line.startswith("##")]
    assert all(len(pair) == 2 for pair in pairs)
    columns, *rows = (line.split("\t") for line in lines[len(comments) :])
    return dict(pairs), [dict(zip(columns, row, strict=True)) for row in rows]


def test_header_and_rows_follow_the_format(tmp_path):
    weights = example_weights(phenotypes=("a=b", "LDL"))
    write_files(tmp_path, weights, example_document(weights=weights))
    first = gzip.decompress((tmp_path / "pgs/LDL.txt.gz").read_bytes()).decode()
    assert first.startswith("###PGS CATALOG SCORING FILE - see https://www.pgscatalog.org/")
    assert f"\n##{stamp_of(example_document())}\n" in first
    header, rows = read_scoring_file(tmp_path / "pgs/a_b.txt.gz")
    assert header == {
        "format_version": "2.0",
        "pgs_id": "a_b",
        "pgs_name": "a_b",
        "trait_reported": "a_b",
        "genome_build": "GRCh37",
        "variants_number": "7",
        "weight_type": "beta",
    }
    assert len(rows) == 7
    assert rows[2] | {"effect_weight": ""} == {
        "rsID": "rs2",
        "chr_name": "22",
        "chr_position": "300",
        "effect_allele": "A",
        "other_allele": "G",
        "effect_weight": "",
    }
    found = [float(row["effect_weight"]) for row in rows]
    np.testing.assert_allclose(found, weights.per_allele[:, 0], rtol=5e-9)


def test_unknown_positions_are_empty_and_chromosomes_have_the_catalogs_names(tmp_path):
    variants = dataclasses.replace(
        example_variants(8),
        position=np.array([0, 5, 6, -3, 7, 8, 9, 10]),
        chromosome=np.array(["1", "chr2", "23", "26", "0", "PAR1", "chr25", "chr07"], dtype=object),
    )
    write_files(tmp_path, example_weights(variants), example_document())
    _, rows = read_scoring_file(tmp_path / "pgs/LDL.txt.gz")
    places = [(row["chr_name"], row["chr_position"]) for row in rows]
    assert places[:5] == [("", ""), ("2", "5"), ("X", "6"), ("", ""), ("", "")]
    assert places[5:] == [("X", "8"), ("X", "9"), ("7", "10")]
