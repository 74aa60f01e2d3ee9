"""What one worker does: open the stores by path, stream a row group, commit one result.

Nothing large travels to or from a worker, and nothing about people travels at all: a task is a
handful of plan indices, and its result is its own name.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.accumulate.partials import Partials
from primo_scale.accumulate.plan import RowTask, Task, TileTask
from primo_scale.kernels.clipping import (
    UNCLIPPED,
    clip_rows,
    row_multipliers,
    scale_entries,
    squared_norms,
)
from primo_scale.kernels.gram import add_cross, add_gram, outcome_gram
from primo_scale.kernels.packed import decode
from primo_scale.storage.groups import read_block

# Variants decoded at a time while measuring row norms: 512 x 8192 codes are 4 MiB.
_VARIANTS_PER_NORM_PASS = 512


def run_task(path: str, store_id: str, task: Task) -> Task:
    """Compute and commit one task; running it again gives the same bytes."""
    partials = _open_partials(path, store_id)
    if isinstance(task, RowTask):
        _run_rows(partials, task)
    else:
        _run_tile(partials, task)
    return task


def _run_rows(partials: Partials, task: RowTask) -> None:
    """Clip one row group (docs/maths.md, section 6, steps 3 and 4) and sum its Z'Z."""
    plan, inputs = partials.plan, partials.inputs
    outcomes = partials.outcomes()
    q = plan.layout.n_outcomes
    phenotypes = slice(plan.layout.n_fixed, q)
    total = np.zeros((q, q), dtype=np.int64)
    for samples in plan.reads(task.row_group):
        multiplier = _row_multipliers(partials, samples)
        rows = scale_entries(outcomes.read_rows(samples), multiplier[:, None])
        if inputs.phenotype_norm is not None:
            rows = clip_rows(rows, phenotypes, inputs.phenotype_norm)
        partials.commit_read(samples, multiplier, rows)
        total += outcome_gram(rows)
    partials.commit_rows(task, total)


def _row_multipliers(partials: Partials, samples: slice) -> npt.NDArray[np.int64]:
    """Multiplier of every row, 2^31 where the row is within its bound."""
    limit = partials.inputs.row_norm
    table = partials.code_table
    count = samples.stop - samples.start
    largest = int((table.astype(np.int64) ** 2).max(axis=1).sum())
    if limit is None or limit >= largest:  # a public comparison: no row can be too long
        return np.full(count, UNCLIPPED, dtype=np.int64)
    store = partials.genotypes
    norms = np.zeros(count, dtype=np.int64)
    for start in range(0, len(table), _VARIANTS_PER_NORM_PASS):
        variants = slice(start, min(start + _VARIANTS_PER_NORM_PASS, len(table)))
        codes = decode(store.read_packed(variants, samples), table[variants], count)
        norms += squared_norms(codes.T)
    return row_multipliers(norms, limit)


def _run_tile(partials: Partials, task: TileTask) -> None:
    """Sum one tile of X'X, and on the diagonal the matching rows of X'Z."""
    plan = partials.plan
    diagonal = task.row_tile == task.column_tile
    left_variants = plan.variants(task.block, task.row_tile)
    right_variants = plan.variants(task.block, task.column_tile)
    height = left_variants.stop - left_variants.start
    width = right_variants.stop - right_variants.start
    gram = np.zeros((height, width), dtype=np.int64)
    cross = np.zeros((height, plan.layout.n_outcomes), dtype=np.int64) if diagonal else None
    clipped = partials.array("clipped_outcomes")
    multipliers = partials.array("row_multipliers")
    for samples in plan.reads(task.row_group):
        multiplier = read_block(multipliers, (samples,))
        left = _clipped_codes(partials, left_variants, samples, multiplier)
        right = left if diagonal else _clipped_codes(partials, right_variants, samples, multiplier)
        add_gram(gram, left, right, partials.max_code)
        if cross is not None:
            rows = read_block(clipped, (samples, slice(None)))
            add_cross(cross, left, rows, partials.max_code)
    partials.commit_tile(task, gram, cross)


def _clipped_codes(
    partials: Partials, variants: slice, samples: slice, multiplier: npt.NDArray[np.int64]
) -> npt.NDArray[np.int8]:
    """Coded genotypes of shape (variants, people), rows beyond their bound scaled back."""
    store = partials.genotypes
    packed = store.read_packed(variants, samples)
    codes = decode(packed, partials.code_table[variants], samples.stop - samples.start)
    beyond = np.flatnonzero(multiplier != UNCLIPPED)
    if len(beyond):
        codes[:, beyond] = scale_entries(codes[:, beyond], multiplier[beyond])
    return codes


@lru_cache(maxsize=4)
def _open_partials(path: str, store_id: str) -> Partials:
    return Partials(Path(path), store_id)
