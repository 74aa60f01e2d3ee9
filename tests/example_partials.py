"""Checkpoints of inputs without genotypes, and results that are all zero."""

import numpy as np

from primo_scale.accumulation.checkpoint import open_partials
from primo_scale.accumulation.partials import Inputs
from primo_scale.accumulation.plan import RowTask
from primo_scale.genotypes.packings import HARD_CALLS
from primo_scale.storage.groups import create_group, mark_complete

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
