"""Exact sums of a cohort: running the tasks that are left, and summing what they committed.

The client sums each tile when its last task is done, and writes while workers compute, so that
little work remains after the last task. The results are PRIVATE; only `primo_scale.privacy` may
release them.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.partials import SUBSAMPLE, Partials
from primo_scale.accumulation.plan import Task, TileTask
from primo_scale.errors import DamagedChunk, InputError
from primo_scale.kernels.products import Int64
from primo_scale.machine import in_threads, n_threads
from primo_scale.storage import block_matrices, groups, stores
from primo_scale.storage.groups import Array, read_block, write_array
from primo_scale.storage.locations import Location

LOGGER = logging.getLogger("primo_scale")

KIND, OWN_KIND = "statistics", "own sums"
# Number of attempts with damaged partial sums; a disk that keeps damaging data is an error.
_ROUNDS = 3

Progress = Callable[[int, int], None]
# Computes and commits every task, in about this order, and calls the last argument after each
# (`primo_scale.accumulation.executors`).
Executor = Callable[[Partials, Sequence[Task], Callable[[Task], None]], None]
_Signed = npt.NDArray[np.signedinteger[Any]]
_Kind = np.dtype[np.signedinteger[Any]]
_INT64: _Kind = np.dtype(np.int64)
_Region = tuple[int, int, int]  # a block, and the row and column of a square in its X'X
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class RawStatistics:
    """Exact integer statistics of a cohort. PRIVATE: they must never be published.

    So is their digest, in hexadecimal, since it can confirm a guess.
    """

    matrices: block_matrices.BlockMatrices  # X'X by blocks, X'Z, Z'Z and the counts of people
    n_samples: int
    sha256: str
    inputs: dict[str, Any]  # as `Inputs.to_json` returns them: digests, and clipping norms


@dataclass(frozen=True, eq=False)
class RawOwnSums:
    """Exact integer sums ``sum y_k z_t`` of all directions t. PRIVATE: never to be published."""

    values: Int64  # shape (m,)
    sha256: str
    inputs: dict[str, Any]  # as `Inputs.to_json` returns them


def accumulate(
    executor: Executor, partials: Partials, destination: Location, on_progress: Progress
) -> RawStatistics:
    """Run all tasks that are not committed yet, and sum the row groups.

    The statistics do not depend on workers, order or interruptions. `on_progress` is called with
    the numbers of tasks (done, total), which include those committed earlier.
    """

    def attempt() -> RawStatistics:
        with Reduction(partials, destination) as reduction:
            _run_remaining(executor, partials, reduction.add, on_progress)
            return reduction.finish()

    return _until_intact(partials, attempt)


def accumulate_own(
    executor: Executor, partials: Partials, destination: Location, on_progress: Progress
) -> RawOwnSums:
    """Do what `accumulate` does for a second round, whose sums are small and added at the end."""

    def attempt() -> RawOwnSums:
        _run_remaining(executor, partials, lambda task: None, on_progress)
        return sum_own(partials, destination)

    return _until_intact(partials, attempt)


def _until_intact(partials: Partials, attempt: Callable[[], _Result]) -> _Result:
    for _ in range(_ROUNDS):
        try:
            return attempt()
        except DamagedChunk:
            # Committed results are only listed at the start. Reading them all takes a while, so it
            # is done only after damage, for example by a full disk or a power failure.
            damaged = partials.drop_damaged()
            if not damaged:
                raise
            LOGGER.warning("%d damaged partial sums are computed again", damaged)
    raise InputError(
        "partial sums were damaged repeatedly",
        where=str(partials.path),
        remedy="Check the disk, or choose another --work-dir",
    )


def _run_remaining(
    executor: Executor, partials: Partials, reduce: Callable[[Task], None], on_progress: Progress
) -> None:
    plan, committed = partials.plan, partials.committed()
    # Clipping is a function of the inputs alone and gives the same rows again, so committed tiles
    # remain valid if a stripe must be clipped again. Tiles of large blocks start first, so that
    # workers end at about the same time.
    rows = [task for task in plan.row_tasks() if task not in committed]
    tiles = [task for task in plan.tile_tasks() if task not in committed]
    tiles.sort(key=lambda task: sum(map(plan.layout.size, task.blocks)), reverse=True)
    done, total = len(committed), len(committed) + len(rows) + len(tiles)
    on_progress(done, total)
    for task in committed:
        reduce(task)

    def count(task: Task) -> None:
        nonlocal done
        done += 1
        on_progress(done, total)
        reduce(task)

    executor(partials, rows, count)  # tiles read what rows commit
    executor(partials, tiles, count)


class Reduction:
    """Sum of partial sums over row groups, computed per region of X'X.

    Integer sums commute, so the result depends neither on the row groups nor on the order of tasks.
    Memory depends only on the plan. Statistics that an unfinished run left at the path are
    replaced.
    """

    def __init__(self, partials: Partials, path: Location) -> None:
        plan, layout = partials.plan, partials.plan.layout
        self._partials = partials
        self._threads = ThreadPoolExecutor(n_threads(), thread_name_prefix="reduction")
        largest = plan.n_samples * partials.max_code**2
        self._created = self._threads.submit(  # beside the first tasks
            block_matrices.BlockMatricesWriter, path, KIND, layout, largest_gram=largest
        )
        self._side = block_matrices.whole_tiles(plan.tile)
        self._regions: dict[_Region, block_matrices.Tile] = {
            (block, region.row, region.column): region
            for block in range(layout.n_blocks)
            for region in block_matrices.upper_tiles(layout.size(block), self._side)
        }
        self._awaited = Counter(key for task in plan.tile_tasks() for key in self._touched(task))
        self._sums: dict[_Region, Future[None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def add(self, task: Task) -> None:
        """Record a committed task, and start to sum the regions that are now complete."""
        for key in self._touched(task) if isinstance(task, TileTask) else ():
            self._awaited[key] -= 1
            if self._awaited[key] == 0:
                self._sums[key] = self._threads.submit(self._sum_region, key)
                self._sums[key].add_done_callback(self._note)
        if self._failure is not None:
            raise self._failure

    _failure: BaseException | None = None

    def _note(self, ended: Future[None]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if error is not None and not isinstance(error, DamagedChunk):
            self._failure = error

    def finish(self) -> RawStatistics:
        """Sum the remaining regions, and return the statistics, which are then complete."""
        # Regions that seemed damaged are read again, because a network file system may show the
        # data of another machine with a delay.
        summed = {key for key, future in self._sums.items() if future.exception() is None}
        in_threads(self._sum_region, (key for key in self._regions if key not in summed))
        layout, writer = self._partials.plan.layout, self._created.result()
        blocks = range(layout.n_blocks)
        in_threads(self._sum_cross, ((block, p) for block in blocks for p in layout.panels(block)))
        outcome_gram = _summed(self._partials.array("outcome_gram"), (slice(None), slice(None)))
        writer.write_outcome_gram(outcome_gram)
        inputs = self._partials.inputs
        outcomes = inputs.open_outcomes()
        people = (~outcomes.held_out(slice(0, outcomes.n_samples))).sum()
        writer.write_observed(np.append(people, outcomes.observed))
        sha256, parameters = writer.sha256(), inputs.to_json()
        header = {"plan_digest": self._partials.attributes["plan_digest"], "sha256": sha256}
        matrices = writer.finish({**header, "inputs": parameters})
        return RawStatistics(matrices, self._partials.plan.n_samples, sha256, parameters)

    def _touched(self, task: TileTask) -> Iterator[_Region]:
        """Yield the regions that tiles of a task overlap: one each, except for odd tile sizes."""
        plan = self._partials.plan
        for tile in task.tiles:
            parts = (plan.inside(tile.block, at) for at in (tile.row_tile, tile.column_tile))
            rows, columns = (
                range(part.start // self._side, (part.stop - 1) // self._side + 1) for part in parts
            )
            yield from ((tile.block, row, col) for row in rows for col in columns if row <= col)

    def _sum_region(self, key: _Region) -> None:
        """Sum a region of X_b'X_b.

        Tiles below the diagonal are never computed. If a diagonal region has several tiles, its
        lower part is mirrored from the upper part.
        """
        block, region, writer = key[0], self._regions[key], self._created.result()
        array, kind = self._partials.array(f"gram/{block}"), writer.gram_type
        total = np.empty(region.shape, dtype=kind)
        for tile in region.cut(self._partials.plan.tile):
            part = _summed(array, tile.selection, kind)
            total[tile.inside(region)] = part
            if region.on_diagonal and not tile.on_diagonal:
                total[tile.inside(region)[::-1]] = part.T
        for tile in region.cut():
            writer.write_gram_tile(block, tile, total[tile.inside(region)])

    def _sum_cross(self, piece: tuple[int, slice]) -> None:
        block, panel = piece
        total = _summed(self._partials.array(f"cross/{block}"), (panel, slice(None)))
        self._created.result().write_cross_panel(block, panel, total)


def _summed(array: Array, selection: tuple[slice, ...], kind: _Kind = _INT64) -> _Signed:
    """Return the sum of `selection` over row groups, the first axis, as integers of type `kind`."""
    parts = (read_block(array, (slice(g, g + 1), *selection))[0] for g in range(array.shape[0]))
    total: _Signed = next(parts).astype(kind, copy=array.shape[0] > 1)
    for part in parts:
        total += part
    return total


def sum_own(partials: Partials, path: Location) -> RawOwnSums:
    """Sum all row groups of a second round, and store the result."""
    windows = range(partials.plan.layout.n_blocks)
    parts = [_summed(partials.array(f"cross/{window}"), (slice(None),) * 2) for window in windows]
    values, inputs = np.concatenate(parts)[:, 0], partials.inputs.to_json()
    group = groups.create_group(path, OWN_KIND, {})
    write_array(group, "sums", values, (min(len(values), 1 << 18),))
    groups.flush(group)
    groups.mark_complete(group, {"inputs": inputs, "sha256": _sha256(values)})
    return RawOwnSums(values, _sha256(values), inputs)


def find_own_sums(path: Location) -> RawOwnSums | None:
    """Return the finished sums at `path` after a check of every integer, or None without any."""
    if not groups.is_complete(path, OWN_KIND):
        return None
    group = groups.open_group(path, OWN_KIND)
    attributes, values = groups.attributes_of(group), read_block(groups.array_of(group, "sums"))
    if _sha256(values) != attributes["sha256"]:
        raise _damaged("the sums of the second round are damaged", path)
    return RawOwnSums(values, attributes["sha256"], attributes["inputs"])


def finished_plan_digest(path: Location) -> str | None:
    """Return the plan digest of the finished statistics at `path`, or None if there are none."""
    if not groups.is_complete(path, KIND):
        return None
    return str(groups.attributes_of(groups.open_group(path, KIND))["plan_digest"])


def open_raw_statistics(
    path: Location, layout: block_matrices.BlockLayout, n_samples: int
) -> RawStatistics:
    """Open finished statistics and check every integer against their digest."""
    attributes = groups.attributes_of(groups.open_group(path, KIND))
    matrices = block_matrices.BlockMatrices(path, KIND, layout)
    if attributes["boundaries"] != list(layout.boundaries) or (
        matrices.sha256() != attributes["sha256"]
    ):
        raise _damaged("the statistics are damaged or of another design", path)
    return RawStatistics(matrices, n_samples, attributes["sha256"], attributes["inputs"])


def remove_partials(path: Location) -> None:
    """Delete the partial sums of a finished accumulation, and its secret subsample list first.

    The list must not remain, so that it is an error if it cannot be deleted.
    """
    store = stores.store_at(path)
    inside = f"/{SUBSAMPLE}/"
    for store_id in {key.partition(inside)[0] for key in store.all_keys() if inside in key}:
        subsample = f"{store_id}/{SUBSAMPLE}"
        try:
            store.remove_below(subsample)
        except OSError as error:
            raise InputError(
                f"the secret list of the subsample cannot be deleted: {error.strerror}",
                where=str(path / subsample),
                remedy="Delete it by hand, then run the same command again",
            ) from error
    with suppress(OSError):
        store.remove_below("")


def _damaged(what: str, path: Location) -> InputError:
    return InputError(what, where=str(path), remedy="Remove them and run accumulate again")


def _sha256(values: Int64) -> str:
    return hashlib.sha256(values.astype("<i8").tobytes()).hexdigest()
