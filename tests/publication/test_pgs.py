"""PGS Catalog scoring files: safe file names, header and rows."""

import dataclasses
import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.release_examples import example_document, example_variants, example_weights

from primo_scale.errors import InputError
from primo_scale.publication.weights import write_files
from primo_scale.verify.formats import pgs_file_stems
from primo_scale.verify.words import stamp_of

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
