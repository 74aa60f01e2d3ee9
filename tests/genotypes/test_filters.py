"""The lists of --keep, --remove, --extract and --exclude, compared with plink2."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from primo_scale.errors import InputError
from primo_scale.genotypes.filters import Selection, select_samples, select_variants
from primo_scale.genotypes.tables import SampleTable, read_bim, read_fam


def table(*people: tuple[str, str]) -> SampleTable:
    family, individual = (np.array(column, dtype=object) for column in zip(*people, strict=True))
    return SampleTable(family, individual, np.zeros(len(people), dtype=np.int8))


def listed(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


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


@pytest.mark.oracle
@pytest.mark.parametrize("option", ["keep", "remove"])
@pytest.mark.parametrize("content", SAMPLE_LISTS.values(), ids=SAMPLE_LISTS)
def test_people_are_selected_as_by_plink2(
    reference: Path, plink2: str, tmp_path: Path, option: str, content: str
) -> None:
    prefix = reference / "data/edge/plink_made/base_n43_m61"
    path = listed(tmp_path / "list.txt", content)
    run_plink2(plink2, prefix, f"--{option}", path, "--make-just-fam", tmp_path)
    expected = read_fam(tmp_path / "o.fam").individual.tolist()
    samples = read_fam(prefix.with_suffix(".fam"))
    index, (count,) = select_samples(samples, Selection(**{option: path}))
    assert samples.individual[index].tolist() == expected
    assert count.left == len(expected)


@pytest.mark.oracle
@pytest.mark.parametrize("content", ["NA11931\nNA12045\n", "#IID\nNA11931\n"])
def test_iids_without_families_are_selected_as_by_plink2(
    reference: Path, plink2: str, tmp_path: Path, content: str
) -> None:
    prefix = tmp_path / "x"
    source = reference / "data/edge/plink_made/fam_fid0_qpheno"
    for kind in (".bed", ".bim", ".fam"):
        shutil.copy(source.with_suffix(kind), prefix.with_suffix(kind))
    path = listed(tmp_path / "list.txt", content)
    run_plink2(plink2, prefix, "--keep", path, "--make-just-fam", tmp_path)
    samples = read_fam(prefix.with_suffix(".fam"))
    index, _ = select_samples(samples, Selection(keep=path))
    assert samples.individual[index].tolist() == read_fam(tmp_path / "o.fam").individual.tolist()


VARIANT_LISTS = {
    "shared identifier": "rs486563\n",
    "dot": ".\n",
    "several in a line": "rs331635 rs7538364\n\nabsent   rs9628692\r\n",
    "twice the same": "rs331635\nrs331635\n",
}


@pytest.mark.oracle
@pytest.mark.parametrize("option", ["extract", "exclude"])
@pytest.mark.parametrize("content", VARIANT_LISTS.values(), ids=VARIANT_LISTS)
def test_variants_are_selected_as_by_plink2(
    reference: Path, plink2: str, tmp_path: Path, option: str, content: str
) -> None:
    prefix = reference / "data/edge/plink_made/dupid"
    path = listed(tmp_path / "list.txt", content)
    run_plink2(plink2, prefix, f"--{option}", path, "--make-just-bim", tmp_path)
    expected = read_bim(tmp_path / "o.bim").variants.position.tolist()
    variants = read_bim(prefix.with_suffix(".bim")).variants
    index, _ = select_variants(variants, Selection(**{option: path}))
    assert variants.position[index].tolist() == expected


def run_plink2(
    plink2: str, prefix: Path, option: str, path: Path, output: str, directory: Path
) -> None:
    command = [plink2, "--bfile", str(prefix), option, str(path), output]
    subprocess.run([*command, "--out", str(directory / "o")], check=True, capture_output=True)


def test_counts_report_named_found_and_left(tmp_path: Path) -> None:
    people = table(("a", "1"), ("b", "2"), ("c", "3"))
    keep = listed(tmp_path / "keep", "a 1\nb 2\nz 9\n")
    remove = listed(tmp_path / "remove", "2\n")
    index, counts = select_samples(people, Selection(keep=keep, remove=remove))
    assert index.tolist() == [0]
    assert [str(count) for count in counts] == [
        "--keep: 3 named, 2 found, 2 samples left",
        "--remove: 1 named, 1 found, 1 samples left",
    ]


def test_an_entry_that_matches_two_rows_is_refused(tmp_path: Path) -> None:
    people = table(("a", "1"), ("b", "1"))
    with pytest.raises(InputError, match="several rows"):
        select_samples(people, Selection(keep=listed(tmp_path / "keep", "1\n")))
    index, _ = select_samples(people, Selection(keep=listed(tmp_path / "keep", "b 1\n")))
    assert index.tolist() == [1]


def test_nobody_left_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nobody is left"):
        select_samples(table(("a", "1")), Selection(keep=listed(tmp_path / "keep", "a 2\n")))
