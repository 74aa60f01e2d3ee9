"""Reading of scoring files of the PGS Catalog."""

import numpy as np
import pytest
from filesets import variants_with

from primo_scale.errors import InputError
from primo_scale.evaluation.scores import match_weights
from primo_scale.evaluation.scoring_files import read_scoring_file

ROWS = {
    "rsID": ("rs1", "rs2"),
    "chr_name": ("22", "X"),
    "chr_position": ("100", "200"),
    "effect_allele": ("A", "C"),
    "other_allele": ("G", "T"),
    "effect_weight": ("0.5", "1.5"),
}


def catalog_file(folder, columns, header=""):
    path = folder / "score.txt"
    rows = ["\t".join(row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([f"#pgs_id=PGS1{header}", "\t".join(columns), *rows]) + "\n")
    return path


def test_a_row_without_an_rsid_is_matched_by_position_as_the_others(tmp_path):
    file = read_scoring_file(catalog_file(tmp_path, ROWS | {"rsID": ("rs1", "")}), None)
    assert file.by_position
    assert list(file.variants["ID"]) == ["22:100", "X:200"]
    np.testing.assert_array_equal(file.per_allele, [[0.5], [1.5]])
    named = read_scoring_file(catalog_file(tmp_path, ROWS), None)
    assert not named.by_position
    assert list(named.variants["ID"]) == ["rs1", "rs2"]


@pytest.mark.parametrize("code", ["X", "PAR1", "25"])
def test_pseudo_autosomal_variants_are_matched_by_position_on_x(tmp_path, code):
    rows = {name: cells for name, cells in ROWS.items() if name != "rsID"}
    rows |= {"chr_name": ("XY", "X")}
    file = read_scoring_file(catalog_file(tmp_path, rows), None)
    variants = variants_with(
        2, chromosome=code, position=[100, 200], allele1=["A", "C"], allele2=["G", "T"]
    )
    assert match_weights(file, variants).counts.matched == 2


@pytest.mark.parametrize("model", ["is_recessive", "is_dominant", "is_interaction"])
def test_weights_that_are_not_per_allele_are_refused(tmp_path, model):
    assert read_scoring_file(catalog_file(tmp_path, ROWS | {model: ("False", "")}), None)
    with pytest.raises(InputError, match=rf"not per copy .*got {model} in 1 of 2 rows"):
        read_scoring_file(catalog_file(tmp_path, ROWS | {model: ("False", "True")}), None)


@pytest.mark.parametrize("kind", ["OR", "HR"])
def test_ratios_are_refused_and_their_logarithms_taken(tmp_path, kind):
    header = f"\n#weight_type={kind}"
    with pytest.raises(InputError, match=rf"ratios as weights.*weight_type={kind}.*logarithms"):
        read_scoring_file(catalog_file(tmp_path, ROWS, header), None)
    logarithms = ROWS | {"effect_weight": ("0.5", "-1.5")}
    assert read_scoring_file(catalog_file(tmp_path, logarithms, header), None)
    assert read_scoring_file(catalog_file(tmp_path, ROWS, "\n#weight_type=log(OR)"), None)


def test_a_file_without_other_alleles_is_refused(tmp_path):
    columns = {name: values for name, values in ROWS.items() if name != "other_allele"}
    with pytest.raises(InputError, match="no column other_allele in the header"):
        read_scoring_file(catalog_file(tmp_path, columns), None)
