"""How fast a biobank-sized cohort is simulated and ingested, compared with the disk.

The disk's own rates are measured on the same file in the same run: reading it in blocks of 4 MiB,
and copying it in such blocks with a flush at the end, which ingest also has to do with its bytes.
Every step runs in a process of its own, after a warm-up on a few people, and no part of the file is
in the page cache when it starts.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import psutil

from benchmarks.cohorts import PANEL
from benchmarks.measurement import peak_bytes, seconds_of
from benchmarks.programs import Bench, Record

_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class Measured:
    """Wall seconds of one step, of its part that moves genotypes, and the peak of its process."""

    seconds: float
    genotype_seconds: float
    peak_bytes: int


@click.option("--samples", default=500_000, show_default=True)
@click.option("--variants", default=10_000, show_default=True)
def ingest(bench: Bench, samples: int, variants: int) -> dict[str, object]:
    """Measure the simulation of a cohort, with and without traits, and its ingest."""
    with tempfile.TemporaryDirectory(dir=bench.data) as temporary:
        directory = Path(temporary)
        prefix, steps = directory / "cohort", range(bench.repetitions)
        four, none = (
            [_alone(_simulate, prefix, samples, variants, traits) for _ in steps]
            for traits in (4, 0)
        )
        return {
            "samples": samples,
            "variants": variants,
            "bed_bytes": Path(f"{prefix}.bed").stat().st_size,
            "simulation": [_row("simulate, 4 traits", four), _row("simulate, 0 traits", none)],
            "bed": _beside_the_disk(directory, prefix, bench.repetitions),
        }


def copy_seconds(prefix: Path, repetitions: int) -> list[float]:
    """Return the seconds in which the disk copies the .bed of a fileset."""
    target, found = Path(f"{prefix}.copy"), []
    for _ in range(repetitions):
        forget(prefix)
        found.append(_alone(_copy, Path(f"{prefix}.bed"), target).seconds)
        target.unlink()
    return found


def _beside_the_disk(directory: Path, prefix: Path, repetitions: int) -> list[Record]:
    """Read, copy and ingest the fileset in turn."""
    bed, store, warm = Path(f"{prefix}.bed"), directory / "genotypes.zarr", directory / "warm"
    _alone(_simulate, warm, 100, 100, 0)
    reads, copies, ingests = [], [], []
    for _ in range(repetitions):
        forget(prefix)
        reads.append(_alone(_read, bed))
        forget(prefix)
        copies.append(_alone(_copy, bed, directory / "copy"))
        (directory / "copy").unlink()
        forget(prefix)
        ingests.append(_alone(_ingest, prefix, warm, store))
        shutil.rmtree(store)
    return [
        _row("copy", copies),
        _row("read", reads),
        _row("ingest, the genotypes", ingests, "genotype_seconds"),
        _row("ingest, tables of people and variants too", ingests),
    ]


def _row(name: str, measured: list[Measured], part: str = "seconds") -> Record:
    seconds = [getattr(one, part) for one in measured]
    click.echo(f"{name:44} {median(seconds):9.3f} s  ({' '.join(f'{s:.3f}' for s in seconds)})")
    return {"name": name, "seconds": seconds, "peak": max(one.peak_bytes for one in measured)}


def _alone(step: Callable[..., Measured], *arguments: Any) -> Measured:
    """Run one step in a new process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as processes:
        return processes.submit(step, *arguments).result()


def _timed(function: Callable[[], object]) -> Measured:
    seconds = seconds_of(function)
    return Measured(seconds, seconds, peak_bytes())


def _simulate(prefix: Path, samples: int, variants: int, phenotypes: int) -> Measured:
    """Time ``primo-scale simulate`` after its start-up, flushes included."""
    from primo_scale.cli.commands import simulate

    def run(out: Path, people: int) -> None:
        """Simulate a cohort, and discard what the command prints."""
        words = ["--bfile", PANEL, "--out", out, "--samples", people, "--seed", 1]
        words += ["--variants", variants, "--phenotypes", phenotypes]
        with contextlib.redirect_stdout(io.StringIO()):
            simulate.main([str(word) for word in words], standalone_mode=False)

    with tempfile.TemporaryDirectory() as directory:
        run(Path(directory) / "few", 100)
    return _timed(lambda: run(prefix, samples))


def _ingest(prefix: Path, warm: Path, store: Path) -> Measured:
    """Time `ingest` as a whole, and from the first partition to the last."""
    from primo_scale.genotypes.ingest import ingest
    from primo_scale.genotypes.source import SourceFiles

    moments: list[float] = []

    def run(source: Path, target: Path) -> None:
        """Ingest a fileset, and record when each partition is written."""
        moments.clear()
        ingest(
            SourceFiles((source,)),
            target,
            on_progress=lambda done, total: moments.append(time.perf_counter()),
        )

    with tempfile.TemporaryDirectory() as directory:
        run(warm, Path(directory) / "few")
    seconds = seconds_of(lambda: run(prefix, store))
    return Measured(seconds, moments[-1] - moments[0], peak_bytes())


def _read(path: Path) -> Measured:
    """Time one sequential read."""
    buffer = bytearray(_BLOCK_BYTES)

    def read() -> None:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    return _timed(read)


def _copy(path: Path, target: Path) -> Measured:
    """Time what ``dd bs=4M conv=fsync`` does."""

    def copy() -> None:
        with path.open("rb", buffering=0) as file, target.open("wb", buffering=0) as out:
            shutil.copyfileobj(file, out, _BLOCK_BYTES)
            os.fsync(out.fileno())

    return _timed(copy)


def forget(prefix: Path) -> None:
    """Drop the fileset from the page cache, and make the memory that this frees quick to use.

    A virtual machine may have handed unused memory back to its host. To take it again costs up to
    2 s a GB, which would be charged to whichever step comes first, so a process takes it all first.
    """
    for suffix in (".bed", ".bim", ".fam"):
        with Path(f"{prefix}{suffix}").open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    wanted = 4 * Path(f"{prefix}.bed").stat().st_size + (1 << 29)
    touched = min(wanted, psutil.virtual_memory().available // 2)
    subprocess.run([sys.executable, "-c", f"import numpy; numpy.ones({touched}, 'u1')"], check=True)
