"""How long a release takes from finished statistics: noise, every phenotype's weights, all files.

``python -m benchmarks.finalize [--variants D --phenotypes L] --directory DIR``

Few people are simulated, since nothing here grows with their number; genotypes are one dense
block. Each stage is a command of its own, and time and peak memory are those of ``finalize`` alone.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import click

from benchmarks.cohorts import PANEL
from benchmarks.machine import description, module_command
from benchmarks.memory import run_measured

_PEOPLE = 2_000
_BUDGET = ("--epsilon", 5, "--delta", 1e-7, "--accept-noise")


def prepare(directory: Path, variants: int, phenotypes: int) -> Path:
    """Simulate a cohort and sum its statistics; return the work directory."""
    prefix, work = directory / "cohort", directory / "work"
    tables = ("pheno", "covar", "pheno-bounds", "covar-bounds")
    files = [word for name in tables for word in (f"--{name}", f"{prefix}.{name}.tsv")]
    for name, *words in (
        ["simulate", "--bfile", PANEL, "--out", prefix, "--samples", _PEOPLE, "--seed", 1,
         "--variants", variants, "--phenotypes", phenotypes],
        ["ingest", "--bfile", prefix, "--out", directory / "genotypes.zarr"],
        ["accumulate", "--genotypes", directory / "genotypes.zarr", *files, *_BUDGET,
         "--work-dir", work],
    ):  # fmt: skip
        run_measured(module_command(f"pipelines.{name}", *words), directory)
    return work


@click.command()
@click.option("--variants", default=2_000, show_default=True)
@click.option("--phenotypes", default=1_000, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="New, empty.")
def main(variants: int, phenotypes: int, directory: Path) -> None:
    """Time one release and print a line."""
    directory.mkdir(parents=True)
    os.environ["XDG_STATE_HOME"] = str(directory / "state")  # a ledger of its own
    work = prepare(directory, variants, phenotypes)
    machine, start = description(), time.perf_counter()
    words = ("--work-dir", work, *_BUDGET, "--out", directory / "release")
    peak = run_measured(module_command("pipelines.finalize", *words), directory)
    seconds = time.perf_counter() - start
    click.echo(json.dumps(machine))
    click.echo(f"d = {variants}, l = {phenotypes}: {seconds:.1f} s, {peak.total / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
