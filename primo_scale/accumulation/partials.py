"""The checkpoint: what tasks commit, what is committed already, and what must never be merged.

The store of partial sums is keyed by the plan digest, which covers every input. One chunk is one
task's result and has one writer; a chunk under its final name is complete, and its checksum says
whether it still is. Nothing is flushed to the disk for that: what a loss of power tears fails its
checksum and is summed again, and a flush costs as much time as the sum of a small task.

What is committed is a listing of names, on a disk a second or two for 50,000 tasks. The checksums
are verified where chunks are read, which happens to every one of them before the end; only when one
fails are all of them read for `Partials.drop_damaged`.

Arrays lie under the random name of their store. A worker that outlives its client, and with it
the store, commits what it still had in hand where nobody looks any more: never into the next store
at the same path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.clipping_rules import RowRule, may_clip, multiplier_columns
from primo_scale.accumulation.plan import Plan, RowTask, Task, TileTask
from primo_scale.errors import DamagedChunk, InputError
from primo_scale.genotypes.coding import largest_code
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.kernels import AUTOMATIC
from primo_scale.kernels.clipping import UNCLIPPED
from primo_scale.outcomes.store import OutcomeStore, open_outcome_store
from primo_scale.storage.chunks import (
    chunk_name,
    commit_chunk,
    drop_chunk,
    read_block,
    stored_chunks,
)
from primo_scale.storage.groups import Array, Group, array_of, attributes_of, open_group
from primo_scale.storage.locations import Location, parse_location
from primo_scale.storage.stores import store_at
from primo_scale.storage.tiles import in_threads

KIND = "partial statistics"
Address = tuple[Location, str, str]
SUBSAMPLE = "in_subsample"
"""Array of a store of partial sums: who is in a secret subsample."""
# Row multipliers of so many blocks lie in one chunk: few files, and a tile reads few others.
MULTIPLIER_COLUMNS = 16


@dataclass(frozen=True)
class Inputs:
    """What the tasks read and how they clip.

    Attributes
    ----------
    genotypes, outcomes
        Places of the finished stores, as every worker sees them.
    row_rule
        How records are clipped; None: not at all.
    subsample
        People that X'X is summed over, drawn at random when the store is created; None: everybody.
    digests
        What the stores and the coding hold (private, for the plan digest alone).
    """

    genotypes: Location
    outcomes: Location
    row_rule: RowRule | None
    subsample: int | None
    digests: dict[str, str]

    def open_genotypes(self) -> GenotypeStore:
        """The genotypes, if they are the ones that the digests are of.

        Raises
        ------
        InputError
            There are none, or others.
        """
        store = open_genotype_store(self.genotypes)
        if store.identity_digest != self.digests["genotypes"]:
            raise _replaced("genotype", self.genotypes)
        return store

    def open_outcomes(self) -> OutcomeStore:
        """The outcome rows, if they are the ones that the digests are of.

        Raises
        ------
        InputError
            There are none, or others.
        """
        store = open_outcome_store(self.outcomes)
        if store.content_digest != self.digests["outcomes"]:
            raise _replaced("outcome", self.outcomes)
        return store

    def to_json(self) -> dict[str, Any]:
        """Everything that decides the sums; paths do not."""
        return {
            "row_rule": None if self.row_rule is None else self.row_rule.to_json(),
            "subsample": self.subsample,
            **self.digests,
        }


@dataclass(frozen=True)
class Partials:
    """An open store of partial sums.

    Attributes
    ----------
    path
        Where it is, as every worker sees it.
    store_id
        Random name given at creation. A worker that outlives a store would otherwise take the
        next store at the same path for the one it has open.
    kernel
        What multiplies (`primo_scale.kernels.choice`); the sums do not depend on it.
    """

    path: Location
    store_id: str
    kernel: str = AUTOMATIC

    @property
    def address(self) -> Address:
        """What a worker opens it by."""
        return self.path.resolve(), self.store_id, self.kernel

    @cached_property
    def max_code(self) -> int:
        """Largest magnitude of a genotype code."""
        return largest_code(self.code_table)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes as they are now: all but where genotypes and outcomes lie are fixed."""
        attributes = attributes_of(open_group(self.path, KIND))
        if attributes["store_id"] != self.store_id:
            raise InputError("the store of partial sums was replaced", where=str(self.path))
        return attributes

    @cached_property
    def plan(self) -> Plan:
        """The plan whose results these are."""
        return Plan.from_json(self.attributes["plan"])

    @property
    def inputs(self) -> Inputs:
        """What the tasks read, where it lies now.

        Looked up each time, which is for once a task: a worker may live longer than a run, and the
        next one be given other paths.
        """
        attributes = self.attributes
        stored, paths = dict(attributes["inputs"]), attributes["paths"]
        rule = stored.pop("row_rule")
        return Inputs(
            parse_location(paths["genotypes"]),
            parse_location(paths["outcomes"]),
            None if rule is None else RowRule.from_json(rule),
            stored.pop("subsample"),
            stored,
        )

    @cached_property
    def row_rule(self) -> RowRule | None:
        """How records are clipped; None: not at all."""
        return self.inputs.row_rule

    @cached_property
    def subsample(self) -> int | None:
        """People that X'X is summed over; None: everybody."""
        return self.inputs.subsample

    @property
    def multiplier_columns(self) -> int:
        """Columns of row multipliers."""
        return multiplier_columns(self.row_rule)

    @cached_property
    def code_table(self) -> npt.NDArray[np.int8]:
        """Public int8 code of each 2-bit value for each variant, shape (d, 4)."""
        return read_block(self.array("code_table"), (slice(None), slice(None)))

    def array(self, name: str) -> Array:
        """One array of the store, for reading and for committing chunks; opened once."""
        if name not in self._opened:
            self._opened[name] = array_of(self._group, f"{self.store_id}/{name}")
        return self._opened[name]

    @cached_property
    def _group(self) -> Group:
        return open_group(self.path, KIND, complete=False)

    @cached_property
    def _opened(self) -> dict[str, Array]:
        return {}

    def outcome_planes(self, samples: slice) -> npt.NDArray[np.int8]:
        """Clipped outcome rows as `kernels.products.byte_planes`, shape (2 q, people)."""
        return read_block(self.array("outcome_planes"), (slice(None), samples))

    @cached_property
    def may_clip(self) -> bool:
        """Whether any genotypes could be beyond their bounds; a public comparison."""
        return may_clip(self.row_rule, self.code_table, self.plan.layout.boundaries)

    @property
    def _multiplier_parts(self) -> range:
        """Chunks of a read's multipliers."""
        return range(-(-self.multiplier_columns // MULTIPLIER_COLUMNS))

    def block_multipliers(self, block: int, samples: slice) -> npt.NDArray[np.int64]:
        """Multiplier over 2^31 of each record in one block, shape (people,)."""
        if not self.may_clip:
            return np.full(samples.stop - samples.start, UNCLIPPED, dtype=np.int64)
        column = min(block, self.multiplier_columns - 1)
        chosen = (samples, slice(column, column + 1))
        return read_block(self.array("row_multipliers"), chosen)[:, 0].astype(np.int64)

    def sampled(self, samples: slice) -> npt.NDArray[np.intp] | None:
        """Positions among `samples` of those in the subsample, or None if everybody is."""
        if self.subsample is None:
            return None
        return np.flatnonzero(read_block(self.array(SUBSAMPLE), (samples,)))

    def commit_read(
        self, samples: slice, multipliers: npt.NDArray[np.int64], planes: npt.NDArray[np.int8]
    ) -> None:
        """Commit the multipliers and the clipped outcome rows of one read of a stripe."""
        read = samples.start // self.plan.rows_per_read
        for part in self._multiplier_parts:
            columns = slice(part * MULTIPLIER_COLUMNS, (part + 1) * MULTIPLIER_COLUMNS)
            chunk = multipliers[:, columns].astype(np.uint32)
            commit_chunk(self.array("row_multipliers"), (read, part), chunk)
        commit_chunk(self.array("outcome_planes"), (0, read), planes)

    def commit_rows(self, task: RowTask, outcome_gram: npt.NDArray[np.int64]) -> None:
        """Commit Z'Z of a row task, after all its reads."""
        commit_chunk(self.array("outcome_gram"), (task.stripe, 0, 0), outcome_gram[None])

    def commit_cross(self, task: TileTask, cross: npt.NDArray[np.int64]) -> None:
        """Commit the rows of X'Z of a tile task on the diagonal, before its tile."""
        index = (task.row_group, task.row_tile, 0)
        commit_chunk(self.array(f"cross/{task.block}"), index, cross[None])

    def commit_tile(self, task: TileTask, gram: npt.NDArray[np.signedinteger[Any]]) -> None:
        """Commit the tile of a tile task, after all else of it."""
        index = (task.row_group, task.row_tile, task.column_tile)
        commit_chunk(self.array(f"gram/{task.block}"), index, gram[None])

    def committed(self) -> set[Task]:
        """Tasks whose results are there, every chunk of them."""
        stored = stored_chunks(self.path / self.store_id)
        return {
            task
            for task in self._tasks()
            if all(chunk_name(name, index) in stored for name, index in self._results(task))
        }

    def is_committed(self, task: Task) -> bool:
        """Whether the results of one task are there."""
        store = store_at(self.path)
        return all(
            store.holds(f"{self.store_id}/{chunk_name(*result)}") for result in self._results(task)
        )

    def drop_damaged(self) -> int:
        """Read every chunk that tasks committed, and remove those that fail their checksums.

        Returns
        -------
        int
            How many were removed.
        """
        stored = stored_chunks(self.path / self.store_id)
        results = {result for task in self._tasks() for result in self._results(task)}
        there = [(name, index) for name, index in results if chunk_name(name, index) in stored]
        return in_threads(lambda result: _intact(self.array(result[0]), result[1]), there).count(
            False
        )

    def _tasks(self) -> Iterator[Task]:
        yield from self.plan.row_tasks()
        yield from self.plan.tile_tasks()

    def _results(self, task: Task) -> list[tuple[str, tuple[int, ...]]]:
        if isinstance(task, RowTask):
            # What tiles read must be whole as well: a chunk that is not there reads as zeros.
            reads = [samples.start // self.plan.rows_per_read for samples in self.plan.reads(task)]
            return [
                ("outcome_gram", (task.stripe, 0, 0)),
                *(
                    ("row_multipliers", (read, part))
                    for read in reads
                    for part in self._multiplier_parts
                ),
                *(("outcome_planes", (0, read)) for read in reads),
            ]
        results: list[tuple[str, tuple[int, ...]]] = [
            (f"gram/{task.block}", (task.row_group, task.row_tile, task.column_tile))
        ]
        if task.on_diagonal:
            results.append((f"cross/{task.block}", (task.row_group, task.row_tile, 0)))
        return results


def _replaced(name: str, where: Location) -> InputError:
    return InputError(
        f"the {name} store was replaced",
        where=str(where),
        remedy="Put back the one that the run began with, or use another --work-dir",
    )


def _intact(array: Array, index: tuple[int, ...]) -> bool:
    """Whether a chunk passes its checksum; one that does not is removed."""
    selection = tuple(
        slice(i * size, (i + 1) * size) for i, size in zip(index, array.chunks, strict=True)
    )
    try:
        read_block(array, selection)
    except DamagedChunk:
        drop_chunk(array, index)
        return False
    return True
