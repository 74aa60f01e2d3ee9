"""Time and memory of a release from finished statistics: noise, the weights, and all files.

``python -m benchmarks.finalize [--variants D --phenotypes L] --directory DIR``

Few people are simulated, because the cost does not grow with their number; genotypes are one dense
block. Each stage is a command of its own, and time and peak memory are those of ``finalize`` alone.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import click

from benchmarks.cohorts import PANEL
from benchmarks.measurement import PeakMemory, module_command, run_measured
from benchmarks.results import description

_PEOPLE = 2_000
_BUDGET = ("--epsilon", 5, "--delta", 1e-7, "--accept-noise")


@click.command()
@click.option("--variants", default=2_000, show_default=True)
@click.option("--phenotypes", default=1_000, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="New, empty.")
def main(variants: int, phenotypes: int, directory: Path) -> None:
    """Time one release and print a line."""
    directory.mkdir(parents=True)
    os.environ["XDG_STATE_HOME"] = str(directory / "state")  # a ledger of its own

    def run(command: str, *words: object) -> PeakMemory:
        return run_measured(module_command(f"pipelines.{command}", *words), directory)

    prefix, work, store = directory / "cohort", directory / "work", directory / "genotypes.zarr"
    tables = ("pheno", "covar", "pheno-bounds", "covar-bounds")
    files = [word for name in tables for word in (f"--{name}", f"{prefix}.{name}.tsv")]
    sizes = ("--samples", _PEOPLE, "--variants", variants, "--phenotypes", phenotypes)
    run("simulate", "--bfile", PANEL, "--out", prefix, "--seed", 1, *sizes)
    run("ingest", "--bfile", prefix, "--out", store)
    run("accumulate", "--genotypes", store, *files, *_BUDGET, "--work-dir", work)
    machine, start = description(), time.perf_counter()
    peak = run("finalize", "--work-dir", work, *_BUDGET, "--out", directory / "release")
    seconds = time.perf_counter() - start
    click.echo(json.dumps(machine))
    click.echo(f"d = {variants}, l = {phenotypes}: {seconds:.1f} s, {peak.total / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
