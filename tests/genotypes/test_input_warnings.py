"""Warnings about suspicious input, compared with the fixtures' descriptions and plink1.9."""

import pytest
from support.filesets import copy_fileset
from support.ingest_runs import run
from support.processes import run_program
from support.tiers import thinned

from primo_scale.genotypes.filters import Selection


@pytest.mark.parametrize(
    ("name", "expected"),
    # The counts are those of reference/data/README.md, "edge/plink_made".
    thinned(
        [
            ("base_n43_m61", {}),
            ("dupid", {"repeated_identifiers": 4, "absent_identifiers": 3, "repeated_sites": 2}),
            ("dot_ids", {"absent_identifiers": 61}),
            ("bim_negpos", {"negative_positions": 1, "zero_positions": 1}),
            ("bad_bim_nonint_pos", {"odd_positions": 1}),
            ("bim_same_alleles", {"identical_alleles": 1}),
            ("bim_odd_alleles", {"absent_alleles": 2}),
            ("rare_indels_a1zero", {"absent_alleles": 494, "monomorphic_variants": 494}),
            ("fam_same_iid_diff_fid", {"shared_individuals": 2}),
            ("fam_dup_sample", {"repeated_samples": 2}),
            # All hom-A1, all hom-A2, and the variant with one call.
            (
                "degenerate",
                {"monomorphic_variants": 3, "uncalled_variants": 1, "uncalled_samples": 1},
            ),
        ],
        every=3,
    ),
)
def test_each_fixture_has_exactly_its_warnings(reference, tmp_path, name, expected):
    prefix = reference / "data/edge/plink_made" / name
    found = run(prefix, tmp_path / "g.zarr", chunk_shape=(64, 32)).input_warnings
    assert {key: value for key, value in vars(found).items() if value} == expected
    assert len(found.lines()) == len(expected)


@pytest.mark.oracle
def test_heterozygous_haploids_equal_those_of_plink(reference, plink19, tmp_path):
    source = reference / "data/edge/plink_made/sexchr_numeric_unknown_sex"
    prefix = copy_fileset(source, tmp_path / "random", random_genotypes=True)
    run_program(plink19, "--bfile", prefix, "--freq", "--out", prefix)
    on_x = {
        line.split()[1]
        for line in prefix.with_suffix(".bim").read_text().splitlines()
        if line.split()[0] == "23"
    }
    (tmp_path / "x").write_text("\n".join(on_x))
    reported = prefix.with_suffix(".hh").read_text().splitlines()
    expected = sum(line.split()[2] in on_x for line in reported)
    store = run(prefix, tmp_path / "g.zarr", Selection(extract=tmp_path / "x"))
    assert expected > 100
    assert store.input_warnings.heterozygous_haploids == expected
