"""Option --genome-build: inferred builds, refusals and warnings before any work."""

from __future__ import annotations

from pathlib import Path

from command_io import table_options

PANEL = Path(__file__).resolve().parents[2] / "demo" / "1000g_eur343_chr22"


def test_builds_are_inferred_refused_and_missed(run, tmp_path) -> None:
    """Dry runs of 40 people with the panel's positions, which are in GRCh37."""
    cohort, few = tmp_path / "c", tmp_path / "few"
    rows = Path(f"{PANEL}.bim").read_text().splitlines()[:50]
    few.write_text("\n".join(row.split()[1] for row in rows))
    run("simulate", "--bfile", PANEL, "--out", cohort, "--samples", 40, "--seed", 1,
        "--phenotypes", 1)  # fmt: skip

    def dry_run(*options: object, exit_code: int = 0) -> str:
        return run(
            "gwas_release", "--bfile", cohort, *table_options(cohort), "--ld-blocks", "window:100",
            "--non-private", "--dry-run", "--out", tmp_path / "release", *options,
            exit_code=exit_code,
        ).stderr  # fmt: skip

    assert "genome build: GRCh37 (positions of known variants)" in dry_run()
    refused = dry_run("--genome-build", "hg38", exit_code=3)
    assert "known variants are at their GRCh37 positions" in refused.splitlines()[-1]
    assert "GRCh39" in dry_run("--genome-build", "GRCh39", exit_code=2)
    warning = "refuse scoring files without a genome build"
    assert warning in dry_run("--extract", few)
    assert warning not in dry_run("--extract", few, "--genome-build", "NR")
