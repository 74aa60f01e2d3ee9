"""LD blocks, and the plan that covers every entry of every statistic exactly once."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.command_io import PANEL
from support.filesets import variants_with

from primo_scale.accumulation.plan import (
    Plan,
    TileTask,
    block_boundaries,
    default_plan,
    plan_digest,
)
from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.tables import read_bim
from primo_scale.storage.block_matrices import BlockLayout

sizes = st.lists(st.integers(1, 30), min_size=1, max_size=5)


def plan_of(block_sizes, n_samples=50, tile=7, together=0):
    boundaries = (0, *np.cumsum(block_sizes).tolist())
    layout = BlockLayout(boundaries, n_fixed=1, n_phenotypes=2)
    return Plan(layout, n_samples, 16, 24, rows_per_read=8, tile=tile, together=together)


@given(sizes, st.integers(1, 100), st.integers(1, 40), st.integers(0, 60))
def test_tiles_cover_the_upper_triangle_of_each_block_once_for_each_person(
    block_sizes, n_samples, tile, together
):
    plan = plan_of(block_sizes, n_samples, tile, together)
    for block, size in enumerate(block_sizes):
        people = np.zeros((size, size), dtype=int)
        for part in [part for task in plan.tile_tasks() for part in task.tiles]:
            if part.block == block:
                rows = plan.inside(block, part.row_tile)
                columns = plan.inside(block, part.column_tile)
                samples = plan.people(part)
                people[rows, columns] += samples.stop - samples.start
        np.testing.assert_array_equal(np.triu(people), np.triu(np.full_like(people, n_samples)))


@given(sizes, st.integers(1, 40), st.integers(0, 60))
def test_narrow_blocks_share_a_task_up_to_the_limit(block_sizes, tile, together):
    plan = plan_of(block_sizes, tile=tile, together=together)
    shared = list(plan.shared_blocks())
    assert [block for blocks in shared for block in blocks] == list(range(len(block_sizes)))
    widths = [sum(block_sizes[block] for block in blocks) for blocks in shared]
    limit = min(together, tile)
    for blocks, width in zip(shared, widths, strict=True):
        assert width <= limit or len(blocks) == 1
        if blocks.stop < len(block_sizes):
            assert width + block_sizes[blocks.stop] > limit


@given(st.integers(1, 200))
def test_reads_cover_each_person_once(n_samples):
    plan = plan_of([5], n_samples)
    for tasks in (plan.row_tasks(), plan.tile_tasks()):
        reads = [read for task in tasks for read in plan.reads(task)]
        people = [person for read in reads for person in range(read.start, read.stop)]
        assert people == list(range(n_samples))


def test_the_digest_depends_on_inputs_and_plan():
    plan = plan_of([20, 3])
    digests = {
        plan_digest(plan, {"genotypes": "a"}),
        plan_digest(plan, {"genotypes": "b"}),
        plan_digest(plan_of([20, 3], tile=8), {"genotypes": "a"}),
        plan_digest(plan_of([3, 20]), {"genotypes": "a"}),
    }
    assert len(digests) == 4
    assert plan_digest(Plan.from_json(plan.to_json()), {"genotypes": "a"}) in digests


def test_a_row_group_that_splits_a_read_is_refused():
    layout = BlockLayout((0, 4), 1, 1)
    for row_group, stripe, rows_per_read in ((12, 8, 8), (8, 12, 8), (6, 6, 6)):
        with pytest.raises(UsageError):
            Plan(layout, 100, row_group, stripe, rows_per_read)


@given(st.integers(1, 10**6), st.lists(st.integers(1, 20_000), min_size=1, max_size=20))
@example(65_537, [1, 1, 14])  # two blocks share a task
def test_the_default_plan_bounds_memory_and_keeps_workers_busy(n_samples, block_sizes):
    layout = BlockLayout((0, *np.cumsum(block_sizes).tolist()), 1, 1)
    plan = default_plan(layout, n_samples)
    tasks = list(plan.tile_tasks())
    sides = [[min(plan.tile, layout.size(block)) for block in task.blocks] for task in tasks]
    # Codes in memory, whatever n and d.
    assert max(map(sum, sides)) * plan.rows_per_read <= 2048 * 8192
    assert plan.stripe <= 65_536
    reads = -(-n_samples // plan.rows_per_read)
    assert len(tasks) >= min(3, reads)
    whole = plan.people(TileTask(0, 0, 0, 0))
    widest = max(map(max, sides))
    assert (whole.stop - whole.start) * 2 * widest**2 <= 2 * 10**12 or plan.n_row_groups == reads


def variants(chromosomes, positions):
    return variants_with(len(chromosomes), chromosome=chromosomes, position=positions)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 50))
def test_windows_respect_their_size_and_chromosomes(lengths, size):
    names = [str(c) for c, length in enumerate(lengths) for _ in range(length)]
    boundaries = block_boundaries(f"window:{size}", variants(names, range(len(names))))
    assert boundaries[0] == 0 and boundaries[-1] == len(names)
    for start, stop in itertools.pairwise(boundaries):
        assert 0 < stop - start <= size
        assert len(set(names[start:stop])) == 1


@pytest.mark.parametrize(
    "text", ["window:0", "window:-3", "window:", "window:1.5", "window:²", "window:" + "9" * 5000]
)
def test_an_invalid_window_size_is_a_usage_error(text):
    with pytest.raises(UsageError):
        block_boundaries(text, variants(["1"], [5]))


def boundaries_of(tmp_path, text, chromosomes, positions):
    table = tmp_path / "blocks.txt"
    table.write_text(text)
    return block_boundaries(str(table), variants(chromosomes, positions))


def test_a_table_assigns_variants_by_position(tmp_path):
    table = "chr start stop\nchr1 100 200\nchr1 200 300\nchr2 1 1000\n"
    made = boundaries_of(tmp_path, table, ["1", "1", "1", "1", "2"], [50, 199, 200, 900, 7])
    assert made == (0, 2, 4, 5)


@pytest.mark.parametrize(
    ("text", "chromosomes", "positions", "what"),
    [
        ("1 100 200\n", ["7"], [5], "no LD block for a chromosome"),
        ("1 100 200\n1 abc 3\n", ["1"], [5], r"blocks\.txt:2"),
        ("1 100 200\n1 200 300\n", ["1"] * 3, [150, 250, 160], "not runs"),
        *(
            (before + line.format(number) + "\n", ["1"], [5], "as whole numbers of base pairs")
            for line in ("1 {} 300", "1 100 {}")
            for before in ("", "1 1 100\n")
            for number in ("9" * 5000, "3.65e7", "38000000.0")
        ),
        ("1 1 100\n1 100\n", ["1"], [5], r"blocks\.txt:2: an LD block is not `chrom start end`"),
        ("1 100 200\n1 300 201\n", ["1"], [150], "txt:2: an LD block is not `chrom start end`"),
        ("1 365 380\n2 1 9\n1 350 366\n", ["1"], [360],
         "lines 3 and 1 overlap .got 350 to 366 and 365 to 380.. End each block at or before"),
        ("1 100 200\n1 100 200\n", ["1"], [150], "lines 1 and 2 overlap"),
        ("1 100 900\n1 200 300\n", ["1"], [150], "lines 1 and 2 overlap"),
    ],
)  # fmt: skip
def test_unsuitable_and_malformed_tables_are_refused(tmp_path, text, chromosomes, positions, what):
    with pytest.raises(InputError, match=what):
        boundaries_of(tmp_path, text, chromosomes, positions)


def test_touching_blocks_in_any_order_and_the_demos_blocks_are_taken(tmp_path):
    """LDetect's blocks start at the end of the one before."""
    ldetect = "chr start stop\nchr1 200 300\nchr1 100 200\nchr1 301 400\n"
    assert boundaries_of(tmp_path, ldetect, ["1"] * 3, [150, 200, 350]) == (0, 1, 2, 3)
    genotypes = read_bim(PANEL.with_suffix(".bim"))
    rows = Path(f"{PANEL}.blocks.tsv").read_text().splitlines()[1:]
    assert len(block_boundaries(f"{PANEL}.blocks.tsv", genotypes)) == len(rows) + 1
