"""Cost of commits: the share of a task's time in which its results are written.

``python -m benchmarks.checkpointing WORK_DIR`` takes the design and the outcomes of a finished
accumulation. It computes some of its tasks again under the default plan, in this process and one at
a time, so that no commit overlaps with a computation.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import click

from benchmarks.measurement import seconds_of
from primo_scale.accumulation import partials as checkpoint
from primo_scale.accumulation.checkpoint import open_partials
from primo_scale.accumulation.partials import Inputs
from primo_scale.accumulation.plan import Task, default_plan
from primo_scale.accumulation.task_costs import TaskCosts
from primo_scale.accumulation.tasks import run_task
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.run.design import load_design
from primo_scale.storage.chunks import commit_chunk


@contextmanager
def seconds_of_commits() -> Iterator[list[float]]:
    """Yield a list that receives the seconds of every commit while the block runs."""
    spent: list[float] = []

    def timed(*arguments: Any) -> None:
        spent.append(seconds_of(lambda: commit_chunk(*arguments)))

    with mock.patch.object(checkpoint, "commit_chunk", timed):
        yield spent


def measure(work: Path, tiles: int) -> dict[str, Any]:
    """Return the seconds of all row tasks and of the longest tile tasks, and of their commits."""
    design = load_design(work / "design.json")
    genotypes, outcomes = Path(design.genotype_store), work / "outcomes.zarr"
    digests = {
        "genotypes": open_genotype_store(genotypes).identity_digest,
        "outcomes": open_outcome_store(outcomes).content_digest,
    }
    inputs = Inputs(genotypes, outcomes, design.clipping_rule, design.subsample, digests)
    plan = default_plan(design.layout, design.n_samples)
    with tempfile.TemporaryDirectory(dir=work) as scratch, seconds_of_commits() as spent:
        path, codes = Path(scratch) / "partials.zarr", design.genotypes.code_table
        partials = open_partials(path, plan, inputs, codes)
        largest = sorted(plan.tile_tasks(), key=TaskCosts.of(partials).weight, reverse=True)
        tasks: list[Task] = [*plan.row_tasks(), *largest[:tiles]]

        def run() -> None:
            for task in tasks:
                run_task(partials.address, task)

        seconds = seconds_of(run)
    return {"tasks": len(tasks), "seconds": seconds, "of_commits": sum(spent)}


@click.command()
@click.argument("work", type=click.Path(path_type=Path))
@click.option("--repetitions", default=5, show_default=True)
@click.option("--tiles", default=10, show_default=True, help="Tile tasks, the longest first.")
def main(work: Path, repetitions: int, tiles: int) -> None:
    """Measure and print one line of JSON."""
    load = os.getloadavg()[0]
    measure(work, tiles)  # compiles
    runs = [measure(work, tiles) for _ in range(repetitions)]
    share = [run["of_commits"] / (run["seconds"] - run["of_commits"]) for run in runs]
    found = {"load_average": load, "overhead": statistics.median(share), "runs": runs}
    click.echo(json.dumps(found))


if __name__ == "__main__":
    main()
