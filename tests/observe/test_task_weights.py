"""Weights of tasks, against the prediction of the whole that the pre-flight makes another way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from primo_scale.accumulation.checkpoint import partial_bytes
from primo_scale.accumulation.plan import Plan
from primo_scale.accumulation.speed import STORE_RATE, Rates, bytes_read, core_seconds
from primo_scale.accumulation.task_memory import Workload
from primo_scale.accumulation.task_weights import Amount, Scales
from primo_scale.storage.block_matrices import BlockLayout

# What one of each weighs in primo_scale/accumulation/task_weights.py.
RATES = Rates(diagonal=5, beside=10, outcomes=23, outcome_gram=12, decoding=230, norms=400)
BYTE = 4400  # four genotypes
ROWS = 64


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    n_phenotypes=st.integers(1, 5),
    groups=st.integers(1, 3),
    tile=st.integers(3, 20),
    chunk_height=st.integers(1, 30),
    norms=st.booleans(),
)
def test_tasks_weigh_together_what_the_whole_was_predicted_to_take(
    sizes, n_phenotypes, groups, tile, chunk_height, norms
) -> None:
    boundaries = [0]
    for size in sizes:
        boundaries.append(boundaries[-1] + size)
    layout = BlockLayout(tuple(boundaries), 2, n_phenotypes)
    plan = Plan(layout, 2 * ROWS * groups, 2 * ROWS, ROWS, ROWS, tile)
    work = Workload(
        plan=plan,
        kernel="float64",
        largest_code=2,
        chunk_shape=(chunk_height, ROWS),
        may_clip=norms,
        multiplier_columns=1,
        subsampled=False,
    )
    whole = core_seconds(work, RATES) - partial_bytes(work) / STORE_RATE
    tasks = [*plan.row_tasks(), *plan.tile_tasks()]
    amount = Scales(plan, norms, chunk_height).amount(tasks)
    assert amount.tasks == len(tasks)
    assert amount.weight == round(whole + BYTE * bytes_read(work))


def test_task_weights_add_up() -> None:
    layout = BlockLayout((0, 50, 90), 1, 1)
    plan = Plan(layout, 500, 128, 64, 64, 16)
    scales = Scales(plan, True, 32)
    rows, tiles = [*plan.row_tasks()], [*plan.tile_tasks()]
    assert scales.amount(rows) + scales.amount(tiles) == scales.amount([*rows, *tiles])
    assert scales.amount([]) == Amount(0, 0)
