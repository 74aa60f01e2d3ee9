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
from primo_scale.kernels.clipping import UNCLIPPED, scale_entries, squared_norms
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
    """Clip the records of one row group by the row rule, and sum their Z'Z."""
    plan, rule = partials.plan, partials.inputs.row_rule
    outcomes = partials.outcomes()
    q = plan.layout.n_outcomes
    total = np.zeros((q, q), dtype=np.int64)
    for samples in plan.reads(task.row_group):
        rows = outcomes.read_rows(samples)
        multipliers = np.full((len(rows), partials.multiplier_columns), UNCLIPPED, dtype=np.int64)
        if rule is not None:
            norms = _row_norms(partials, samples)
            multipliers, record = rule.shrink(norms)
            rows = rule.clip_outcomes(rows, plan.layout.n_fixed, record, norms)
        partials.commit_read(samples, multipliers, rows)
        total += outcome_gram(rows)
    partials.commit_rows(task, total)


def _row_norms(partials: Partials, samples: slice) -> npt.NDArray[np.int64]:
    """Squared norm of every record's genotypes in every block, shape (people, blocks).

    All zero where, by a public comparison, no record can be too long.
    """
    rule, layout, table = partials.inputs.row_rule, partials.plan.layout, partials.code_table
    count = samples.stop - samples.start
    norms = np.zeros((count, layout.n_blocks), dtype=np.int64)
    if rule is None or not rule.needs_norms(partials.largest_block_norms):
        return norms
    for block in range(layout.n_blocks):
        whole = layout.variants(block)
        for start in range(whole.start, whole.stop, _VARIANTS_PER_NORM_PASS):
            variants = slice(start, min(start + _VARIANTS_PER_NORM_PASS, whole.stop))
            packed = partials.genotypes.read_packed(variants, samples)
            norms[:, block] += squared_norms(decode(packed, table[variants], count).T)
    return norms


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
    for samples in plan.reads(task.row_group):
        multiplier = partials.block_multipliers(task.block, samples)
        sampled = partials.sampled(samples)
        left = _clipped_codes(partials, left_variants, samples, multiplier)
        right = left if diagonal else _clipped_codes(partials, right_variants, samples, multiplier)
        if cross is not None:
            rows = read_block(clipped, (samples, slice(None)))
            add_cross(cross, left, rows, partials.max_code)
        if sampled is not None:
            left = left[:, sampled]
            right = left if diagonal else right[:, sampled]
        add_gram(gram, left, right, partials.max_code)
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
