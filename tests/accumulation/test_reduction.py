"""Sums of row groups are exact for every plan, in bounded memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.partials import partials_below
from support.stores import flip_a_bit, pieces_of
from support.traced_memory import least_peak

from primo_scale.accumulation.plan import Plan
from primo_scale.accumulation.statistics import Reduction, open_raw_statistics
from primo_scale.errors import InputError, ResourceError
from primo_scale.machine import n_threads
from primo_scale.storage.block_matrices import BlockLayout, BlockMatricesWriter
from primo_scale.storage.groups import (
    ArrayLayout,
    array_of,
    chunk_path,
    create_array,
    create_group,
    is_complete,
    mark_complete,
    open_group,
    write_array,
)

MAX_CODE = 3


def partials_of(path, X, Z, boundaries, *, row_group, tile, together=0, max_code=MAX_CODE):
    """Write partial sums of integer rows as tasks do: only the upper triangle of tiles."""
    n, q = Z.shape
    layout = BlockLayout(tuple(boundaries), 1, q - 1)
    plan = Plan(layout, n, row_group, row_group, row_group, tile, together)
    outcomes = create_group(path / "outcomes", "outcomes", {})
    create_array(outcomes, "rows", ArrayLayout((n, q), (n, q), np.int16))
    write_array(outcomes, "observed", np.arange(q - 1), (q - 1,))
    mark_complete(outcomes, {"coding_digest": "x", "content_digest": "y"})

    partials = partials_below(path, plan, np.full((layout.n_variants, 4), max_code, np.int8))
    for task in plan.row_tasks():
        z = Z[plan.people(task)]
        partials.commit_rows(task, z.T @ z)
    kind = plan.gram_type(max_code)
    for tile in [tile for task in plan.tile_tasks() for tile in task.tiles]:
        x, z = X[plan.people(tile)], Z[plan.people(tile)]
        left, right = (
            x[:, plan.variants(tile.block, t)] for t in (tile.row_tile, tile.column_tile)
        )
        if tile.on_diagonal:
            partials.commit_cross(tile, left.T @ z)
        partials.commit_tile(tile, (left.T @ right).astype(kind))
    return partials


def reduced(partials, path, tasks=()):
    with Reduction(partials, path) as reduction:
        for task in tasks:
            reduction.add(task)
        return reduction.finish()


def cohort(n, d, q, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(-MAX_CODE, MAX_CODE + 1, (n, d)), rng.integers(-500, 500, (n, q))


def one_block(path, row_group=12):
    """Return the genotypes and the partial sums of 20 people with one block of 30 variants."""
    X, Z = cohort(20, 30, 4, seed=1)
    return X, partials_of(path / "p", X, Z, (0, 30), row_group=row_group, tile=9)


@settings(max_examples=8, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    tile=st.integers(3, 45),
    together=st.integers(0, 80),
    side=st.integers(5, 45),
    row_group=st.sampled_from([4, 8, 20]),
    seed=st.integers(0, 99),
    draw=st.data(),
)
def test_sums_do_not_depend_on_the_plan_or_the_order_of_tasks(
    tmp_path_factory, sizes, tile, together, side, row_group, seed, draw
):
    folder = tmp_path_factory.mktemp("reduce")
    boundaries = np.cumsum([0, *sizes]).tolist()
    X, Z = cohort(20, boundaries[-1], 4, seed)
    cut = partials_of(
        folder / "cut", X, Z, boundaries, row_group=row_group, tile=tile, together=together
    )
    uncut = partials_of(folder / "uncut", X, Z, boundaries, row_group=20, tile=40)
    tasks = draw.draw(st.permutations([*cut.plan.row_tasks(), *cut.plan.tile_tasks()]))
    noted = tasks[: draw.draw(st.integers(0, len(tasks)))]
    with pieces_of(side, 16):
        raw = reduced(cut, folder / "statistics", noted)
        assert raw.sha256 == reduced(uncut, folder / "others").sha256
        again = open_raw_statistics(folder / "statistics", cut.plan.layout, 20)
        assert again.sha256 == raw.sha256
        for block in range(len(sizes)):
            x = X[:, cut.plan.layout.variants(block)]
            np.testing.assert_array_equal(raw.matrices.gram(block), x.T @ x)
            np.testing.assert_array_equal(raw.matrices.cross(block), x.T @ Z)
        np.testing.assert_array_equal(raw.matrices.outcome_gram(), Z.T @ Z)
        np.testing.assert_array_equal(raw.matrices.observed(), [20, 0, 1, 2])


@pytest.mark.parametrize("max_code", [1, 127])
def test_sums_beyond_32_bits_are_exact(tmp_path, max_code):
    """Everybody has the largest code, so that sums reach the bound that determines the type."""
    n = 2**31 // 127**2 + 1
    X, Z = np.full((n, 12), max_code), np.ones((n, 2), int)
    X[:, ::2] *= -1
    partials = partials_of(
        tmp_path / "p", X, Z, (0, 12), row_group=n // 8 * 4, tile=5, max_code=max_code
    )
    with pieces_of(8, 16):
        found = reduced(partials, tmp_path / "s").matrices.gram(0)
    np.testing.assert_array_equal(found, X.T @ X)
    assert (np.abs(found).max() >= 2**31) == (max_code == 127)


@pytest.mark.parametrize("damage", ["removed", "flipped"])
@pytest.mark.parametrize(
    ("name", "index"), [("gram/1", (1, 0, 1)), ("cross/0", (0, 1, 0)), ("outcome_gram", (1, 0, 0))]
)
def test_missing_and_damaged_tiles_are_refused(tmp_path, name, index, damage):
    X, Z = cohort(20, 30, 4, seed=1)
    partials = partials_of(tmp_path / "p", X, Z, (0, 14, 30), row_group=12, tile=9)
    chunk = chunk_path(partials.array(name), index)
    if damage == "removed":
        chunk.unlink()
    else:
        flip_a_bit(chunk)
    with pieces_of(8, 16):
        with pytest.raises(InputError, match="chunk is"):
            reduced(partials, tmp_path / "s")
        assert not is_complete(tmp_path / "s", "statistics")


def waiting(reduction):
    for future in list(reduction._sums.values()):
        future.exception()


def test_a_tile_that_appears_late_is_read_at_the_end(tmp_path):
    """A network file system may show files of another machine with a delay."""
    X, partials = one_block(tmp_path)
    hidden = chunk_path(partials.array("gram/0"), (1, 0, 1))
    with pieces_of(9, 16), Reduction(partials, tmp_path / "s") as reduction:
        hidden.rename(tmp_path / "hidden")
        for task in partials.plan.tile_tasks():
            reduction.add(task)
        waiting(reduction)
        (tmp_path / "hidden").rename(hidden)
        np.testing.assert_array_equal(reduction.finish().matrices.gram(0), X.T @ X)


def test_a_region_is_summed_after_its_last_tile(tmp_path):
    _, partials = one_block(tmp_path)
    first = {task for task in partials.plan.tile_tasks() if task.row_group == 0}
    with pieces_of(9, 16), Reduction(partials, tmp_path / "s") as reduction:
        for task in first:
            reduction.add(task)
        assert not reduction._sums
        for number, task in enumerate(set(partials.plan.tile_tasks()) - first, start=1):
            reduction.add(task)
            assert len(reduction._sums) == number


def test_a_full_disk_stops_the_reduction_early(tmp_path, monkeypatch):
    _, partials = one_block(tmp_path, row_group=20)
    first, *others = partials.plan.tile_tasks()

    def full(*_):
        raise ResourceError("the disk is full")

    monkeypatch.setattr(BlockMatricesWriter, "write_gram_tile", full)
    full_disk = pytest.raises(ResourceError, match="the disk is full")
    with pieces_of(9, 16), Reduction(partials, tmp_path / "s") as reduction, full_disk:
        reduction.add(first)  # which may find it on a busy machine
        waiting(reduction)
        reduction.add(others[0])
    assert not is_complete(tmp_path / "s", "statistics")


def test_changed_statistics_and_another_layout_are_refused(tmp_path):
    _, partials = one_block(tmp_path)
    with pieces_of(8, 16):
        reduced(partials, tmp_path / "s")
        with pytest.raises(InputError, match="another design"):
            open_raw_statistics(tmp_path / "s", BlockLayout((0, 30), 2, 2), 20)
        with pytest.raises(InputError, match="another design"):
            open_raw_statistics(tmp_path / "s", BlockLayout((0, 14, 30), 1, 3), 20)
        array = array_of(open_group(tmp_path / "s", "statistics", complete=False), "gram/0")
        array[9, 20] = array[9, 20] + 1  # another integer with a correct checksum
        with pytest.raises(InputError, match="gram/0/c/1/2: a stored chunk is damaged"):
            open_raw_statistics(tmp_path / "s", partials.plan.layout, 20)


@pytest.mark.slow
@pytest.mark.parametrize("tile", [96, 128])
def test_memory_does_not_depend_on_d(tmp_path, tile):
    """Peak of Python's and numpy's allocations; a whole matrix alone takes 3 and 16 MB."""
    with pieces_of(128, 4096):
        for d in (640, 1408):
            X, Z = cohort(8, d, 4, seed=2)
            partials = partials_of(tmp_path / f"{d}", X, Z, (0, d), row_group=4, tile=tile)
            peak = least_peak(lambda cut=partials: reduced(cut, tmp_path / "s"))
            objects = 1 << 20  # of Zarr and the digests
            assert peak < n_threads() * 4 * 8 * 128**2 + objects
