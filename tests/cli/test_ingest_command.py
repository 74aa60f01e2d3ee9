"""``python -m pipelines.ingest``: what it prints and how it ends."""

from pathlib import Path

import pytest
from support.small_cohort import command, refused, succeeded

from primo_scale.cli.commands import ingest as main


def test_prints_filters_hazards_and_what_was_written(reference: Path, tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.write_text("NA11931\nNA12045\nnobody\n")
    prefix = reference / "data/edge/plink_made/bim_negpos"
    words = ["--bfile", prefix, "--out", tmp_path / "g.zarr", "--keep", keep]
    result = succeeded(command(main, *words))
    assert "--keep: 3 named, 2 found, 2 samples left" in result.output
    assert "variants of negative position: 1 variants left out (as in PLINK 2)" in result.output
    assert "60 variants of 2 " in succeeded(command(main, *words, "--verbose")).output


@pytest.mark.parametrize("name", ["bad_truncated", "bad_magic", "not_there"])
def test_bad_input_ends_in_one_line(reference: Path, tmp_path: Path, name: str) -> None:
    prefix = reference / "data/edge/plink_made" / name
    refused(command(main, "--bfile", prefix, "--out", tmp_path / "g.zarr"), 3, name)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_destination_is_named(reference: Path) -> None:
    prefix = reference / "data/edge/plink_made/base_n43_m61"
    result = command(main, "--bfile", prefix, "--out", "/dev/null/g.zarr")
    refused(result, 3, "/dev/null/g.zarr", "cannot be created")
