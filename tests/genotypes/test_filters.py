"""Selection of people and variants by lists and by chromosome, compared with plink2."""

import gzip
import subprocess
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.filesets import sample_table, variants_with, written

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.filters import Selection, select_samples, select_variants
from primo_scale.genotypes.tables import VariantTable, parse_chromosomes, read_bim, read_fam


def variants_on(*chromosomes: str) -> VariantTable:
    return variants_with(len(chromosomes), chromosome=chromosomes)


SAMPLE_LISTS = {
    "FID IID": "1424 NA11931\n1346 NA12045\n",
    "header": "#FID IID\n1424 NA11931\n",
    "header and more columns": "#FID IID SID\n1424 NA11931 1\n",
    "CR LF and tabs": "1424\tNA11931\r\n1346\tNA12045\r\n",
    "extra column": "1424 NA11931 extra\n",
    "comment": "# people\n1424 NA11931\n",
    "twice the same": "1424 NA11931\n1424 NA11931\n",
    "one unknown": "1424 NA11931\n1424 nobody\n",
    "wrong family": "1424 NA11931\n9 NA12045\n",
    "header without #": "FID IID\n1424 NA11931\n",
}


VARIANT_LISTS = {
    "shared identifier": "rs486563\n",
    "dot": ".\n",
    "several in a line": "rs331635 rs7538364\n\nabsent   rs9628692\r\n",
    "twice the same": "rs331635\nrs331635\n",
}


CHROMOSOMES = ["x", "23", "chrX", "par1,PAR2", "25", "X,XY", "1-4,22,X,PAR1", "0-9"]
CASES = [
    *product(["base_n43_m61"], ["--keep", "--remove"], SAMPLE_LISTS.values()),
    *product(["fam_fid0_qpheno"], ["--keep"], ["NA11931\nNA12045\n", "#IID\nNA11931\n"]),
    *product(["dupid"], ["--extract", "--exclude"], VARIANT_LISTS.values()),
    *product(["sexchr_PAR_codes", "sexchr_numeric_codes", "base_n43_m61"], ["--chr"], CHROMOSOMES),
]


@pytest.mark.oracle
@pytest.mark.parametrize(("fileset", "option", "value"), CASES)
def test_rows_are_selected_as_by_plink2(fileset, option, value, reference, plink2, tmp_path):
    prefix = reference / "data/edge/plink_made" / fileset
    argument = value if option == "--chr" else written(tmp_path / "list.txt", value)
    command = [plink2, "--bfile", prefix, option, argument, "--make-just-fam", "--make-just-bim"]
    done = subprocess.run([*command, "--out", tmp_path / "o"], capture_output=True, text=True)
    selection = Selection(
        **{"chromosomes": parse_chromosomes(value)} if option == "--chr" else {option[2:]: argument}
    )
    variants = read_bim(prefix.with_suffix(".bim"))
    if "No variants loaded" in done.stderr:
        with pytest.raises(InputError, match="no variant is left"):
            select_variants(variants, selection)
        return
    assert done.returncode == 0, done.stderr
    if option in ("--keep", "--remove"):
        samples = read_fam(prefix.with_suffix(".fam"))
        index, (count,) = select_samples(samples, selection)
        expected = read_fam(tmp_path / "o.fam").individual.tolist()
        assert samples.individual[index].tolist() == expected
    else:
        index, (count,) = select_variants(variants, selection)
        expected, found = read_bim(tmp_path / "o.bim"), variants.select(index)
        np.testing.assert_array_equal(found.identifier, expected.identifier)
        np.testing.assert_array_equal(found.position, expected.position)
    assert count.left == len(expected)


@pytest.mark.oracle
@pytest.mark.parametrize("least", [0.01, 0.25, 0.5])
def test_variants_rare_in_the_panel_are_left_out_as_by_plink2(reference, plink2, tmp_path, least):
    """The panel lacks ten of the variants; plink2 takes 0.5 for them, and needs --extract."""
    prefix = reference / "data/edge/plink_made/base_n43_m61"
    variants = read_bim(prefix.with_suffix(".bim"))
    with gzip.open(reference / "data/real/hapmap3_chr1-10/truth/hm3.afreq.gz", "rt") as file:
        header, *rows = file
    absent = set(variants.identifier[:10])
    panel = written(
        tmp_path / "panel.afreq", header + "".join(r for r in rows if r.split()[1] not in absent)
    )
    names = written(tmp_path / "names", "\n".join(set(variants.identifier) - absent))
    command = [plink2, "--bfile", prefix, "--read-freq", panel, "--maf", str(least)]
    command += ["--extract", names, "--write-snplist", "--out", tmp_path / "o"]
    done = subprocess.run(command, capture_output=True, text=True)
    selection = Selection(ref_maf=least, ref_freq=panel)
    if "No variants remaining" in done.stderr:
        with pytest.raises(InputError, match="no variant is left"):
            select_variants(variants, selection)
        return
    index, (count,) = select_variants(variants, selection)
    expected = (tmp_path / "o.snplist").read_text().split()
    assert variants.identifier[index].tolist() == expected
    assert (count.found, count.left) == (61 - len(expected), len(expected))


def test_an_entry_that_matches_two_rows_is_refused(tmp_path):
    people = sample_table([("a", "1"), ("b", "1")])
    with pytest.raises(InputError, match="several rows"):
        select_samples(people, Selection(keep=written(tmp_path / "keep", "1\n")))
    index, _ = select_samples(people, Selection(keep=written(tmp_path / "keep", "b 1\n")))
    assert index.tolist() == [1]


def test_y_mt_and_unplaced_contigs_are_left_out_by_default():
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


ONE_COPY = ["Y", "24", "1-26", "MT", "chrM", "1,26"]
INVALID = ["", "1,", "29", "4-1", "1-99", "X-Y", "HLA", "1;2", "1 2"]


@pytest.mark.parametrize("chromosomes", [*ONE_COPY, *INVALID])
def test_chromosomes_of_one_copy_and_invalid_ones_are_refused(chromosomes):
    one_copy, other = "plink2 --score counts one copy", "not a human chromosome"
    with pytest.raises(UsageError, match=one_copy if chromosomes in ONE_COPY else other):
        parse_chromosomes(chromosomes)


@pytest.mark.parametrize(
    ("top", "expected"),
    [(1, [3]), (2, [1, 3]), (3, [1, 3, 4]), (4, [1, 3, 4, 5]), (9, [1, 3, 4, 5])],
)
def test_the_most_important_variants_are_chosen_after_the_other_filters(top, expected):
    """Of equal ones the first are chosen, and none without importance."""
    importance = dict(enumerate([9.0, 2.0, 0.0, 5.0, 1.0, 1.0]))

    def of_variants(variants):
        assert len(variants) == 5  # without the one on Y
        values = np.array([importance[int(p)] for p in variants.position])
        return values, lambda chosen: values[chosen].sum() / values.sum()

    variants = variants_on("Y", *("1",) * 5)
    variants = replace(variants, position=np.arange(6))
    ranking = "--extract-by-prior", top, of_variants
    rows, counts = select_variants(variants, Selection(ranking=ranking))
    assert rows.tolist() == expected
    assert str(counts[-1]) == (
        f"--extract-by-prior: {5 - len(expected)} variants left out (not among the {top} most "
        f"important of 4 that have a weight), {len(expected)} left"
    )
