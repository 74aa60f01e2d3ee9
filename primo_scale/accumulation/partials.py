"""Store of partial sums: the checkpoint of an accumulation, to which tasks commit their results.

The store belongs to one plan digest, which covers every input. A chunk is written by one task. A
chunk under its final name was written completely, and its checksum detects later damage. Chunks are
not flushed to the disk, because a flush takes as long as a small task; a chunk that a power failure
damages fails its checksum and is computed again.

Committed tasks are found by listing chunk names, which takes a second or two for 50,000 tasks on a
disk. Checksums are verified when chunks are read, and every chunk is read before the end. Only
after a failure does `Partials.drop_damaged` read all chunks.

Arrays lie under the random name of their store. A worker that still runs after its client and store
are gone can therefore not commit to the next store at the same path.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import starmap
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation import clipping_rules
from primo_scale.accumulation.plan import Plan, RowTask, Task, TileTask, plan_digest
from primo_scale.errors import DamagedChunk, InputError
from primo_scale.genotypes.coding import LARGEST_CODE, largest_block_norms, largest_code
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.kernels import AUTOMATIC
from primo_scale.kernels.products import UNCLIPPED, Int8, Int64
from primo_scale.machine import in_threads
from primo_scale.outcomes.store import OutcomeStore, open_outcome_store
from primo_scale.panel.components import LdComponents, open_components, open_directions
from primo_scale.storage import groups, resuming, stores
from primo_scale.storage.files import canonical_json, converted
from primo_scale.storage.groups import Array, ArrayLayout
from primo_scale.storage.locations import Location, parse_location
from primo_scale.version import __version__

KIND = "partial statistics"
Address = tuple[Location, str, str, str]
"""Location, random name and kernel of a store, and the version of primo_scale of the command."""
_Chunk = tuple[str, tuple[int, ...]]  # name of its array, and its position there
SUBSAMPLE = "in_subsample"
"""Name of the array of the members of a secret subsample."""
# Blocks whose row multipliers share a chunk: few files, and few unneeded values per read of a tile.
MULTIPLIER_COLUMNS = 16
_WHOLE = (slice(None), slice(None))


@dataclass(frozen=True)
class Inputs:
    """Inputs of the tasks: finished stores that every worker can access, rule and subsample.

    X'X is summed over a `subsample` of so many people, drawn when the store of partial sums is
    created, or over all if it is None. `holds_out` tells whether the outcome store holds people out
    of all sums. The digests of the stores and of the coding are private, and used only for the plan
    digest.
    """

    genotypes: Location
    outcomes: Location
    clipping_rule: clipping_rules.ClippingRule | None  # None without clipping
    subsample: int | None
    digests: dict[str, str]
    holds_out: bool = False
    components: Location | None = None  # of LD components or directions, or None without them

    def open_genotypes(self) -> GenotypeStore:
        """Open the genotype store, which must match its digest."""
        store = open_genotype_store(self.genotypes)
        self._refuse_replaced("genotypes", store.identity_digest, self.genotypes)
        return store

    def open_outcomes(self) -> OutcomeStore:
        """Open the outcome store, which must match its digest."""
        store = open_outcome_store(self.outcomes)
        self._refuse_replaced("outcomes", store.content_digest, self.outcomes)
        return store

    @property
    def is_second_round(self) -> bool:
        """Whether every phenotype has columns of its own."""
        rule = self.clipping_rule
        return rule is not None and rule.long_records == "contributions"

    def open_components(self) -> LdComponents | None:
        """Open the store of LD components or directions, if any; it must match its digest."""
        if self.components is None:
            return None
        opened = open_directions if self.is_second_round else open_components
        components = opened(self.components)
        self._refuse_replaced("components", components.digest, self.components)
        return components

    def _refuse_replaced(self, name: str, digest: str, where: Location) -> None:
        if digest != self.digests[name]:
            raise InputError(
                f"the store of {name} was replaced",
                where=str(where),
                remedy="Restore the original store, or use another --work-dir",
            )

    def to_json(self) -> dict[str, Any]:
        """Return all parameters that determine the sums; locations do not."""
        return {
            "row_rule": None if self.clipping_rule is None else asdict(self.clipping_rule),
            "subsample": self.subsample,
            "holds_out": self.holds_out,
            **self.digests,
        }


@dataclass(frozen=True)
class Partials:
    """Open store of partial sums, at a location that every worker can access.

    By the random name `store_id` a worker detects that another store took its location. The sums do
    not depend on the kernel (`primo_scale.kernels.product_kernels`).
    """

    path: Location
    store_id: str
    kernel: str = AUTOMATIC

    @property
    def address(self) -> Address:
        """Description with which a worker of the same version of primo_scale opens the store."""
        return self.path.resolve(), self.store_id, self.kernel, __version__

    @cached_property
    def max_code(self) -> int:
        """Largest magnitude of a genotype code or component."""
        return LARGEST_CODE if self.components is not None else largest_code(self.code_table)

    @property
    def attributes(self) -> dict[str, Any]:
        """Current attributes; only the locations and chunks of the inputs can change."""
        attributes = groups.attributes_of(groups.open_group(self.path, KIND))
        if attributes["store_id"] != self.store_id:
            raise InputError("the store of partial sums was replaced", where=str(self.path))
        return attributes

    @cached_property
    def plan(self) -> Plan:
        """Accumulation plan of the partial sums."""
        return Plan.from_json(self.attributes["plan"])

    @property
    def inputs(self) -> Inputs:
        """Inputs of the tasks at their current locations.

        They are read again for every task, since a later run may move them while a worker lives on.
        """
        attributes = self.attributes
        stored = dict(attributes["inputs"])
        return Inputs(
            clipping_rule=converted(stored.pop("row_rule"), clipping_rules.ClippingRule | None),
            subsample=stored.pop("subsample"),
            holds_out=stored.pop("holds_out"),
            digests=stored,
            **{name: parse_location(path) for name, path in attributes["paths"].items()},
        )

    @cached_property
    def components(self) -> LdComponents | None:
        """LD components or directions that take the place of the variants, or None."""
        return self.inputs.open_components()

    @cached_property
    def clipping_rule(self) -> clipping_rules.ClippingRule | None:
        """Clipping rule of records, or None without clipping."""
        return self.inputs.clipping_rule

    @cached_property
    def subsample(self) -> int | None:
        """Number of people that X'X is summed over; None stands for all."""
        return self.inputs.subsample

    @property
    def multiplier_columns(self) -> int:
        """Number of row multipliers per person."""
        return clipping_rules.multiplier_columns(self.clipping_rule)

    @cached_property
    def code_table(self) -> Int8:
        """Public code of each 2-bit value for each variant, shape (d, 4)."""
        return groups.read_block(self.array("code_table"))

    def array(self, name: str) -> Array:
        """Return an array of the store, which is opened once."""
        if name not in self._opened:
            self._opened[name] = groups.array_of(self._group, f"{self.store_id}/{name}")
        return self._opened[name]

    @cached_property
    def _group(self) -> groups.Group:
        return groups.open_group(self.path, KIND, complete=False)

    @cached_property
    def _opened(self) -> dict[str, Array]:
        return {}

    def outcome_planes(self, samples: slice) -> Int8:
        """Return clipped outcome rows as `kernels.products.byte_planes`, shape (planes, people)."""
        return groups.read_block(self.array("outcome_planes"), (slice(None), samples))

    @cached_property
    def may_clip(self) -> bool:
        """Whether any genotypes can exceed their bounds, which is public."""
        rule = self.clipping_rule
        if rule is None or self.components is not None:
            return rule is not None
        return rule.needs_norms(largest_block_norms(self.code_table, self.plan.layout.boundaries))

    @cached_property
    def scales_rows(self) -> bool:
        """Whether tiles need the multipliers of rows: some may be too long, or are held out."""
        return self.may_clip or self.inputs.holds_out

    @property
    def _multiplier_parts(self) -> range:
        """Numbers of the chunks with the multipliers of a read."""
        return range(-(-self.multiplier_columns // MULTIPLIER_COLUMNS))

    def block_multipliers(self, block: int, samples: slice) -> Int64:
        """Return each record's multiplier in one block, in units of 2^-31, shape (people,)."""
        if not self.scales_rows:
            return np.full(samples.stop - samples.start, UNCLIPPED, dtype=np.int64)
        column = min(block, self.multiplier_columns - 1)
        chosen = (samples, slice(column, column + 1))
        return groups.read_block(self.array("row_multipliers"), chosen)[:, 0].astype(np.int64)

    def sampled(self, samples: slice) -> npt.NDArray[np.intp] | None:
        """Return the positions among `samples` of the subsample, or None without a subsample."""
        if self.subsample is None:
            return None
        return np.flatnonzero(groups.read_block(self.array(SUBSAMPLE), (samples,)))

    def commit_read(self, samples: slice, multipliers: Int64, planes: Int8) -> None:
        """Commit the multipliers and the clipped outcome rows of one read of a stripe."""
        read = samples.start // self.plan.rows_per_read
        for part in self._multiplier_parts:
            columns = slice(part * MULTIPLIER_COLUMNS, (part + 1) * MULTIPLIER_COLUMNS)
            chunk = multipliers[:, columns].astype(np.uint32)
            groups.commit_chunk(self.array("row_multipliers"), (read, part), chunk)
        groups.commit_chunk(self.array("outcome_planes"), (0, read), planes)

    def commit_rows(self, task: RowTask, outcome_gram: Int64) -> None:
        """Commit Z'Z of a row task, after all its reads."""
        groups.commit_chunk(self.array("outcome_gram"), (task.stripe, 0, 0), outcome_gram[None])

    def commit_cross(self, task: TileTask, cross: Int64) -> None:
        """Commit the rows of X'Z of one tile on the diagonal; this precedes `commit_tile`."""
        name, index = _cross_chunk(task)
        groups.commit_chunk(self.array(name), index, cross[None])

    def commit_tile(self, task: TileTask, gram: npt.NDArray[np.signedinteger[Any]]) -> None:
        """Commit one tile of X'X."""
        name, index = _gram_chunk(task)
        groups.commit_chunk(self.array(name), index, gram[None])

    def committed(self) -> set[Task]:
        """Return the tasks whose chunks all exist."""
        stored = groups.stored_chunks(self.path / self.store_id)
        return {
            task
            for task in self.plan.tasks()
            if stored.issuperset(starmap(groups.chunk_name, self._results(task)))
        }

    def is_committed(self, task: Task) -> bool:
        """Return whether all chunks of one task exist."""
        store, names = stores.store_at(self.path), starmap(groups.chunk_name, self._results(task))
        return all(store.holds(f"{self.store_id}/{name}") for name in names)

    def drop_damaged(self) -> int:
        """Delete the committed chunks that fail their checksums, and return their number."""
        stored = groups.stored_chunks(self.path / self.store_id)
        results = {result for task in self.plan.tasks() for result in self._results(task)}
        there = [result for result in results if groups.chunk_name(*result) in stored]
        intact = in_threads(lambda result: _kept_if_intact(self.array(result[0]), result[1]), there)
        return intact.count(False)

    def _results(self, task: Task) -> Iterator[_Chunk]:
        """Yield the chunks that a task commits."""
        if isinstance(task, TileTask):
            yield from map(_gram_chunk, task.tiles if self.plan.sums_gram else ())
            yield from map(_cross_chunk, task.tiles if task.on_diagonal else ())
            return
        yield "outcome_gram", (task.stripe, 0, 0)
        for samples in self.plan.reads(task):  # tile tasks read these
            read = samples.start // self.plan.rows_per_read
            yield "outcome_planes", (0, read)
            yield from (("row_multipliers", (read, part)) for part in self._multiplier_parts)


def _gram_chunk(tile: TileTask) -> _Chunk:
    return f"gram/{tile.block}", (tile.row_group, tile.row_tile, tile.column_tile)


def _cross_chunk(tile: TileTask) -> _Chunk:
    return f"cross/{tile.block}", (tile.row_group, tile.row_tile, 0)


def _kept_if_intact(array: Array, index: tuple[int, ...]) -> bool:
    """Return whether a chunk passes its checksum, and delete it if it does not."""
    try:
        groups.read_chunk(array, index)
    except DamagedChunk:
        groups.drop_chunk(array, index)
        return False
    return True


def open_partials(
    path: Location, plan: Plan, inputs: Inputs, code_table: Int8, kernel: str = AUTOMATIC
) -> Partials:
    """Open the store of partial sums of a plan, or create it; one of another plan is refused.

    Genotypes and outcomes may have moved since the store was created; tasks read them at the
    locations in `inputs`. `code_table` is the public code of each 2-bit value for each variant,
    shape (d, 4).
    """
    parameters, names = inputs.to_json(), ("genotypes", "outcomes", "components")
    places = {name: getattr(inputs, name) for name in names}
    header = {
        "plan": plan.to_json(),
        "inputs": parameters,
        "plan_digest": plan_digest(plan, parameters),
        # These may change without an effect on the sums.
        "paths": {
            name: str(place.resolve()) for name, place in places.items() if place is not None
        },
    }
    if groups.is_complete(path, KIND):
        group = groups.open_group(path, KIND, complete=False)
        attributes = groups.attributes_of(group)
        if attributes["plan_digest"] != header["plan_digest"]:
            differences = ", ".join(_differences(attributes, header)) or "another plan"
            raise resuming.of_other_request(path, value=differences)
        if attributes["paths"] != header["paths"]:
            groups.mark_complete(group, {"paths": header["paths"]})
        partials = Partials(path, str(attributes["store_id"]), kernel)
        # A damaged one is repaired.
        groups.write_block(partials.array("code_table"), _WHOLE, code_table)
        return partials
    return Partials(path, _create(path, plan, inputs, code_table, header), kernel)


def _create(path: Location, plan: Plan, inputs: Inputs, codes: Int8, header: dict[str, Any]) -> str:
    """Create the empty store and return its random name."""
    store_id = uuid.uuid4().hex
    group = groups.create_group(path, KIND, {})
    largest = largest_code(codes) if inputs.components is None else LARGEST_CODE
    arrays = partial_arrays(
        plan, len(codes), clipping_rules.multiplier_columns(inputs.clipping_rule), largest
    )
    groups.create_arrays(group, {f"{store_id}/{name}": layout for name, layout in arrays.items()})
    groups.write_block(groups.array_of(group, f"{store_id}/code_table"), _WHOLE, codes)
    if inputs.subsample is not None:
        _draw_subsample(group, f"{store_id}/{SUBSAMPLE}", plan.n_samples, inputs.subsample)
    # Chunks that a power failure damages are computed again, but metadata cannot be.
    groups.flush(group)
    groups.mark_complete(group, {"store_id": store_id, **header})
    return store_id


def partial_arrays(
    plan: Plan, n_variants: int, columns: int, largest: int
) -> dict[str, ArrayLayout]:
    """Return the layout of every array of a store, except for a subsample, by name.

    A person has as many row multipliers as `columns`, and codes have a magnitude up to `largest`.
    """
    layout, q, planes = plan.layout, plan.layout.n_outcomes, plan.n_planes - 1
    row_groups, n, rows = plan.n_row_groups, plan.n_samples, plan.rows_per_read
    multipliers = (rows, min(columns, MULTIPLIER_COLUMNS))
    arrays = {
        "code_table": ArrayLayout((n_variants, 4), (65536, 4), np.int8),
        "row_multipliers": ArrayLayout((n, columns), multipliers, np.uint32),
        "outcome_planes": ArrayLayout((planes, n), (planes, rows), np.int8),
        "outcome_gram": ArrayLayout((plan.n_stripes, q, q), (1, q, q), np.int64),
    }
    kind = plan.gram_type(largest)
    for block, size in enumerate(layout.sizes):
        side = min(plan.tile, size)
        if plan.sums_gram:
            arrays[f"gram/{block}"] = ArrayLayout((row_groups, size, size), (1, side, side), kind)
        width = q if plan.sums_gram else 1  # a direction has one phenotype
        arrays[f"cross/{block}"] = ArrayLayout(
            (row_groups, size, width), (1, side, width), np.int64
        )
    return arrays


def partial_bytes(plan: Plan, n_variants: int, columns: int, largest: int) -> int:
    """Return the bytes that tasks commit, which are removed when the statistics are finished."""
    total = plan.n_samples  # of a list of the subsample
    for name, layout in partial_arrays(plan, n_variants, columns, largest).items():
        tiles = None
        if name.startswith("gram/"):  # of which the tiles on and above the diagonal are summed
            side = plan.n_tiles(int(name.removeprefix("gram/")))
            tiles = plan.n_row_groups * side * (side + 1) // 2
        total += groups.array_bytes(layout, chunks=tiles)
    return total


def _draw_subsample(group: groups.Group, name: str, n_samples: int, size: int) -> None:
    """Draw a subsample of people uniformly without replacement, and store its members.

    Privacy amplification requires a secret subsample. It is drawn once for each store, from the
    operating system's entropy, and is deleted with the store.
    """
    chosen = np.zeros(n_samples, dtype=np.uint8)
    chosen[random.SystemRandom().sample(range(n_samples), size)] = 1
    groups.write_array(group, name, chosen, (min(n_samples, 1 << 20),))


def _differences(attributes: dict[str, Any], header: dict[str, Any]) -> list[str]:
    """Return the names of attributes that differ; their values are private."""
    stored, asked = ({**each["plan"], **each["inputs"]} for each in (attributes, header))
    return sorted(
        name.replace("_", " ")
        for name in stored.keys() | asked.keys()
        if canonical_json(stored.get(name)) != canonical_json(asked.get(name))
    )
