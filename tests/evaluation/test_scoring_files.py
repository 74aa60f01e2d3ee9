"""Reading of scoring files of the PGS Catalog."""

import numpy as np
import pytest
from support.filesets import variants_with

from primo_scale.errors import InputError
from primo_scale.evaluation.scores import match_weights, read_scoring_file

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


WEIGHTS = ("ID", "effect_allele", "other_allele", "chrom", "pos", "epsilon=5", "QT1", "QT2")
# Headers that are near a documented one, and what was lost before they were refused.
UNKNOWN_HEADERS = {
    "the guarantee of weights is left out, and QT1 with it": (*WEIGHTS[:5], *WEIGHTS[6:]),
    "columns of weights in another order": (*WEIGHTS[:3], "pos", "chrom", *WEIGHTS[5:]),
    "a plink2 --score file": ("ID", "effect_allele", "QT1"),
    "a PGS Catalog file without other alleles": tuple(n for n in ROWS if n != "other_allele"),
    "a PGS Catalog file without weights": tuple(n for n in ROWS if n != "effect_weight"),
}


@pytest.mark.parametrize("names", UNKNOWN_HEADERS.values(), ids=[*UNKNOWN_HEADERS])
def test_an_unknown_header_is_refused_with_columns_found_and_expected(tmp_path, names):
    path = tmp_path / "score.tsv"
    path.write_text("\t".join(names) + "\n" + "\t".join("1" for _ in names) + "\n")
    with pytest.raises(InputError) as refusal:
        read_scoring_file(path, ("QT1", "QT2"))
    assert refusal.value.exit_code == 3
    assert f"{path}: is no scoring file: its header is unknown" in str(refusal.value)
    assert f"found {' '.join(names)}, expected ID effect_allele other_allele chrom pos" in str(
        refusal.value
    )


@pytest.mark.parametrize("stamp", ["NOT_PRIVATE", "epsilon=5,delta=1e-09,unit=full"])
def test_the_first_phenotype_follows_the_guarantee(tmp_path, stamp):
    path = tmp_path / "weights.tsv"
    names = (*WEIGHTS[:5], stamp, *WEIGHTS[6:])
    path.write_text("\t".join(names) + "\nrs1\tA\tG\t22\t100\t.\t0.5\t1.5\n")
    file = read_scoring_file(path, None)
    assert (file.phenotypes, file.not_private) == (("QT1", "QT2"), stamp == "NOT_PRIVATE")
    np.testing.assert_array_equal(file.per_allele, [[0.5, 1.5]])
