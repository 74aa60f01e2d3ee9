"""Predicted disk use, compared with the files that are written."""

from __future__ import annotations

import numpy as np
import pytest
from example_partials import commit_zeros, partials_below
from tiers import thinned
from whole_matrices import zero_statistics

from primo_scale.accumulation.checkpoint import partial_bytes
from primo_scale.accumulation.clipping_rules import ClippingRule, LongRecords
from primo_scale.accumulation.plan import Plan
from primo_scale.accumulation.task_memory import Workload
from primo_scale.outcomes.store import rows_layout
from primo_scale.storage.block_matrices import BlockLayout, stored_bytes
from primo_scale.storage.chunks import array_bytes, write_block
from primo_scale.storage.groups import create_array, create_group

N_BLOCKS, SIDE = 17, 6


def bytes_below(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@pytest.mark.usefixtures("encrypted")
def test_partial_sums_fit_the_predicted_size(tmp_path):
    """Z'Z of every stripe, and multipliers of 17 blocks in chunks of 16."""
    layout = BlockLayout(tuple(range(0, SIDE * N_BLOCKS + 1, SIDE)), 2, 38)
    plan = Plan(layout, 1000, row_group=400, stripe=80, rows_per_read=40, tile=4)
    rule = ClippingRule(LongRecords.RECORD, 10, (1,) * N_BLOCKS, 1, 1)
    codes = np.ones((layout.n_variants, 4), np.int8)
    partials = partials_below(tmp_path, plan, codes, rule=rule, subsample=500)
    for task in [*plan.row_tasks(), *plan.tile_tasks()]:
        commit_zeros(partials, task)
    work = Workload(plan, "vnni", 1, (8, 8), True, partials.multiplier_columns, True)
    there = bytes_below(partials.path)
    assert 0.9 * partial_bytes(work) <= there <= partial_bytes(work)


@pytest.mark.usefixtures("encrypted")
@pytest.mark.parametrize("copies", thinned([1, 3], every=2))
def test_statistics_fit_the_predicted_size(tmp_path, copies):
    """The last of two panels holds 53 rows, and fills a chunk of 1047."""
    layout = BlockLayout((0, 1100, 1110), 5, 996)
    path = tmp_path / "statistics.zarr"
    zero_statistics(path, layout, gram_copies=copies)
    said = stored_bytes(layout, gram_copies=copies)
    assert 0.99 * said <= bytes_below(path) <= said


def test_outcomes_fit_the_predicted_size(tmp_path):
    """A chunk of 100 columns holds 20,971 people, so that 30,000 people take two chunks."""
    layout = rows_layout(30_000, 100)
    group = create_group(tmp_path / "outcomes.zarr", "outcomes", {})
    rows = create_array(group, "rows", shape=layout.shape, chunks=layout.chunks, dtype=layout.dtype)
    for start in range(0, 30_000, layout.chunks[0]):
        part = slice(start, min(start + layout.chunks[0], 30_000))
        write_block(rows, (part, slice(None)), np.zeros((part.stop - start, 100), np.int16))
    said = array_bytes(layout)
    assert 0.99 * said <= bytes_below(tmp_path / "outcomes.zarr") <= said
