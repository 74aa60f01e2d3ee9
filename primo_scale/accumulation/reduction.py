"""Reduction of partial sums to statistics; each tile is summed when its last task is done.

The client thus sums and writes while workers compute, and little work remains after the last task.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.plan import Plan, Task, TileTask
from primo_scale.accumulation.statistics import KIND, RawStatistics
from primo_scale.errors import DamagedChunk
from primo_scale.storage.block_matrices import BlockMatricesWriter
from primo_scale.storage.chunks import read_block
from primo_scale.storage.groups import Array
from primo_scale.storage.locations import Location
from primo_scale.storage.tiles import (
    Panel,
    Tile,
    in_threads,
    n_threads,
    panel_height,
    upper_tiles,
    whole_tiles,
)

_Signed = npt.NDArray[np.signedinteger[Any]]
_Kind = np.dtype[np.signedinteger[Any]]
_INT64: _Kind = np.dtype(np.int64)
_Region = tuple[int, int, int]  # a block, and the row and column of a square in its X'X


class Reduction:
    """Sum of partial sums over row groups, computed per region of X'X.

    Integer sums commute, so the result depends neither on the row groups nor on the order of tasks.
    Memory depends only on the plan (see `reduction_bytes`). Statistics that an unfinished run left
    at the path are replaced.
    """

    def __init__(self, partials: Partials, path: Location) -> None:
        plan, layout = partials.plan, partials.plan.layout
        self._partials, self._path = partials, path
        self._threads = ThreadPoolExecutor(n_threads(), thread_name_prefix="reduction")
        self._created = self._threads.submit(self._create)  # beside the first tasks
        self._side = whole_tiles(plan.tile)
        self._regions: dict[_Region, Tile] = {
            (block, region.row, region.column): region
            for block in range(layout.n_blocks)
            for region in upper_tiles(layout.size(block), self._side)
        }
        self._awaited = Counter(key for task in plan.tile_tasks() for key in self._touched(task))
        self._sums: dict[_Region, Future[None]] = {}
        self._under_way: deque[Future[None]] = deque()

    def __enter__(self) -> Reduction:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def add(self, task: Task) -> None:
        """Record a committed task, and start to sum the regions that are now complete."""
        for key in self._touched(task) if isinstance(task, TileTask) else ():
            self._awaited[key] -= 1
            if self._awaited[key] == 0:
                self._sums[key] = self._threads.submit(self._sum_region, key)
                self._under_way.append(self._sums[key])
        while self._under_way and self._under_way[0].done():
            error = self._under_way.popleft().exception()
            if error is not None and not isinstance(error, DamagedChunk):
                raise error

    def finish(self) -> RawStatistics:
        """Sum the remaining regions, and return the statistics, which are then complete."""
        # Regions that seemed damaged are read again, because a network file system may show the
        # data of another machine with a delay.
        in_threads(self._sum_region, (key for key in self._regions if not self._is_summed(key)))
        layout, writer = self._partials.plan.layout, self._created.result()
        blocks = range(layout.n_blocks)
        in_threads(self._sum_cross, ((block, p) for block in blocks for p in layout.panels(block)))
        outcome_gram = _summed(self._partials.array("outcome_gram"), (slice(None), slice(None)))
        writer.write_outcome_gram(outcome_gram)
        inputs = self._partials.inputs
        outcomes = inputs.open_outcomes()
        people = (~outcomes.held_out(slice(0, outcomes.n_samples))).sum()
        writer.write_observed(np.append(people, outcomes.observed))
        sha256, summed = writer.sha256(), inputs.to_json()
        plan_digest = self._partials.attributes["plan_digest"]
        matrices = writer.finish({"plan_digest": plan_digest, "sha256": sha256, "inputs": summed})
        return RawStatistics(matrices, self._partials.plan.n_samples, sha256, summed)

    def _create(self) -> BlockMatricesWriter:
        plan = self._partials.plan
        largest = plan.n_samples * self._partials.max_code**2
        return BlockMatricesWriter(self._path, KIND, plan.layout, largest_gram=largest)

    def _touched(self, task: TileTask) -> Iterator[_Region]:
        """Yield the regions that tiles of a task overlap: one each, except for odd tile sizes."""
        plan = self._partials.plan
        for tile in task.tiles:
            rows, columns = (
                range(part.start // self._side, (part.stop - 1) // self._side + 1)
                for part in (
                    plan.inside(tile.block, tile.row_tile),
                    plan.inside(tile.block, tile.column_tile),
                )
            )
            yield from ((tile.block, row, col) for row in rows for col in columns if row <= col)

    def _is_summed(self, key: _Region) -> bool:
        """Return whether a region is summed, after waiting if it is in progress."""
        future = self._sums.get(key)
        return future is not None and future.exception() is None

    def _sum_region(self, key: _Region) -> None:
        block, region, writer = key[0], self._regions[key], self._created.result()
        array = self._partials.array(f"gram/{block}")
        total = _summed_region(array, region, self._partials.plan.tile, writer.gram_type)
        for tile in region.cut():
            writer.write_gram_tile(block, tile, total[tile.inside(region)])

    def _sum_cross(self, piece: tuple[int, Panel]) -> None:
        block, panel = piece
        total = _summed(self._partials.array(f"cross/{block}"), (panel.rows, slice(None)))
        self._created.result().write_cross_panel(block, panel, total)


def reduction_bytes(plan: Plan) -> int:
    """Return the peak memory that a `Reduction` adds to the process, in bytes, for any d and n.

    Each thread holds a region of X'X or a panel of X'Z, the partial sum that it adds, and the bytes
    that the partial sum is read from.
    """
    q = plan.layout.n_outcomes
    region = 3 * min(whole_tiles(plan.tile), max(plan.layout.sizes)) ** 2
    panel = (3 * panel_height(q) + 2 * plan.tile) * q
    return np.dtype(np.int64).itemsize * (n_threads() * max(region, panel) + 4 * q * q)


def _summed_region(array: Array, region: Tile, tile_side: int, kind: _Kind) -> _Signed:
    """Return a region of X_b'X_b as integers of type `kind`.

    Tiles below the diagonal are never computed. If a diagonal region has several tiles, its lower
    part is mirrored from the upper part.
    """
    tiles = list(region.cut(tile_side))
    if len(tiles) == 1:
        return _summed(array, tiles[0].selection, kind)
    total = np.empty(region.shape, dtype=kind)
    for tile in tiles:
        part = _summed(array, tile.selection, kind)
        total[tile.inside(region)] = part
        if region.on_diagonal and not tile.on_diagonal:
            total[tile.inside(region)[::-1]] = part.T
    return total


def _summed(array: Array, selection: tuple[slice, ...], kind: _Kind = _INT64) -> _Signed:
    """Return the sum of `selection` over row groups, the first axis, as integers of type `kind`."""
    total = _group(array, 0, selection).astype(kind, copy=array.shape[0] > 1)
    for group in range(1, array.shape[0]):
        total += _group(array, group, selection)
    return total


def _group(array: Array, group: int, selection: tuple[slice, ...]) -> _Signed:
    partial: _Signed = read_block(array, (slice(group, group + 1), *selection))[0]
    return partial
