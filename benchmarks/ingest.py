"""How fast a biobank-sized cohort is simulated, and how fast it is ingested, beside the disk.

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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import psutil

from benchmarks.cohorts import PANEL
from benchmarks.programs import Bench, Record, median

_BLOCK_BYTES = 4 << 20
_SUFFIXES = (".bed", ".bim", ".fam")


@dataclass(frozen=True)
class Measured:
    """Wall seconds of one step, of its part that moves genotypes, and the peak of its process."""

    seconds: float
    genotype_seconds: float
    peak_bytes: int


def ingest(bench: Bench, samples: int, variants: int) -> dict[str, object]:
    """Simulate a cohort without traits and with four; then read, copy and ingest it in turn.

    Returns
    -------
    dict
        Rows with a name, seconds and a peak in bytes: of ``simulation`` and of ``bed``.
    """
    with tempfile.TemporaryDirectory(dir=bench.data) as temporary:
        directory = Path(temporary)
        prefix = directory / "cohort"
        traits = {f"simulate, {n} traits": (prefix, samples, variants, n) for n in (4, 0)}
        simulation = [
            _row(name, [_alone(_simulate, *words) for _ in range(bench.repetitions)])
            for name, words in traits.items()
        ]
        return {
            "samples": samples,
            "variants": variants,
            "bed_bytes": Path(f"{prefix}.bed").stat().st_size,
            "simulation": simulation,
            "bed": _beside_the_disk(directory, prefix, bench.repetitions),
        }


def _beside_the_disk(directory: Path, prefix: Path, repetitions: int) -> list[Record]:
    bed, store, warm = Path(f"{prefix}.bed"), directory / "genotypes.zarr", directory / "warm"
    _alone(_simulate, warm, 100, 100, 0)
    reads, copies, ingests = [], [], []
    for _ in range(repetitions):
        _forget(prefix)
        reads.append(_alone(_read, bed))
        _forget(prefix)
        copies.append(_alone(_copy, bed, directory / "copy"))
        (directory / "copy").unlink()
        _forget(prefix)
        ingests.append(_alone(_ingest, prefix, warm, store))
        shutil.rmtree(store)
    genotypes = [replace(one, seconds=one.genotype_seconds) for one in ingests]
    return [
        _row("copy", copies),
        _row("read", reads),
        _row("ingest, the genotypes", genotypes),
        _row("ingest, tables of people and variants too", ingests),
    ]


def _row(name: str, measured: list[Measured]) -> Record:
    seconds = [one.seconds for one in measured]
    click.echo(f"{name:44} {median(seconds):9.3f} s  ({' '.join(f'{s:.3f}' for s in seconds)})")
    return {"name": name, "seconds": seconds, "peak": max(one.peak_bytes for one in measured)}


def _simulate(prefix: Path, samples: int, variants: int, phenotypes: int) -> Measured:
    """Time ``pipelines.simulate`` after its start-up, flushes included."""
    import primo_scale.cli.simulate

    def run(out: Path, people: int) -> None:
        words = ["--bfile", PANEL, "--out", out, "--samples", people, "--seed", 1]
        words += ["--variants", variants, "--phenotypes", phenotypes]
        with contextlib.redirect_stdout(io.StringIO()):
            primo_scale.cli.simulate.main([str(word) for word in words], standalone_mode=False)

    with tempfile.TemporaryDirectory() as directory:
        run(Path(directory) / "few", 100)
    start = time.perf_counter()
    run(prefix, samples)
    seconds = time.perf_counter() - start
    return Measured(seconds, seconds, _peak_bytes())


def _ingest(prefix: Path, warm: Path, store: Path) -> Measured:
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
    return Measured(time.perf_counter() - start, moments[-1] - moments[0], _peak_bytes())


def _read(path: Path) -> Measured:
    """Time one sequential read."""
    buffer, start = bytearray(_BLOCK_BYTES), time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    seconds = time.perf_counter() - start
    return Measured(seconds, seconds, _peak_bytes())


def _copy(path: Path, target: Path) -> Measured:
    """Time what ``dd bs=4M conv=fsync`` does."""
    buffer, start = memoryview(bytearray(_BLOCK_BYTES)), time.perf_counter()
    with path.open("rb", buffering=0) as file, target.open("wb", buffering=0) as out:
        while count := file.readinto(buffer):
            out.write(buffer[:count])
        os.fsync(out.fileno())
    seconds = time.perf_counter() - start
    return Measured(seconds, seconds, _peak_bytes())


def _peak_bytes() -> int:
    """Peak resident size of this process (`ru_maxrss` would be that of its parent)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return 0


def _alone(function: Callable[..., Measured], *arguments: Any) -> Measured:
    """Run one step where no earlier one has left anything."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as processes:
        return processes.submit(function, *arguments).result()


def _forget(prefix: Path) -> None:
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
