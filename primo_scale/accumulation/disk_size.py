"""Peak disk use of an accumulation, from the shapes of its arrays."""

from __future__ import annotations

from primo_scale.accumulation.checkpoint import partial_arrays
from primo_scale.accumulation.task_memory import Workload
from primo_scale.outcomes.store import rows_layout
from primo_scale.storage.block_matrices import stored_bytes
from primo_scale.storage.chunks import array_bytes


def disk_bytes(work: Workload) -> int:
    """Return the bytes of outcomes, partial sums and statistics."""
    return _outcome_bytes(work) + partial_bytes(work) + stored_bytes(work.plan.layout)


def partial_bytes(work: Workload) -> int:
    """Return the bytes that tasks commit, which are removed when the statistics are finished."""
    plan = work.plan
    arrays = partial_arrays(plan, work.multiplier_columns, work.largest_code)
    total = plan.n_samples if work.subsampled else 0
    for block in range(plan.layout.n_blocks):
        tiles = plan.n_row_groups * work.upper_tiles(block)
        total += array_bytes(arrays.pop(f"gram/{block}"), chunks=tiles)
    return total + sum(map(array_bytes, arrays.values()))


def _outcome_bytes(work: Workload) -> int:
    return array_bytes(rows_layout(work.plan.n_samples, work.plan.layout.n_outcomes))
