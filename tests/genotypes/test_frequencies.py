"""Matching a public panel's allele frequencies to the variants of a cohort."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from bed_reader import open_bed
from support.filesets import variants_with
from support.processes import run_program

from primo_scale.errors import InputError
from primo_scale.genotypes.coding import MatchCounts, read_reference_frequencies
from primo_scale.genotypes.tables import VariantTable, read_bim

HEADER = "#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n"


def variant_table(*rows: tuple[str, str, str]) -> VariantTable:
    identifier, allele1, allele2 = zip(*rows, strict=True)
    return variants_with(len(rows), identifier=identifier, allele1=allele1, allele2=allele2)


def panel(path: Path, *rows: str, header: str = HEADER) -> Path:
    file = path / "panel.afreq"
    file.write_text(header + "".join(f"{row}\n" for row in rows))
    return file


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("other", "swapped", "flipped"),
    [("a1a2_swapped", True, False), ("strand_flipped", False, True)],
)
def test_swapped_and_flipped_panels_give_the_same_frequencies(
    reference, plink2, tmp_path, other, swapped, flipped
):
    made = reference / "data/edge/plink_made"
    run_program(plink2, "--bfile", made / other, "--freq", "--out", tmp_path / "panel")
    variants = read_bim(made / "base_n43_m61.bim")
    matched = read_reference_frequencies(tmp_path / "panel.afreq", variants)
    genotypes = open_bed(made / "base_n43_m61.bed").read(dtype="float64")
    truth = np.nanmean(genotypes, axis=0) / 2
    pairs = zip(variants.allele1, variants.allele2, strict=True)
    ambiguous = np.array([set(pair) in ({"A", "T"}, {"C", "G"}) for pair in pairs])
    # A flipped strand of an ambiguous pair cannot be told from exchanged alleles.
    expected = np.where(ambiguous & flipped, 1 - truth, truth)
    np.testing.assert_allclose(matched.a1_frequency, expected, rtol=0, atol=2e-6)
    assert matched.counts.ambiguous == ambiguous.sum()
    assert matched.counts.swapped == (len(variants) if swapped else (ambiguous & flipped).sum())
    assert matched.counts.flipped == ((~ambiguous).sum() if flipped else 0)


def test_every_way_of_matching(tmp_path):
    variants = variant_table(
        ("labelled", "A", "G"),
        ("swapped", "G", "A"),
        ("flipped", "T", "C"),
        ("both", "C", "T"),
        ("ambiguous", "A", "T"),
        ("mismatch", "A", "C"),
        ("absent", "A", "C"),
        ("uncalled", "A", "C"),
        ("multi", "A", "C"),
        ("pair", "A,T", "C"),
        ("indel", "AC", "A"),
        (".", "A", "G"),
        ("two", "A", "G"),
    )
    file = panel(
        tmp_path,
        "1 labelled G A 0.1 10",
        "1 swapped G A 0.1 10",
        "1 flipped G A 0.1 10",
        "1 both G A 0.1 10",
        "1 ambiguous A T 0.1 10",
        "1 mismatch G A 0.1 10",
        "1 uncalled C A nan 0",
        "1 multi C A,T 0.1,0.2 10",
        "1 pair C A,T 0.1,0.2 10",
        "1 indel A AC 0.25 8",
        "1 . G A 0.1 10",
        "1 two G T 0.3 10",
        "1 two G A 0.4 10",
    )
    matched = read_reference_frequencies(file, variants)
    nan = np.nan
    expected = [0.1, 0.9, 0.1, 0.9, 0.9, nan, nan, nan, nan, nan, 0.25, nan, 0.4]
    np.testing.assert_allclose(matched.a1_frequency, expected)
    assert matched.counts == MatchCounts(13, 7, 3, 2, 1, 3, 3)


@pytest.mark.parametrize(
    ("rows", "line", "message"),
    [
        (["1 v G A 1.5 10"], 2, r"not a number in \[0, 1\] \(got 1.5\)"),
        (["1 w G A 0.5 10", "1 v G A x 10"], 3, r"not a number in \[0, 1\] \(got x\)"),
        (["1 v G A"], 2, "shorter than the header"),
        (["1 v G A .1 10", "1 v A G .9 10"], 3, r"two rows match variant v .*line 2"),
    ],
)
def test_bad_rows_are_named(tmp_path, rows, line, message):
    file = panel(tmp_path, *rows)
    with pytest.raises(InputError, match=message) as caught:
        read_reference_frequencies(file, variant_table(("v", "A", "G")))
    assert caught.value.where == f"{file}:{line}"
    assert "\n" not in str(caught.value)


def test_a_file_of_another_kind_is_refused(tmp_path):
    file = panel(tmp_path, "1 v G A 0.1", header="CHR SNP A1 A2 MAF NCHROBS\n")
    variants = variant_table(("v", "A", "G"))
    with pytest.raises(InputError, match="no column ID, REF, ALT, ALT_FREQS, OBS_CT"):
        read_reference_frequencies(file, variants)
    with pytest.raises(InputError, match="no such file"):
        read_reference_frequencies(tmp_path / "nothing.afreq", variants)
    broken = tmp_path / "broken.afreq.gz"
    broken.write_bytes(gzip.compress(HEADER.encode() * 100)[:30])
    with pytest.raises(InputError, match="cannot be decompressed"):
        read_reference_frequencies(broken, variants)
