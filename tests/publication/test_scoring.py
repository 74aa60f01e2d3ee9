"""README.txt: the plink2 command of a release is the one that computes its scores."""

import shlex
from pathlib import Path

import numpy as np
import pytest
from bed_reader import open_bed
from support.readme_scores import assert_equal_scores, readme_scores
from support.release_examples import example_document, example_statement, example_weights, publish

from primo_scale.genotypes.tables import read_bim
from primo_scale.publication.texts import render_readme
from primo_scale.publication.weights import scoring_command
from primo_scale.verify.formats import chromosomes_of
from primo_scale.verify.release import release_findings


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("fileset", "some", "phenotypes", "private"),
    [
        # plink2 leaves out the other variants of the fileset.
        ("real/regenie_example/example", slice(100, 140), ("LDL",), True),
        ("real/regenie_example/example", slice(100, 140), ("LDL", "BMI", "Y3"), False),
        # Variants without a second allele.
        ("edge/plink_made/rare_indels_a1zero", slice(None), ("height", "LDL"), True),
    ],
)
def test_the_command_computes_the_scores_of_the_release(
    fileset, some, phenotypes, private, reference, plink2, tmp_path
):
    prefix = reference / "data" / fileset
    variants = read_bim(Path(f"{prefix}.bim"))
    variants = variants.select(np.arange(len(variants))[some])
    weights = example_weights(variants, phenotypes=phenotypes)
    statement = example_statement(weights, private=private)
    release = publish(tmp_path / "re lease", weights, statement)
    with open_bed(f"{prefix}.bed", count_A1=True) as bed:
        dosage = bed.read(np.s_[:, some], dtype="float64")
    dosage = np.where(np.isnan(dosage), weights.centre_dosage, dosage)
    found = readme_scores(plink2, release, prefix, phenotypes)
    assert all(finding.ok for finding in release_findings(release)), "scores lie in the release"
    assert_equal_scores(found, dosage @ weights.per_allele)


def test_the_terminals_command_names_the_files_where_they_lie():
    document = example_document()
    words = shlex.split(" ".join(scoring_command(document, Path("a dir/release"))))
    assert words[4] == "a dir/release/weights.tsv.gz"
    assert "a dir/release/centre.afreq" in words
    assert "--xchr-model" not in words


def test_chromosomes_are_listed_once_by_their_plain_names():
    codes = ["chr1", "1", "23", "X", "PAR1", "1"]
    assert chromosomes_of(codes) == ["1", "X", "PAR1"]
    document = example_document() | {"chromosomes": chromosomes_of(codes)}
    assert "--xchr-model 2" in scoring_command(document, Path("release"))


def test_a_release_without_a_build_says_what_follows():
    document = example_document()
    assert "Genome build of the positions: GRCh37.\n" in render_readme(document)
    document["public_inputs"]["genome_build"] = "NR"
    assert "refuse the files in pgs/" in render_readme(document)
