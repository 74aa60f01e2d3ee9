"""Predicted disk use, compared with the files that are written."""

from __future__ import annotations

import numpy as np
import pytest
from genotype_headers import write_header
from whole_matrices import write_cross, write_gram
from zero_commits import commit_zeros

from primo_scale.accumulation.checkpoint import open_partials, partial_bytes
from primo_scale.accumulation.clipping_rules import ClippingRule, LongRecords
from primo_scale.accumulation.partials import Inputs
from primo_scale.accumulation.plan import Plan
from primo_scale.accumulation.task_memory import Workload
from primo_scale.outcomes.store import rows_layout
from primo_scale.storage.block_matrices import BlockLayout, BlockMatricesWriter, stored_bytes
from primo_scale.storage.chunks import array_bytes, write_block
from primo_scale.storage.encryption import KEY_VARIABLE, make_key_file
from primo_scale.storage.groups import create_array, create_group

N_BLOCKS, SIDE = 17, 6


def bytes_below(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@pytest.fixture(params=["unencrypted", "encrypted"])
def _key(request, tmp_path, monkeypatch):
    if request.param == "encrypted":
        make_key_file(tmp_path / "key")
        monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "key"))


@pytest.mark.usefixtures("_key")
def test_partial_sums_fit_the_predicted_size(tmp_path):
    """Z'Z of every stripe, and multipliers of 17 blocks in chunks of 16."""
    layout = BlockLayout(tuple(range(0, SIDE * N_BLOCKS + 1, SIDE)), 2, 38)
    plan = Plan(layout, 1000, row_group=400, stripe=80, rows_per_read=40, tile=4)
    rule = ClippingRule(LongRecords.RECORD, 10, (1,) * N_BLOCKS, 1, 1)
    genotypes = write_header(tmp_path / "g", "those")
    digests = {"genotypes": "those", "outcomes": "x"}
    inputs = Inputs(genotypes, tmp_path / "o", rule, 500, digests)
    codes = np.ones((layout.n_variants, 4), np.int8)
    path = tmp_path / "partials.zarr"
    partials = open_partials(path, plan, inputs, codes)
    for task in [*plan.row_tasks(), *plan.tile_tasks()]:
        commit_zeros(partials, task)
    work = Workload(plan, "vnni", 1, (8, 8), True, partials.multiplier_columns, True)
    there = bytes_below(path)
    assert 0.9 * partial_bytes(work) <= there <= partial_bytes(work)


@pytest.mark.usefixtures("_key")
@pytest.mark.parametrize("copies", [1, 3])
def test_statistics_fit_the_predicted_size(tmp_path, copies):
    """The last of two panels holds 53 rows, and fills a chunk of 1047."""
    layout = BlockLayout((0, 1100, 1110), 5, 996)
    path, q = tmp_path / "statistics.zarr", layout.n_outcomes
    writer = BlockMatricesWriter(path, "statistics", layout, gram_copies=copies)
    for block, size in enumerate(layout.sizes):
        for copy in range(copies):
            write_gram(writer, layout, block, np.zeros((size, size), np.int64), copy)
        write_cross(writer, layout, block, np.zeros((size, q), np.int64))
    writer.write_outcome_gram(np.zeros((q, q), np.int64))
    writer.write_observed(np.zeros(layout.n_phenotypes, np.int64))
    writer.finish({"plan_digest": "x"})
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
