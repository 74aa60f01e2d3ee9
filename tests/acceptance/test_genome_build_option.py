"""Option --genome-build: inferred builds, refusals and warnings before any work."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_io import table_options

PANEL = Path(__file__).resolve().parents[2] / "demo" / "1000g_eur343_chr22"


@pytest.fixture(scope="module")
def dry_run(run, tmp_path_factory):
    """Provide a function for dry runs of 40 people with the panel's positions in GRCh37."""
    folder = tmp_path_factory.mktemp("build")
    cohort = folder / "c"
    run("simulate", "--bfile", PANEL, "--out", cohort, "--samples", 40, "--seed", 1,
        "--phenotypes", 1)  # fmt: skip

    def run_dry(*options: object, exit_code: int = 0) -> str:
        return run(
            "gwas_release", "--bfile", cohort, *table_options(cohort), "--ld-blocks", "window:100",
            "--non-private", "--dry-run", "--out", folder / "release", *options,
            exit_code=exit_code,
        ).stderr  # fmt: skip

    return run_dry


def test_the_build_is_inferred_from_the_positions(dry_run) -> None:
    assert "genome build: GRCh37 (positions of known variants)" in dry_run()


def test_a_build_that_contradicts_the_positions_is_refused(dry_run) -> None:
    stderr = dry_run("--genome-build", "hg38", exit_code=3)
    assert "known variants are at their GRCh37 positions" in stderr.splitlines()[-1]


def test_an_unknown_build_gives_a_warning(dry_run, tmp_path) -> None:
    rows = Path(f"{PANEL}.bim").read_text().splitlines()[:50]
    (tmp_path / "few").write_text("\n".join(row.split()[1] for row in rows))
    assert "refuse scoring files without a genome build" in dry_run("--extract", tmp_path / "few")
    assert "refuse scoring files" not in dry_run("--extract", tmp_path / "few", "--genome-build",
                                                 "NR")  # fmt: skip


def test_an_unknown_build_name_is_a_usage_error(dry_run) -> None:
    assert "GRCh39" in dry_run("--genome-build", "GRCh39", exit_code=2)
