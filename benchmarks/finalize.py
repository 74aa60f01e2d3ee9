"""How long a release takes from finished statistics: noise, every phenotype's weights, all files.

``python -m benchmarks.finalize [--variants D --phenotypes L] --directory DIR``

Few people are simulated, since nothing here grows with their number; genotypes are one dense
block. Each stage is a command of its own, and time and peak memory are those of ``finalize`` alone.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import click

PANEL = Path(__file__).resolve().parents[1] / "demo" / "1000g_eur343_chr22"
_PEOPLE = 2_000


def command(name: str, *arguments: object) -> None:
    """Run one command of the product, quietly."""
    words = [sys.executable, "-m", f"pipelines.{name}", *map(str, arguments)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def prepare(directory: Path, variants: int, phenotypes: int) -> Path:
    """Simulate a cohort and sum its statistics; return the work directory."""
    prefix, work = directory / "cohort", directory / "work"
    command("simulate", "--bfile", PANEL, "--out", prefix, "--samples", _PEOPLE, "--seed", 1,
            "--variants", variants, "--phenotypes", phenotypes)  # fmt: skip
    command("ingest", "--bfile", prefix, "--out", directory / "genotypes.zarr")
    tables = ("pheno", "covar", "pheno-bounds", "covar-bounds")
    files = [word for name in tables for word in (f"--{name}", f"{prefix}.{name}.tsv")]
    command("accumulate", "--genotypes", directory / "genotypes.zarr", *files, "--epsilon", 5,
            "--delta", 1e-7, "--work-dir", work)  # fmt: skip
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
    load, start = os.getloadavg()[0], time.perf_counter()
    command("finalize", "--work-dir", work, "--epsilon", 5, "--delta", 1e-7, "--out",
            directory / "release")  # fmt: skip
    seconds = time.perf_counter() - start
    # Of all children so far the largest: those before are smaller.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    machine = platform.processor() or platform.machine()
    click.echo(f"{machine}, {len(os.sched_getaffinity(0))} CPUs, load {load:.1f} before")
    click.echo(f"d = {variants}, l = {phenotypes}: {seconds:.1f} s, at most {peak:.2f} GiB")


if __name__ == "__main__":
    main()
