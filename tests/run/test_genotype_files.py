"""Genotype files of a request, and the patterns that stand for several."""

from pathlib import Path

import pytest

from primo_scale.errors import InputError, UsageError
from primo_scale.run.fields import expanded_paths
from primo_scale.run.options import GenotypeFiles


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ("chr1", ["chr1"]),
        ("chr{9..11}.v2", ["chr9.v2", "chr10.v2", "chr11.v2"]),
        ("c{1..2}/p{3..4}", ["c1/p3", "c1/p4", "c2/p3", "c2/p4"]),
        ("a@b/chr@", [f"a@b/chr{number}" for number in range(1, 23)]),
        (["chrX", "chr{1..2}"], ["chrX", "chr1", "chr2"]),
    ],
)
def test_a_pattern_stands_for_paths(given: str | list[str], paths: list[str]) -> None:
    assert [str(path) for path in expanded_paths(given)] == paths
    assert [str(path) for path in GenotypeFiles(pfile=given).sources.paths] == paths


def test_a_list_holds_paths_and_patterns(tmp_path: Path) -> None:
    (tmp_path / "all.list").write_text("\ufeffchr{1..2}\n\nmit Leerzeichen \r\n")
    paths = expanded_paths([tmp_path / "all.list", "x"])
    assert [str(path) for path in paths] == ["chr1", "chr2", "mit Leerzeichen", "x"]
    with pytest.raises(InputError, match=r"none\.list: cannot be read as a list"):
        expanded_paths("none.list")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "no genotypes are given. Give one of `bfile`, `pfile`, `bgen`, `vcf`, `vcz`"),
        ({"bfile": []}, "no genotypes are given"),
        ({"bfile": "a", "pfile": "b"}, "`bfile` and `pfile` exclude each other"),
        ({"pfile": "a", "sample": "s"}, "sample: needs `bgen`"),
        ({"bgen": "a", "bgen_order": "first"}, "bgen_order: not a valid choice"),
        ({"bfile": "a", "ref_maf": 0.01}, "ref_maf: needs `ref_freq`"),
    ],
)
def test_an_impossible_choice_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        GenotypeFiles(**fields)
    assert said in str(caught.value)
