"""Selection of chromosomes by --chr, compared with plink2, and by default."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.chromosomes import parse_chromosomes
from primo_scale.genotypes.filters import Selection, select_variants
from primo_scale.genotypes.tables import VariantTable, read_bim


def variants_on(*chromosomes: str) -> VariantTable:
    d = len(chromosomes)
    return VariantTable(
        chromosome=np.array(chromosomes, dtype=object),
        identifier=np.array([f"rs{j}" for j in range(d)], dtype=object),
        centimorgan=np.zeros(d),
        position=np.arange(1, d + 1, dtype=np.int64),
        allele1=np.array(["A"] * d, dtype=object),
        allele2=np.array(["G"] * d, dtype=object),
    )


@pytest.mark.oracle
@pytest.mark.parametrize("fileset", ["sexchr_PAR_codes", "sexchr_numeric_codes", "base_n43_m61"])
@pytest.mark.parametrize(
    "chromosomes",
    ["x", "23", "chrX", "par1,PAR2", "25", "X,XY", "1-4,22,X,PAR1", "0-9"],
)
def test_a_list_selects_as_in_plink2(fileset, chromosomes, reference, plink2, tmp_path):
    prefix = reference / "data/edge/plink_made" / fileset
    command = [plink2, "--bfile", str(prefix), "--chr", chromosomes, "--make-just-bim"]
    done = subprocess.run([*command, "--out", str(tmp_path / "o")], capture_output=True, text=True)
    variants = read_bim(prefix.with_suffix(".bim")).variants
    selection = Selection(chromosomes=parse_chromosomes(chromosomes))
    if "No variants loaded" in done.stderr:
        with pytest.raises(InputError, match="no variant is left"):
            select_variants(variants, selection)
        return
    assert done.returncode == 0, done.stderr
    expected = read_bim(tmp_path / "o.bim").variants.identifier.tolist()
    index, (count,) = select_variants(variants, selection)
    assert variants.identifier[index].tolist() == expected
    assert count.left == len(expected)


def test_y_mt_and_unplaced_contigs_are_left_out_by_default(reference):
    names = ("1", "chr22", "23", "XY", "PAR1", "26", "chrM", "Y", "0", "chrUn_KI270742v1", "HLA")
    variants = variants_on(*names)
    index, counts = select_variants(variants, Selection())
    assert variants.chromosome[index].tolist() == ["1", "chr22", "23", "XY", "PAR1"]
    assert [str(count) for count in counts] == [
        "chromosome MT: 2 variants left out (plink2 --score counts one copy), 9 left",
        "chromosome Y: 1 variants left out (plink2 --score counts one copy in men and none in "
        "others), 8 left",
        "chromosome 0: 1 variants left out (not placed on a chromosome), 7 left",
        "other contigs: 2 variants left out (not placed on a chromosome), 5 left",
    ]


def test_without_left_out_chromosomes_there_are_no_counts():
    index, counts = select_variants(variants_on("1", "2", "chr3"), Selection())
    assert (len(index), counts) == (3, ())


def test_unplaced_variants_can_be_selected():
    index, (count,) = select_variants(
        variants_on("0", "1", "2"), Selection(chromosomes=parse_chromosomes("0-1,7"))
    )
    assert index.tolist() == [0, 1]
    assert str(count) == "--chr: 3 named, 2 found, 2 variants left"


@pytest.mark.parametrize("chromosomes", ["Y", "24", "1-26", "MT", "chrM", "1,26"])
def test_chromosomes_that_plink2_scores_as_one_copy_are_refused(chromosomes):
    with pytest.raises(UsageError, match="plink2 --score counts one copy"):
        parse_chromosomes(chromosomes)


@pytest.mark.parametrize("chromosomes", ["", "1,", "29", "4-1", "1-99", "X-Y", "HLA", "1;2", "1 2"])
def test_invalid_chromosomes_are_refused(chromosomes):
    with pytest.raises(UsageError, match="not a human chromosome"):
        parse_chromosomes(chromosomes)
