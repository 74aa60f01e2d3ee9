"""Our accumulation, kernels alone, and other programs, on one cohort in one run."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

import click

from benchmarks.cohorts import Cohort, frequencies, simulated
from benchmarks.measurement import module_command, run_measured, wall_seconds
from benchmarks.programs import Bench, Record, row_of
from primo_scale.machine import usable_cpus

FLOATS = ("float64", "float32")


@click.option("--samples", default=50_000, show_default=True)
@click.option("--variants", default=4_096, show_default=True)
def headline(bench: Bench, samples: int, variants: int) -> dict[str, object]:
    """Measure kernels alone, the whole accumulation, and other programs, on one cohort."""
    cohort = simulated(bench.data, samples, variants)
    peaks = bench.peak_rates(usable_cpus())
    bed = f"{cohort.prefix}.bed"
    return {
        "peaks": peaks,
        "ours": [*_ours(bench, cohort, peaks.keys()), _with_start_up(bench, cohort)],
        "peers": [*_plink(bench, cohort), *_dask(bench, cohort), *_in_memory(bench, cohort)],
        "decoding": [
            bench.peer("read and decode, ours", cohort, "our-decoding", "--store", cohort.store),
            bench.peer("bed-reader", cohort, "bed-reader", "--bed", bed),
        ],
    }


def _ours(bench: Bench, cohort: Cohort, kernels: Collection[str]) -> Iterator[Record]:
    """Yield the accumulation with `--ref-freq`, by slower kernels, and of the peers' codes."""
    fastest = bench.ours("primo_scale --ref-freq", cohort)
    yield fastest
    for kernel in ("vnni", "float32"):
        if kernel in kernels and kernel != fastest["kernel"]:
            name = f"primo_scale --ref-freq --kernel {kernel}"
            yield bench.ours(name, cohort, "--kernel", kernel)
    yield bench.ours("primo_scale, codes -1, 0, 1", cohort, with_frequencies=False)


def _with_start_up(bench: Bench, cohort: Cohort) -> Record:
    """Time the whole command: imports, adjusted phenotypes from text, a cluster, and the sum."""
    work = bench.data / "command-work"
    command = module_command(
        "pipelines.accumulate", "--genotypes", cohort.store, "--pheno", cohort.table("pheno"),
        "--pheno-bounds", cohort.table("pheno-bounds"), "--ref-freq", frequencies(cohort),
        "--work-dir", work, "--epsilon", 3, "--delta", 1e-6, "--ledger", work / "ledger",
    )  # fmt: skip
    return _command_row(bench, "primo_scale --ref-freq, the whole command", cohort, command, work)


def _plink(bench: Bench, cohort: Cohort) -> Iterator[Record]:
    program = shutil.which("plink1.9")
    if program is None:
        click.echo("plink1.9 is not installed and is not measured")
        return
    work = bench.data / "plink-work"
    command = [program, "--bfile", str(cohort.prefix), "--r", "square", "bin4", "--out",
               str(work / "plink"), "--threads", str(usable_cpus())]  # fmt: skip
    yield _command_row(bench, "plink1.9 --r square bin4", cohort, command, work)


def _command_row(bench: Bench, name: str, cohort: Cohort, command: list[str], work: Path) -> Record:
    """Time a command that fills the directory `work`, which is new each time."""
    peaks = []

    def run() -> None:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700, parents=True)
        peaks.append(run_measured(command, bench.data))

    seconds = wall_seconds(run, bench.repetitions)
    shutil.rmtree(work)
    memory = {
        part: max(getattr(peak, part) for peak in peaks) for part in ("total", "main", "child")
    }
    return row_of(name, cohort, {"seconds": seconds, "memory": memory})


def _dask(bench: Bench, cohort: Cohort) -> Iterator[Record]:
    """Yield the best of three chunkings for each type, found by one run of each chunking."""
    codes = bench.data / "codes.zarr"
    for kind in FLOATS:
        words, trials = ("dask", "--codes", codes, "--dtype", kind), []
        for chunks in _chunkings(cohort):
            _write_codes(cohort, chunks)
            name = f"dask {kind}, chunks of {chunks[0]} x {chunks[1]}"
            row = Bench(bench.data, 1).peer(name, cohort, *words)
            trials.append((min(row["seconds"]), chunks))
        _write_codes(cohort, min(trials)[1])
        row = bench.peer(f"dask {kind}", cohort, *words)
        yield {**row, "trials": [[seconds, list(tried)] for seconds, tried in trials]}
    shutil.rmtree(codes)


def _chunkings(cohort: Cohort) -> list[tuple[int, int]]:
    """Return slabs of all variants, large and small, and squarer chunks."""
    people, variants = cohort.samples, cohort.variants
    large, small = (max(4, people // parts // 4 * 4) for parts in (4, 10))
    return [(large, variants), (small, variants), (large, -(-variants // 2))]


def _write_codes(cohort: Cohort, chunks: tuple[int, int]) -> None:
    words = ("--store", cohort.store, "--codes", cohort.directory / "codes.zarr",
             "--rows", chunks[0], "--columns", chunks[1])  # fmt: skip
    run_measured(module_command("benchmarks.peers", "codes", *words), cohort.directory)


def _in_memory(bench: Bench, cohort: Cohort) -> Iterator[Record]:
    for library in ("numpy", "scikit-learn"):
        for kind in FLOATS:
            yield bench.peer(
                f"{library} {kind}, in memory", cohort,
                "in-memory", "--store", cohort.store, "--with", library, "--dtype", kind,
            )  # fmt: skip
