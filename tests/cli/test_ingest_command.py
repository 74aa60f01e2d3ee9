"""``python -m pipelines.ingest``: what it prints and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_cohort import command

from primo_scale.cli.ingest import main


def test_prints_filters_hazards_and_what_was_written(reference: Path, tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.write_text("NA11931\nNA12045\nnobody\n")
    prefix = reference / "data/edge/plink_made/bim_negpos"
    result = command(main, "--bfile", prefix, "--out", tmp_path / "g.zarr", "--keep", keep)
    assert result.exit_code == 0, result.output
    assert "--keep: 3 named, 2 found, 2 samples left" in result.output
    assert "variants of negative position, left out as PLINK 2 does: 1" in result.output
    assert "60 variants of 2 " in result.output


@pytest.mark.parametrize(
    ("name", "code"), [("bad_truncated", 3), ("bad_magic", 3), ("not_there", 3)]
)
def test_bad_input_ends_in_one_line(reference: Path, tmp_path: Path, name: str, code: int) -> None:
    result = command(
        main, "--bfile", reference / "data/edge/plink_made" / name, "--out", tmp_path / "g.zarr"
    )
    assert result.exit_code == code
    errors = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert name in errors[0]
    assert list(tmp_path.iterdir()) == []


def test_impossible_chunks_are_a_usage_error(reference: Path, tmp_path: Path) -> None:
    prefix = reference / "data/edge/plink_made/base_n43_m61"
    result = command(main, "--bfile", prefix, "--out", tmp_path / "g", "--chunk-samples", 6)
    assert result.exit_code == 2


def test_unwritable_destination(reference: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    prefix = reference / "data/edge/plink_made/base_n43_m61"
    result = command(main, "--bfile", prefix, "--out", tmp_path / "file/g.zarr")
    assert result.exit_code == 3
    assert "cannot be written" in result.stderr
