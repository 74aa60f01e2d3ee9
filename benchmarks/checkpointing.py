"""What committing costs: the share of a task's time in which its results are written.

``python -m benchmarks.checkpointing WORK_DIR`` takes the design and the outcomes of a finished
accumulation, and computes some of it again under the default plan, in this process and one task at
a time, so that commits hide behind nothing. Not a test: it times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from primo_scale.accumulation import partials as checkpoint
from primo_scale.accumulation.checkpoint import open_partials
from primo_scale.accumulation.partials import Inputs
from primo_scale.accumulation.plan import default_plan
from primo_scale.accumulation.tasks import run_task
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.run.design import load_design


@contextmanager
def time_in_commits() -> Iterator[list[float]]:
    """Seconds of every commit while the block runs."""
    spent: list[float] = []
    commit = checkpoint.commit_chunk

    def timed(*arguments: Any) -> None:
        start = time.perf_counter()
        commit(*arguments)
        spent.append(time.perf_counter() - start)

    with mock.patch.object(checkpoint, "commit_chunk", timed):
        yield spent


def measure(work: Path, tiles: int) -> dict[str, Any]:
    """Seconds of row tasks and of the longest tile tasks, and of the commits among them."""
    design = load_design(work / "design.json")
    outcomes = work / "outcomes.zarr"
    genotypes = Path(design.genotype_store)
    digests = {
        "genotypes": open_genotype_store(genotypes).identity_digest,
        "outcomes": open_outcome_store(outcomes).content_digest,
    }
    inputs = Inputs(genotypes, outcomes, design.clipping_rule, design.subsample, digests)
    plan = default_plan(design.layout, design.n_samples)
    tasks = [*plan.row_tasks(), *plan.longest_first(plan.tile_tasks())[:tiles]]
    with tempfile.TemporaryDirectory(dir=work) as scratch, time_in_commits() as spent:
        partials = open_partials(
            Path(scratch) / "partials.zarr", plan, inputs, design.genotypes.code_table
        )
        start = time.perf_counter()
        for task in tasks:
            run_task(partials.address, task)
        seconds = time.perf_counter() - start
    return {"tasks": len(tasks), "seconds": seconds, "of_commits": sum(spent)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--tiles", type=int, default=10, help="Tile tasks, the longest first.")
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    measure(chosen.work, chosen.tiles)  # compiles
    runs = [measure(chosen.work, chosen.tiles) for _ in range(chosen.repetitions)]
    share = [run["of_commits"] / (run["seconds"] - run["of_commits"]) for run in runs]
    found = {"load_average": load, "overhead": statistics.median(share), "runs": runs}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
