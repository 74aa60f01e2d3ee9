"""Our accumulation, kernels alone, and peers, on one cohort in one run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator

import click

from benchmarks.cohorts import Cohort, frequencies, simulated
from benchmarks.machine import module_command
from benchmarks.memory import run_measured
from benchmarks.programs import Bench, Record, median
from benchmarks.repeat import wall_seconds
from primo_scale.machine import usable_cpus

FLOATS = ("float64", "float32")


def headline(
    bench: Bench, samples: int, variants: int, torch_python: str | None
) -> dict[str, object]:
    """Everything that the headline table shows."""
    cohort = simulated(bench.data, samples, variants)
    peaks = bench.peak_rates(usable_cpus())
    if torch_python is not None:
        peaks["torch"] = bench.peak_rate("torch", usable_cpus(), torch_python)
    return {
        "peaks": peaks,
        "ours": [*_ours(bench, cohort, peaks.keys()), _with_start_up(bench, cohort)],
        "peers": [*_plink(bench, cohort), *_dask(bench, cohort), *_in_memory(bench, cohort)],
        "decoding": [
            bench.peer("read and decode, ours", cohort, "our-decoding", "--store", cohort.store),
            bench.peer("bed-reader", cohort, "bed-reader", "--bed", _bed(cohort)),
        ],
    }


def _ours(bench: Bench, cohort: Cohort, kernels: Collection[str]) -> Iterator[Record]:
    """Yield the accumulation with `--ref-freq`, by slower kernels, and of the peers' codes."""
    fastest = bench.ours("primo_scale --ref-freq", cohort)
    yield fastest
    for kernel in ("vnni", "float32"):
        if kernel in kernels and kernel != fastest["kernel"]:
            yield bench.ours(
                f"primo_scale --ref-freq --kernel {kernel}", cohort, "--kernel", kernel
            )
    yield bench.ours("primo_scale, codes -1, 0, 1", cohort, with_frequencies=False)


def _with_start_up(bench: Bench, cohort: Cohort) -> Record:
    """Time the whole command: imports, phenotypes from text, a cluster, and the sum."""
    work = bench.data / "command-work"
    command = module_command(
        "pipelines.accumulate", "--genotypes", cohort.store, "--pheno", cohort.table("pheno"),
        "--pheno-bounds", cohort.table("pheno-bounds"), "--ref-freq", frequencies(cohort),
        "--work-dir", work,
    )  # fmt: skip
    return _command_row(bench, "primo_scale --ref-freq, the whole command", cohort, command, work)


def _plink(bench: Bench, cohort: Cohort) -> Iterator[Record]:
    program = shutil.which("plink1.9")
    if program is None:
        click.echo("plink1.9 is not installed: left out")
        return
    work = bench.data / "plink-work"
    command = [program, "--bfile", str(cohort.prefix), "--r", "square", "bin4", "--out",
               str(work / "plink"), "--threads", str(usable_cpus())]  # fmt: skip
    yield _command_row(bench, "plink1.9 --r square bin4", cohort, command, work)


def _command_row(
    bench: Bench, name: str, cohort: Cohort, command: list[str], work: os.PathLike[str]
) -> Record:
    """Time a command that fills the directory `work`, which is new each time."""
    peaks = []

    def run() -> None:
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work, mode=0o700)
        peaks.append(run_measured(command, bench.data))

    seconds = wall_seconds(run, bench.repetitions)
    shutil.rmtree(work)
    memory = {"total": max(p.total for p in peaks), "main": max(p.main for p in peaks),
              "child": max(p.child for p in peaks)}  # fmt: skip
    click.echo(f"{name:34} {median(seconds):9.3f} s")
    return {"name": name, "samples": cohort.samples, "variants": cohort.variants,
            "seconds": seconds, "memory": memory}  # fmt: skip


def _dask(bench: Bench, cohort: Cohort) -> Iterator[Record]:
    """The best of three chunkings, found by one run of each."""
    trials: dict[str, list[tuple[float, tuple[int, int]]]] = {kind: [] for kind in FLOATS}
    codes = bench.data / "codes.zarr"
    for chunks in _chunkings(cohort):
        _write_codes(cohort, chunks)
        for kind in FLOATS:
            row = Bench(bench.data, 1).peer(
                f"dask {kind}, chunks of {chunks[0]} x {chunks[1]}",
                cohort,
                *_dask_words(codes, kind),
            )
            trials[kind].append((min(row["seconds"]), chunks))
    for kind in FLOATS:
        chunks = min(trials[kind])[1]
        _write_codes(cohort, chunks)
        row = bench.peer(f"dask {kind}", cohort, *_dask_words(codes, kind))
        yield {**row, "trials": [[seconds, list(tried)] for seconds, tried in trials[kind]]}
    shutil.rmtree(codes)


def _chunkings(cohort: Cohort) -> list[tuple[int, int]]:
    """Slabs of all variants, large and small, and squarer chunks."""
    people, variants = cohort.samples, cohort.variants
    large, small = (max(4, people // parts // 4 * 4) for parts in (4, 10))
    return [(large, variants), (small, variants), (large, -(-variants // 2))]


def _write_codes(cohort: Cohort, chunks: tuple[int, int]) -> None:
    words = ("--store", cohort.store, "--codes", cohort.directory / "codes.zarr",
             "--rows", chunks[0], "--columns", chunks[1])  # fmt: skip
    run_measured(module_command("benchmarks.peers", "codes", *words), cohort.directory)


def _dask_words(codes: object, kind: str) -> tuple[object, ...]:
    return ("dask", "--codes", codes, "--dtype", kind)


def _in_memory(bench: Bench, cohort: Cohort) -> Iterator[Record]:
    for library in ("numpy", "scikit-learn"):
        for kind in FLOATS:
            yield bench.peer(
                f"{library} {kind}, in memory", cohort,
                "in-memory", "--store", cohort.store, "--with", library, "--dtype", kind,
            )  # fmt: skip


def _bed(cohort: Cohort) -> str:
    return f"{cohort.prefix}.bed"
