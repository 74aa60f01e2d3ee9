"""Results of tasks that are all zero, committed as workers commit theirs."""

from __future__ import annotations

import numpy as np

from primo_scale.accumulation.plan import RowTask


def commit_zeros(partials, task):
    """Commit zeros as the result of a task."""
    plan, q = partials.plan, partials.plan.layout.n_outcomes
    if isinstance(task, RowTask):
        for samples in plan.reads(task):
            people = samples.stop - samples.start
            multipliers = np.zeros((people, partials.multiplier_columns), np.int64)
            partials.commit_read(samples, multipliers, np.zeros((2 * q, people), np.int8))
        partials.commit_rows(task, np.zeros((q, q), np.int64))
        return
    parts = (plan.inside(task.block, tile) for tile in (task.row_tile, task.column_tile))
    height, width = (part.stop - part.start for part in parts)
    if task.on_diagonal:
        partials.commit_cross(task, np.zeros((height, q), np.int64))
    partials.commit_tile(task, np.zeros((height, width), np.int32))
