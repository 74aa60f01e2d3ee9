"""Program: accumulate a genotype store repeatedly in one process.

``python -m benchmarks.ours --store PATH --out FILE``. Each repetition starts from an empty work
directory beside `FILE` and ends with finished statistics on the disk. Phenotypes are random numbers
on the lattice, because to align a text file of 500,000 people by 1,000 phenotypes takes longer than
to sum over them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.measurement import seconds_of
from primo_scale.accumulation.executors import run_on_dask, run_on_threads
from primo_scale.accumulation.partials import Inputs, open_partials
from primo_scale.accumulation.plan import default_plan
from primo_scale.accumulation.statistics import Executor, accumulate, open_raw_statistics
from primo_scale.cluster.job_queues import LocalProfile
from primo_scale.cluster.workers import dask_client
from primo_scale.genotypes.coding import largest_code, read_reference_frequencies
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.kernels.product_kernels import warmed_up
from primo_scale.machine import usable_cpus
from primo_scale.outcomes.coding import ADJUSTED_UNIT, OutcomeCoding, PhenotypeBounds, code_outcomes
from primo_scale.outcomes.store import KIND, OutcomeStore, open_outcome_store, rows_layout
from primo_scale.run.design import Design, PublicPanels, make_design
from primo_scale.run.options import Model, Privacy
from primo_scale.storage.block_matrices import BlockMatrices
from primo_scale.storage.groups import (
    create_array,
    create_group,
    flush,
    mark_complete,
    write_array,
    write_block,
)

_SDS = 4.0  # bound on a phenotype


@dataclass(frozen=True)
class Options:
    """Options of the command line, by name."""

    store: Path
    out: Path
    phenotypes: int
    ld_blocks: str | None
    ref_freq: Path | None
    subsample: int | None
    kernel: str
    workers: int | None
    cpus: int | None
    repetitions: int


def random_outcomes(
    path: Path, samples: int, phenotypes: int
) -> tuple[OutcomeCoding, OutcomeStore]:
    """Write standard normal phenotypes on the lattice, as `write_residuals` does."""
    bounds = [
        PhenotypeBounds(f"Y{number}", -_SDS, _SDS, 0.0, 1.0, "quantitative")
        for number in range(1, phenotypes + 1)
    ]
    coding = code_outcomes(bounds, [], largest_unit=ADJUSTED_UNIT)
    digests = {"request_digest": "", "coding_digest": coding.digest}
    group = create_group(path, KIND, {**digests, "left_out": 1})  # the constant is in no sum
    layout = rows_layout(samples, coding.n_columns)
    array = create_array(group, "rows", layout)
    rng = np.random.default_rng()
    for start in range(0, samples, layout.chunks[0]):
        people = slice(start, min(start + layout.chunks[0], samples))
        values = rng.standard_normal((people.stop - start, phenotypes))
        rows = np.full((people.stop - start, coding.n_columns), coding.constant, dtype=np.int16)
        rows[:, -phenotypes:] = coding.code_phenotypes(values)
        write_block(array, (people, slice(None)), rows)
    write_array(group, "observed", np.full(phenotypes, samples), (phenotypes,))
    flush(group)
    mark_complete(group, {"content_digest": "random"})
    return coding, open_outcome_store(path)


def settled(store: GenotypeStore, chosen: Options, outcomes: OutcomeCoding) -> Design:
    """Settle the design of a fully private release, as `accumulate` does."""
    model, matched = Model(chosen.ref_freq, chosen.ld_blocks), None
    if model.ref_freq is not None:
        matched = read_reference_frequencies(model.ref_freq, store.variants)
    privacy, panels = Privacy(epsilon=5.0, delta=1e-6), PublicPanels(matched)
    return make_design(
        store.n_samples, store.variants, model, privacy, panels=panels, outcomes=outcomes
    )


def gram_sum(matrices: BlockMatrices) -> int:
    """Return the sum of all entries of X'X, which distinguishes a wrong product."""
    tiles = (
        tile for block in range(matrices.layout.n_blocks) for tile in matrices.gram_tiles(block)
    )
    return sum(int(values.sum()) * (1 if tile.on_diagonal else 2) for tile, values in tiles)


@click.command()
@click.option("--store", type=click.Path(path_type=Path), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON of the times.")
@click.option("--phenotypes", default=2, show_default=True)
@click.option("--ld-blocks")
@click.option("--ref-freq", type=click.Path(path_type=Path))
@click.option("--subsample", type=int, help="Sum X'X over so many people, drawn once.")
@click.option("--kernel", default="auto", show_default=True)
@click.option("--workers", type=int, help="Worker processes (default: threads).")
@click.option("--cpus", type=int, help="Number of CPUs on which all processes together run.")
@click.option("--repetitions", default=5, show_default=True)
def main(**options: Any) -> None:
    """Time the accumulation of one store."""
    chosen = Options(**options)
    if chosen.cpus is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: chosen.cpus])
    directory = chosen.out.parent / "work"
    directory.mkdir()
    chosen.out.write_text(json.dumps(_measured(chosen, directory)))
    shutil.rmtree(directory)


def _measured(chosen: Options, directory: Path) -> dict[str, Any]:
    store = open_genotype_store(chosen.store)
    coding, outcomes = random_outcomes(
        directory / "outcomes.zarr", store.n_samples, chosen.phenotypes
    )
    design = settled(store, chosen, coding)
    digests = {
        "genotypes": store.identity_digest,
        "outcomes": outcomes.content_digest,
        "design": design.digest,
    }
    inputs = Inputs(store.path, outcomes.path, design.clipping_rule, chosen.subsample, digests)
    plan = default_plan(design.layout, design.n_samples, design.phenotype_step)
    codes = design.genotypes.code_table
    kernel = warmed_up(chosen.kernel, largest_code(codes))
    partial_sums, finished = directory / "partials.zarr", directory / "statistics.zarr"

    def accumulated() -> float:
        """Return the seconds of one accumulation that starts from an empty work directory."""
        for path in (partial_sums, finished):
            shutil.rmtree(path, ignore_errors=True)
        return seconds_of(
            lambda: accumulate(
                run,
                open_partials(partial_sums, plan, inputs, codes, chosen.kernel),
                finished,
                lambda done, total: None,
            )
        )

    with _executor(chosen.workers, directory) as run:
        _, *seconds = [accumulated() for _ in range(1 + chosen.repetitions)]  # the first warms up
    return {
        "kernel": kernel,
        "largest_code": largest_code(codes),
        "blocks": plan.layout.n_blocks,
        "gram_sum": gram_sum(open_raw_statistics(finished, plan.layout, plan.n_samples).matrices),
        "seconds": seconds,
    }


@contextmanager
def _executor(workers: int | None, directory: Path) -> Iterator[Executor]:
    if workers is None:
        yield partial(run_on_threads, usable_cpus())
        return
    with dask_client(LocalProfile(workers), directory / "scratch") as client:
        yield partial(run_on_dask, client)


if __name__ == "__main__":
    main()
