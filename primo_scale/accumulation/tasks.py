"""Tasks of an accumulation: read people from the stores, multiply, and commit one result.

A task consists of a few indices of the plan. Workers read inputs from the stores and write results
to them, so that no data about people passes through the scheduler. Neither do the values in an
error: an exception of a worker is logged there, pickled to the scheduler with its causes, and
logged by every process that receives it. Zarr's error for a damaged chunk contains both checksums,
one of them of private integers; other errors contain shapes or values. A task therefore raises a
new exception in place of the original, which names the worker's host.
"""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.clipping_rules import ClippingRule
from primo_scale.accumulation.partials import Address, Partials
from primo_scale.accumulation.plan import RowTask, Task, TileTask, length
from primo_scale.errors import InputError, PrimoError, anticipated
from primo_scale.genotypes.store import GenotypeStore, PackedBytes
from primo_scale.kernels import products
from primo_scale.kernels.product_kernels import choose_kernel
from primo_scale.kernels.products import LARGEST_BYTE, UNCLIPPED, Int8, Int16, Int64
from primo_scale.machine import read_ahead
from primo_scale.outcomes.coding import LARGEST_VALUE
from primo_scale.panel.components import OwnDirections
from primo_scale.ranges import pieces, runs_of
from primo_scale.storage.files import keep_files_private
from primo_scale.version import __version__

_PACKAGE = Path(__file__).parents[1]
# Multipliers of the people of a read in each block, and positions of the subsample or None.
People = tuple[list[Int64], npt.NDArray[np.intp] | None]


def run_task(address: Address, task: Task) -> None:
    """Compute and commit one task on a worker, unless its results exist.

    Dask repeats a task if its worker dies before the scheduler knows that the task is done. A
    repeated task computes the same bytes. A worker with another version of primo_scale than the
    command computes nothing. An error is free of private values.
    """
    failure = None
    try:
        partials = _open_partials(address)
        if not partials.is_committed(task):
            compute_task(partials, task, lambda: None)
    except Exception as error:  # noqa: BLE001
        failure = _without_values(error)
    # Not raised inside the clause, because it would carry the exception that is handled there.
    if failure is not None:
        raise failure


def compute_task(partials: Partials, task: Task, check: Callable[[], None]) -> None:
    """Compute and commit one task; `check` is called before each read, and raises to stop it."""
    if isinstance(task, RowTask):
        _run_rows(partials, task, check)
    elif task.on_diagonal:
        _run_on_diagonal(partials, task, check)
    else:
        _run_beside_diagonal(partials, task, check)


def _run_rows(partials: Partials, task: RowTask, check: Callable[[], None]) -> None:
    """Clip the records of one stripe, and sum their Z'Z."""
    plan, inputs, rule = partials.plan, partials.inputs, partials.clipping_rule
    clipped = _clipping(partials, rule)
    outcomes = inputs.open_outcomes()
    q = plan.layout.n_outcomes
    kernel = choose_kernel(partials.kernel, LARGEST_BYTE)
    gram = products.ProductSum(kernel, (plan.n_planes, plan.n_planes), LARGEST_BYTE**2)
    reads = list(plan.reads(task))
    for samples, rows in zip(reads, read_ahead(outcomes.read_rows, reads), strict=True):
        check()
        multipliers, clipped_rows = clipped(samples, rows)
        multipliers[outcomes.held_out(samples)] = 0  # their rows of outcomes are zero already
        planes = products.byte_planes(clipped_rows, plan.n_low_bytes)
        partials.commit_read(samples, multipliers, planes)
        if rule is not None and rule.exact_phenotype_gram:
            rows = products.clip_rows(
                rows, slice(plan.layout.n_fixed, q), rule.phenotype_norm, plan.phenotype_step
            )
            planes = products.byte_planes(rows, plan.n_low_bytes)
        with_constant = products.with_ones(planes)
        gram.add(with_constant, with_constant)
    planes_by_outcomes = products.from_byte_planes(products.mirrored(gram.total()), q)
    partials.commit_rows(task, products.from_byte_planes(planes_by_outcomes.T, q))


def _clipping(
    partials: Partials, rule: ClippingRule | None
) -> Callable[[slice, Int16], tuple[Int64, Int16]]:
    """Return a function from people and their outcomes to multipliers and clipped outcomes."""
    layout, columns = partials.plan.layout, partials.multiplier_columns
    if rule is not None and partials.inputs.is_second_round:
        seen = contributions(partials)

        def of_residuals(samples: slice, rows: Int16) -> tuple[Int64, Int16]:
            """Clip what the first round leaves of the phenotypes."""
            norms, scores = seen(samples)
            residuals = subtract_scores(rows[:, -layout.n_phenotypes :], scores)
            unclipped = np.full((len(rows), columns), UNCLIPPED, dtype=np.int64)
            return unclipped, rule.clip_contributions(residuals, norms)

        return of_residuals
    norms_of = row_norms(partials)

    def of_records(samples: slice, rows: Int16) -> tuple[Int64, Int16]:
        """Clip whole records, or by another rule for them."""
        if rule is None:
            return np.full((len(rows), columns), UNCLIPPED, dtype=np.int64), rows
        norms = norms_of(samples)
        multipliers, record = rule.shrink(norms)
        step = partials.plan.phenotype_step
        rows = rule.clip_outcomes(rows, layout.n_fixed, record, norms, phenotype_step=step)
        return multipliers, rows

    return of_records


def _run_on_diagonal(partials: Partials, task: TileTask, check: Callable[[], None]) -> None:
    """Sum the tiles of X'X of a task on the diagonal, and the matching rows of X'Z."""
    plan, tiles = partials.plan, task.tiles
    columns = Columns(partials, partials.inputs.open_genotypes(), tiles)
    parts = columns.parts if plan.sums_gram else []
    grams = [_gram_sum(partials, (length(part),) * 2) for part in parts]
    kernel = choose_kernel(partials.kernel, LARGEST_BYTE)
    # A kernel may have to copy its left operand; the planes are often the smaller one.
    cross = products.ProductSum(
        kernel, (plan.n_planes, columns.height), partials.max_code * LARGEST_BYTE
    )

    def read(samples: slice) -> tuple[PackedBytes, Int8, People]:
        planes = products.with_ones(partials.outcome_planes(samples))
        return columns.read(samples), planes, _people(partials, task.blocks, samples)

    for packed, outcomes, people in read_ahead(read, plan.reads(task)):
        check()
        multipliers, sampled = people
        codes = columns.decode(packed, (multipliers, None))
        cross.add(outcomes, codes)
        if sampled is not None:
            codes = columns.decode(packed, people)
        for gram, part in zip(grams, parts, strict=True):
            of_block = codes[part]
            gram.add(of_block, of_block)
    summed = cross.total().T
    for tile, part in zip(tiles, columns.parts, strict=True):
        of_tile = products.from_byte_planes(summed[part], plan.layout.n_outcomes)
        directions = partials.components
        if isinstance(directions, OwnDirections):  # each has a phenotype of its own
            of_tile = np.take_along_axis(of_tile, directions.owners_of(tile.block)[:, None], axis=1)
        partials.commit_cross(tile, of_tile)
    for tile, gram in zip(tiles, grams, strict=bool(grams)):
        partials.commit_tile(tile, products.mirrored(gram.total()))


def _run_beside_diagonal(partials: Partials, task: TileTask, check: Callable[[], None]) -> None:
    """Sum one tile of X'X off the diagonal."""
    genotypes = partials.inputs.open_genotypes()
    left = Columns(partials, genotypes, [replace(task, column_tile=task.row_tile)])
    right = Columns(partials, genotypes, [replace(task, row_tile=task.column_tile)])
    gram = _gram_sum(partials, (left.height, right.height))

    def read(samples: slice) -> tuple[PackedBytes, PackedBytes, People]:
        return left.read(samples), right.read(samples), _people(partials, task.blocks, samples)

    for left_packed, right_packed, people in read_ahead(read, partials.plan.reads(task)):
        check()
        gram.add(left.decode(left_packed, people), right.decode(right_packed, people))
    partials.commit_tile(task, gram.total())


def _gram_sum(partials: Partials, shape: tuple[int, int]) -> products.ProductSum:
    largest = partials.max_code
    return products.ProductSum(choose_kernel(partials.kernel, largest), shape, largest**2)


@lru_cache(maxsize=4)
def _open_partials(address: Address) -> Partials:
    """Open the store of a command of this version.

    Sums of another version could have another sensitivity than the proved one.
    """
    path, store_id, kernel, version = address
    if version != __version__:
        raise InputError(
            f"primo_scale is {__version__} there, and {version} where the command runs",
            where="worker",
            remedy=f"Install primo_scale {version} for every worker, and start the workers again; "
            "the same command continues",
        )
    keep_files_private()
    return Partials(path, store_id, kernel)


def _without_values(error: Exception) -> PrimoError:
    """Return an error that names this host and contains no private details."""
    host = f"on worker {socket.gethostname()}"
    found = anticipated(error)
    if found is None or (isinstance(error, OSError) and error.strerror is None):  # free text
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents]
        innermost = (ours or frames)[-1]
        return PrimoError(
            f"a task failed {host}: {type(error).__name__}",
            where=f"{Path(innermost.filename).name}:{innermost.lineno}",
            remedy="Please report this line",
        )
    remedy = found.remedy
    if os.path.isabs(str(found.where)) and not os.path.exists(str(found.where)):
        remedy = (
            "The path does not exist for the worker. Workers need the paths of the command: mount "
            "the file system there, or use --object-store (cluster/README.md)"
        )
    return type(found)(f"{found.what} {host}", where=found.where, remedy=remedy)


# ---- Columns of X --------------------------------------------------------------------------------


def _people(partials: Partials, blocks: range, samples: slice) -> People:
    """Return the multipliers of the people of a read in each of some blocks, and the subsample.

    Multipliers are in units of 2^-31. The subsample is the positions in the read, None for all.
    """
    multipliers = [partials.block_multipliers(block, samples) for block in blocks]
    return multipliers, partials.sampled(samples)


class Columns:
    """Columns of one tile of each of some consecutive LD blocks, for one read at a time.

    The memory is reused: every call of a method overwrites the columns of the call before.
    """

    def __init__(
        self, partials: Partials, genotypes: GenotypeStore, tiles: Sequence[TileTask]
    ) -> None:
        plan, components = partials.plan, partials.components
        self._store, self._packing, self._table = genotypes, genotypes.packing, partials.code_table
        heights = [length(plan.inside(tile.block, tile.row_tile)) for tile in tiles]
        self.parts = [slice(*edges) for edges in pairwise(accumulate(heights, initial=0))]
        self._memory = products.spread_rows(sum(heights), plan.rows_per_read)
        # Map from the variants of each block to its components, or None if variants are columns.
        self._maps: list[products.LinearMap | None]
        if components is None:
            self._variants = [plan.variants(tile.block, tile.row_tile) for tile in tiles]
            self._maps = [None] * len(tiles)
        else:  # a block is one tile
            self._variants = [components.variants(tile.block) for tile in tiles]
            self._maps = [components.map_of(tile.block) for tile in tiles]
            for mapping, height in zip(self._maps, heights, strict=True):
                if mapping is not None and len(mapping.matrix) != height:
                    raise ValueError("the columns of a map are one tile")
            self._decoded = products.spread_rows(
                max(map(length, self._variants)), plan.rows_per_read
            )
            self._kernel = choose_kernel(partials.kernel, LARGEST_BYTE)

    @property
    def height(self) -> int:
        """Number of columns of X in all."""
        return len(self._memory)

    def read(self, samples: slice) -> PackedBytes:
        """Return the packed genotypes of one read."""
        variants = slice(self._variants[0].start, self._variants[-1].stop)
        return self._store.read_packed(variants, samples)

    def decode(self, packed: PackedBytes, people: People) -> Int8:
        """Return the clipped columns of the people, shape (height, people)."""
        multipliers, sampled = people
        if sampled is not None:
            packed = self._packing.select(packed, sampled)
            multipliers = [multiplier[sampled] for multiplier in multipliers]
        codes = self.unclipped(packed, len(multipliers[0]))
        for part, multiplier in zip(self.parts, multipliers, strict=True):
            if (multiplier != UNCLIPPED).any():
                products.scale_columns(codes[part], multiplier)
        return codes

    def unclipped(self, packed: PackedBytes, n_people: int) -> Int8:
        """Return the columns of the people before clipping, shape (height, people)."""
        for _ in self.by_tile(packed, n_people):
            pass
        return self._memory[:, :n_people]

    def by_tile(self, packed: PackedBytes, n_people: int) -> Iterator[tuple[Int8, Int8]]:
        """Yield the codes of the people in every tile, and its columns, before clipping."""
        first = self._variants[0].start
        for variants, part, mapping in zip(self._variants, self.parts, self._maps, strict=True):
            here = packed[variants.start - first : variants.stop - first]
            target = self._memory[part] if mapping is None else self._decoded
            codes = self._packing.decode_into(target, here, self._table[variants])[:, :n_people]
            if mapping is not None:
                mapping.apply_into(self._memory[part], codes, self._kernel)
            yield codes, self._memory[part][:, :n_people]


def contributions(partials: Partials) -> Callable[[slice], tuple[Int64, Int64]]:
    """Return a function from people to ``||x_k||^2`` and scores of every phenotype, (people, l)."""
    directions, plan = partials.components, partials.plan
    if not isinstance(directions, OwnDirections):
        raise TypeError("a second round has directions of every phenotype's own")
    genotypes = partials.inputs.open_genotypes()
    kernel = choose_kernel(partials.kernel, LARGEST_BYTE)
    n_phenotypes, groups = directions.n_phenotypes, list(plan.shared_blocks())

    def of_people(samples: slice) -> tuple[Int64, Int64]:
        """Read the genotypes of people once, window by window."""
        people = samples.stop - samples.start
        norms, scores = np.zeros((2, n_phenotypes, people), dtype=np.int64)
        for windows in groups:
            tiles = [TileTask(0, window, 0, 0) for window in windows]
            columns = Columns(partials, genotypes, tiles)
            found = columns.by_tile(columns.read(samples), people)
            for window, (codes, outputs) in zip(windows, found, strict=True):
                directions.scores_of(window).add_into(scores, codes, kernel)
                owners = directions.owners_of(window)
                for start, stop in runs_of(owners):
                    products.add_squared_outputs(norms[owners[start]], outputs[start:stop])
        return norms.T, scores.T

    return of_people


def subtract_scores(phenotypes: Int16, scores: Int64) -> Int16:
    """Return phenotypes less what the first round predicts of them; a missing one remains 0."""
    residuals = np.clip(phenotypes - scores, -LARGEST_VALUE, LARGEST_VALUE)
    return np.where(phenotypes == 0, 0, residuals).astype(np.int16)


def row_norms(partials: Partials) -> Callable[[slice], Int64]:
    """Return a function from people to their squared norms in every block, (people, blocks).

    The norms are zero if no record can be too long.
    """
    if not partials.may_clip:
        n_blocks = partials.plan.layout.n_blocks
        return lambda samples: np.zeros((samples.stop - samples.start, n_blocks), dtype=np.int64)
    norms = _norms_of_variants if partials.components is None else _norms_of_components
    return partial(norms, partials, partials.inputs.open_genotypes())


def _norms_of_variants(partials: Partials, genotypes: GenotypeStore, samples: slice) -> Int64:
    layout, table, packing = partials.plan.layout, partials.code_table, genotypes.packing
    norms = np.zeros((layout.n_blocks, samples.stop - samples.start), dtype=np.int64)
    block_of = np.repeat(np.arange(layout.n_blocks), layout.sizes)  # block of each variant
    passes = list(pieces(layout.n_variants, packing.chunk_shape[0]))
    reads = read_ahead(partial(genotypes.read_packed, samples=samples), passes)
    for variants, packed in zip(passes, reads, strict=True):
        blocks, codes = block_of[variants], table[variants]
        for start, stop in runs_of(blocks):
            here = slice(start, stop)
            packing.add_squared_norms(norms[blocks[start]], packed[here], codes[here])
    return norms.T


def _norms_of_components(partials: Partials, genotypes: GenotypeStore, samples: slice) -> Int64:
    n_blocks, n_people = partials.plan.layout.n_blocks, samples.stop - samples.start
    norms = np.zeros((n_blocks, n_people), dtype=np.int64)
    for block in range(n_blocks):
        columns = Columns(partials, genotypes, [TileTask(0, block, 0, 0)])
        outputs = columns.unclipped(columns.read(samples), n_people)
        products.add_squared_outputs(norms[block], outputs)
    return norms.T
