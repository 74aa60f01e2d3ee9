"""Checkpoints: for the design of a finished work directory, and for inputs without genotypes."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from primo_scale.accumulation.partials import Inputs, Partials, open_partials
from primo_scale.accumulation.plan import RowTask, default_plan
from primo_scale.genotypes.store import HARD_CALLS, open_genotype_store
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.run.design import load_design
from primo_scale.storage.groups import create_group, mark_complete


def inputs_of(genotypes: Path, outcomes: Path, rule=None, subsample=None) -> Inputs:
    """Return the inputs of tasks that read two finished stores, with their digests."""
    digests = {
        "genotypes": open_genotype_store(genotypes).identity_digest,
        "outcomes": open_outcome_store(outcomes).content_digest,
    }
    return Inputs(genotypes, outcomes, rule, subsample, digests)


def partials_of_design(
    path: Path, work: Path, genotypes: Path | None = None, *, changes=None, **cut: int
) -> Partials:
    """Open or create the checkpoint of a work directory's design, with other inputs and plan."""
    design = load_design(work / "design.json")
    plan = replace(default_plan(design.layout, design.n_samples, design.phenotype_step), **cut)
    genotypes = genotypes or Path(design.genotype_store)
    inputs = inputs_of(genotypes, work / "outcomes.zarr", design.clipping_rule, design.subsample)
    inputs = replace(inputs, **(changes or {}))
    return open_partials(path, plan, inputs, design.genotypes.code_table)


IDENTITY = "digest-of-the-genotypes"


def write_header(path):
    """Write a finished genotype store without people, and return its path."""
    attributes = {
        "n_samples": 0, "n_variants": 0, "chunk_shape": [4, 4], "identity_digest": IDENTITY,
        "cohort_digest": "",
    }  # fmt: skip
    mark_complete(create_group(path, HARD_CALLS.kind, {}), attributes)
    return path


def partials_below(
    folder, plan, codes, *, rule=None, subsample=None, genotypes="genotypes", outcomes_digest="y"
):
    """Open or create the checkpoint ``partials.zarr`` of inputs in the same folder."""
    header = write_header(folder / genotypes)
    digests = {"genotypes": IDENTITY, "outcomes": outcomes_digest}
    inputs = Inputs(header, folder / "outcomes", rule, subsample, digests)
    return open_partials(folder / "partials.zarr", plan, inputs, codes)


def commit_zeros(partials, task):
    """Commit zeros as the result of a task, as a worker does."""
    plan, q = partials.plan, partials.plan.layout.n_outcomes
    if isinstance(task, RowTask):
        for samples in plan.reads(task):
            people = samples.stop - samples.start
            multipliers = np.zeros((people, partials.multiplier_columns), np.int64)
            partials.commit_read(samples, multipliers, np.zeros((2 * q, people), np.int8))
        partials.commit_rows(task, np.zeros((q, q), np.int64))
        return
    for tile in task.tiles:
        parts = (plan.inside(tile.block, side) for side in (tile.row_tile, tile.column_tile))
        height, width = (part.stop - part.start for part in parts)
        if tile.on_diagonal:
            partials.commit_cross(tile, np.zeros((height, q), np.int64))
        partials.commit_tile(tile, np.zeros((height, width), np.int32))
