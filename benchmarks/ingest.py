"""How fast a biobank-sized cohort is simulated, and how fast it is ingested, beside the disk.

``python -m benchmarks.ingest [--samples N --variants D --directory DIR]``

The disk's own rates are measured on the same file in the same run: reading it in blocks of 4 MiB,
and copying it so with a flush at the end, which is what ingest has to do with its bytes too. Every
step runs in a process of its own, after a warm-up on a few people, and starts with nothing of the
file in the page cache.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil

from benchmarks.cohorts import PANEL
from benchmarks.machine import description

_REPETITIONS = 3
_BLOCK_BYTES = 4 << 20
_SUFFIXES = (".bed", ".bim", ".fam")


@dataclass(frozen=True)
class Measured:
    """Wall seconds of one step, of its part that moves genotypes, and the peak of its process."""

    seconds: float
    genotype_seconds: float
    peak_bytes: int


def simulate(prefix: Path, samples: int, variants: int, phenotypes: int) -> Measured:
    """Time ``pipelines.simulate`` after its start-up, flushes included."""
    import pipelines.simulate

    def run(out: Path, people: int) -> None:
        words = ["--bfile", PANEL, "--out", out, "--samples", people, "--seed", 1]
        words += ["--variants", variants, "--phenotypes", phenotypes]
        with contextlib.redirect_stdout(io.StringIO()):
            pipelines.simulate.main([str(word) for word in words], standalone_mode=False)

    with tempfile.TemporaryDirectory() as directory:
        run(Path(directory) / "few", 100)
    start = time.perf_counter()
    run(prefix, samples)
    seconds = time.perf_counter() - start
    return Measured(seconds, seconds, peak_bytes())


def ingest(prefix: Path, warm: Path, store: Path) -> Measured:
    """Time `ingest` as a whole, and from the first partition to the last."""
    from primo_scale.genotypes.filters import Selection
    from primo_scale.genotypes.ingest import ingest

    moments: list[float] = []

    def note(done: int, total: int) -> None:
        moments.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as directory:
        ingest([warm], Path(directory) / "few", selection=Selection(), on_progress=note)
    moments.clear()
    start = time.perf_counter()
    ingest([prefix], store, selection=Selection(), on_progress=note)
    return Measured(time.perf_counter() - start, moments[-1] - moments[0], peak_bytes())


def read(path: Path) -> Measured:
    """Time one sequential read."""
    buffer, start = bytearray(_BLOCK_BYTES), time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    seconds = time.perf_counter() - start
    return Measured(seconds, seconds, peak_bytes())


def copy(path: Path, target: Path) -> Measured:
    """Time what ``dd bs=4M conv=fsync`` does."""
    buffer, start = memoryview(bytearray(_BLOCK_BYTES)), time.perf_counter()
    with path.open("rb", buffering=0) as file, target.open("wb", buffering=0) as out:
        while count := file.readinto(buffer):
            out.write(buffer[:count])
        os.fsync(out.fileno())
    seconds = time.perf_counter() - start
    return Measured(seconds, seconds, peak_bytes())


def peak_bytes() -> int:
    """Peak resident size of this process (`ru_maxrss` would be that of its parent)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return 0


def in_a_fresh_process(function: Callable[..., Measured], *arguments: Any) -> Measured:
    """Run one step where no earlier one has left anything."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as processes:
        return processes.submit(function, *arguments).result()


def forget(prefix: Path) -> None:
    """Drop the fileset from the page cache, and make the memory that this frees quick to use.

    A virtual machine may have handed unused memory back to its host; taking it again costs up to
    2 s a GB and would be charged to whichever step comes first. So a process takes it all before.
    """
    for suffix in _SUFFIXES:
        descriptor = os.open(f"{prefix}{suffix}", os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    wanted = 4 * Path(f"{prefix}.bed").stat().st_size + (1 << 29)
    touched = min(wanted, psutil.virtual_memory().available // 2)
    subprocess.run([sys.executable, "-c", f"import numpy; numpy.ones({touched}, 'u1')"], check=True)


def median(measured: list[Measured]) -> Measured:
    """Medians, and the largest peak."""
    return Measured(
        statistics.median(one.seconds for one in measured),
        statistics.median(one.genotype_seconds for one in measured),
        max(one.peak_bytes for one in measured),
    )


def measure_simulation(directory: Path, samples: int, variants: int) -> Path:
    """Simulate without traits and with four, print both rates and return the fileset's prefix."""
    prefix = directory / "cohort"
    for phenotypes in (4, 0):
        result = median(
            [
                in_a_fresh_process(simulate, prefix, samples, variants, phenotypes)
                for _ in range(_REPETITIONS)
            ]
        )
        rate = samples * variants / result.seconds / 1e6
        click.echo(
            f"simulate, {phenotypes} traits  {result.seconds:8.2f} s  {rate:8.0f} M genotypes/s"
            f"  peak {result.peak_bytes / 1e6:.0f} MB"
        )
    return prefix


def measure_ingest(directory: Path, prefix: Path) -> None:
    """Read, copy and ingest the fileset in turn, and print medians and ratios."""
    bed, store, warm = Path(f"{prefix}.bed"), directory / "genotypes.zarr", directory / "warm"
    in_a_fresh_process(simulate, warm, 100, 100, 0)
    steps: dict[str, list[Measured]] = {"read": [], "copy": [], "ingest": []}
    for _ in range(_REPETITIONS):
        forget(prefix)
        steps["read"].append(in_a_fresh_process(read, bed))
        forget(prefix)
        steps["copy"].append(in_a_fresh_process(copy, bed, directory / "copy"))
        (directory / "copy").unlink()
        forget(prefix)
        steps["ingest"].append(in_a_fresh_process(ingest, prefix, warm, store))
        shutil.rmtree(store)
    results = {name: median(measured) for name, measured in steps.items()}
    gigabytes, copied = bed.stat().st_size / 1e9, results["copy"].seconds
    for name, seconds in (
        ("read", results["read"].seconds),
        ("copy", copied),
        ("ingest, genotypes", results["ingest"].genotype_seconds),
        ("ingest in all", results["ingest"].seconds),
    ):
        click.echo(
            f"{name:18}  {seconds:8.2f} s  {gigabytes / seconds:8.2f} GB/s of .bed"
            f"  {copied / seconds:5.2f} of the copy's rate"
        )
    click.echo(f"ingest: peak {results['ingest'].peak_bytes / 1e6:.0f} MB")


@click.command()
@click.option("--samples", default=500_000, show_default=True)
@click.option("--variants", default=10_000, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path), help="Where to make a temporary one.")
def main(samples: int, variants: int, directory: Path | None) -> None:
    """Time simulation and ingest of one cohort and print a table."""
    machine = description()
    names = ("processor", "cpus", "system", "date", "commit", "load_before")
    click.echo("; ".join(f"{name} {machine[name]}" for name in names))
    click.echo(
        f"n = {samples}, d = {variants}, people made of 1000 Genomes; medians of {_REPETITIONS}"
    )
    with tempfile.TemporaryDirectory(dir=directory) as temporary:
        prefix = measure_simulation(Path(temporary), samples, variants)
        measure_ingest(Path(temporary), prefix)


if __name__ == "__main__":
    main()
