"""Program: accumulate a genotype store again and again in one process.

``python -m benchmarks.ours --store PATH --out FILE``. Each repetition starts from an empty work
directory beside `FILE` and ends with finished statistics on the disk. Phenotypes are random.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.random_outcomes import random_coding, write_random_outcomes
from primo_scale.accumulation.checkpoint import open_partials
from primo_scale.accumulation.engine import run_tasks
from primo_scale.accumulation.partials import Inputs
from primo_scale.accumulation.plan import Plan, default_plan
from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.accumulation.summation import RunTasks, accumulate
from primo_scale.accumulation.tasks import run_task
from primo_scale.accumulation.thread_stream import run_on_threads
from primo_scale.cluster.connect import dask_client
from primo_scale.cluster.profile import LocalProfile
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.genotypes.coding import largest_code
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.kernels.choice import warmed_up
from primo_scale.machine import usable_cpus
from primo_scale.run.design_choices import (
    ModelChoices,
    make_design,
    match_frequencies,
    outcome_weight,
)


@dataclass(frozen=True)
class Case:
    """What every repetition sums."""

    plan: Plan
    inputs: Inputs
    codes: np.ndarray[Any, np.dtype[np.int8]]
    kernel: str

    @property
    def largest_code(self) -> int:
        """Largest magnitude of a genotype code."""
        return largest_code(self.codes)


def prepared(
    store_path: Path, directory: Path, *, phenotypes: int, choices: ModelChoices, kernel: str
) -> Case:
    """Write random outcomes and settle the design, as `pipelines.accumulate` does from files."""
    store = open_genotype_store(store_path)
    coding = random_coding(phenotypes, outcome_weight(phenotypes, 0, choices))
    outcomes = write_random_outcomes(directory / "outcomes.zarr", store.n_samples, coding)
    design = make_design(
        store,
        choices,
        matched=match_frequencies(choices, store.variants),
        outcomes=coding,
        moments=None,
    )
    digests = {
        "genotypes": store.identity_digest,
        "outcomes": outcomes.content_digest,
        "design": design.digest,
    }
    inputs = Inputs(store.path, outcomes.path, design.clipping_rule, design.subsample, digests)
    plan = default_plan(design.layout, design.n_samples)
    return Case(plan, inputs, design.genotypes.code_table, kernel)


def accumulated(run_tasks: RunTasks, case: Case, directory: Path) -> tuple[float, RawStatistics]:
    """Sum everything once, from an empty checkpoint; in so many seconds."""
    partials_path, finished = directory / "partials.zarr", directory / "statistics.zarr"
    for path in (partials_path, finished):
        shutil.rmtree(path, ignore_errors=True)
    start = time.perf_counter()
    partials = open_partials(partials_path, case.plan, case.inputs, case.codes, case.kernel)
    raw = accumulate(run_tasks, partials, finished, lambda done, total: None)
    return time.perf_counter() - start, raw


def gram_sum(raw: RawStatistics) -> int:
    """Sum of all entries of X'X: tells a wrong product from a right one."""
    total = 0
    for block in range(raw.matrices.layout.n_blocks):
        for tile, values in raw.matrices.gram_tiles(block):
            total += int(values.sum()) * (1 if tile.on_diagonal else 2)
    return total


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for, by the names of its options."""

    store: Path
    out: Path
    phenotypes: int
    ld_blocks: str | None
    ref_freq: Path | None
    kernel: str
    workers: int | None
    cpus: int | None
    repetitions: int
    first_counts: bool

    @property
    def choices(self) -> ModelChoices:
        """Of the design; no subsample and no bounds of its own."""
        unit, adjacency = PrivacyUnit.FULL, Adjacency.REPLACE_ONE
        return ModelChoices(
            self.ref_freq, self.ld_blocks, None, unit, adjacency, None, None, None, False
        )


@click.command()
@click.option("--store", type=click.Path(path_type=Path), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON of the times.")
@click.option("--phenotypes", default=2, show_default=True)
@click.option("--ld-blocks")
@click.option("--ref-freq", type=click.Path(path_type=Path))
@click.option("--kernel", default="auto", show_default=True)
@click.option("--workers", type=int, help="Worker processes (default: threads).")
@click.option("--cpus", type=int, help="Run on so many CPUs alone, all processes together.")
@click.option("--repetitions", default=5, show_default=True)
@click.option("--first-counts", is_flag=True, help="Long runs: no warm-up.")
def main(**options: Any) -> None:
    """Time the accumulation of one store."""
    wanted = Wanted(**options)
    if wanted.cpus is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: wanted.cpus])
    directory = wanted.out.parent / "work"
    directory.mkdir()
    wanted.out.write_text(json.dumps(_measured(wanted, directory)))
    shutil.rmtree(directory)


def _measured(wanted: Wanted, directory: Path) -> dict[str, Any]:
    case = prepared(
        wanted.store,
        directory,
        phenotypes=wanted.phenotypes,
        choices=wanted.choices,
        kernel=wanted.kernel,
    )
    used = warmed_up(wanted.kernel, case.largest_code)
    warm_ups = 0 if wanted.first_counts else 1
    with _task_runner(wanted.workers, directory) as run:
        runs = [accumulated(run, case, directory) for _ in range(wanted.repetitions + warm_ups)]
    raw = runs[-1][1]
    return {
        "kernel": used,
        "largest_code": case.largest_code,
        "blocks": case.plan.layout.n_blocks,
        "gram_sum": gram_sum(raw),
        "seconds": [seconds for seconds, _ in runs[warm_ups:]],
    }


@contextmanager
def _task_runner(workers: int | None, directory: Path) -> Iterator[RunTasks]:
    if workers is None:
        yield partial(run_on_threads, threads=usable_cpus())
        return
    with dask_client(LocalProfile(workers), directory / "scratch") as client:
        yield partial(run_tasks, client, run_task)


if __name__ == "__main__":
    main()
