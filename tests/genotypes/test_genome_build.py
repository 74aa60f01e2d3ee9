"""Genome build, given by any of its names or inferred from known variants."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from support.filesets import variants_with

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.tables import (
    _KNOWN_POSITIONS,
    VariantTable,
    build_of,
    find_known_variants,
    genome_build,
    read_bim,
)
from primo_scale.run.options import to_build_name


@pytest.fixture(scope="module")
def grch37(reference) -> VariantTable:
    """Return 17,489 variants of chromosome 22 of 1000 Genomes phase 3."""
    return read_bim(reference / "data/real/1000g_eur343_chr22/eur343_chr22.bim")


@pytest.fixture(scope="module")
def grch38(grch37) -> VariantTable:
    known = pd.read_csv(_KNOWN_POSITIONS, sep="\t", comment="#").query("chromosome == 22")
    moved = dict(zip(known["GRCh37"].tolist(), known["GRCh38"].tolist(), strict=True))
    position = np.array([moved.get(p, p) for p in grch37.position.tolist()])
    return dataclasses.replace(grch37, position=position)


def test_the_build_is_inferred_from_known_positions(grch37, grch38, reference):
    found = find_known_variants(grch37)
    assert found["GRCh37"] >= 30
    assert found["GRCh38"] <= 1
    assert (build_of(found), build_of(find_known_variants(grch38))) == ("GRCh37", "GRCh38")
    ncbi36 = read_bim(reference / "data/real/hapmap3_chr1-10/hm3_chr1-10.bim")
    assert build_of(find_known_variants(ncbi36)) is None


@pytest.mark.slow
def test_no_build_is_inferred_from_positions_everywhere(grch37):
    """With a variant at every twentieth position, known variants of both builds match by chance."""
    d = 2_550_000
    everywhere = variants_with(d, chromosome="22", position=np.arange(d) * 20)
    found = find_known_variants(everywhere)
    assert sum(found.values()) > 0
    assert build_of(found) is None
    both = VariantTable.concatenate([everywhere, grch37])
    assert build_of(find_known_variants(both)) == "GRCh37"


@pytest.mark.parametrize("chromosome", ["22", "chr22", "chr21"])
def test_the_build_depends_on_the_chromosome_but_not_its_spelling(chromosome, grch37):
    d = len(grch37)
    spelt = dataclasses.replace(grch37, chromosome=np.full(d, chromosome, dtype=object))
    expected = "GRCh37" if chromosome != "chr21" else None
    assert build_of(find_known_variants(spelt)) == expected


def test_a_build_that_known_variants_contradict_is_refused(grch37, grch38):
    with pytest.raises(InputError, match="at their GRCh37 positions"):
        genome_build("GRCh38", grch37)
    with pytest.raises(InputError, match="at their GRCh38 positions"):
        genome_build("GRCh37", grch38)


def test_a_given_build_that_is_not_contradicted_is_used(grch37):
    few = grch37.select(np.arange(20))
    assert genome_build("GRCh37", grch37) == genome_build(None, grch37) == "GRCh37"
    assert genome_build("NR", grch37) == genome_build(None, few) == "NR"
    assert genome_build("NCBI36", few) == "NCBI36"


@pytest.mark.parametrize(
    "text, name",
    [("hg19", "GRCh37"), ("b37", "GRCh37"), ("grch37", "GRCh37"), ("HG38", "GRCh38"),
     ("GRCh38", "GRCh38"), ("hg18", "NCBI36"), ("NR", "NR")],
)  # fmt: skip
def test_builds_have_their_usual_aliases(text, name):
    assert to_build_name(text) == name


@pytest.mark.parametrize("text", ["", "37", "T2T", "GRCh39", "hg19 "])
def test_unknown_build_names_are_refused(text):
    with pytest.raises(UsageError, match=f"not a valid choice .got {text}"):
        to_build_name(text)
