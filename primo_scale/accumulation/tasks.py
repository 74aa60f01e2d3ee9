"""Tasks of an accumulation: read people from the stores, multiply, and commit one result.

A task consists of a few indices of the plan. Workers read inputs from the stores and write results
to them, so that no data about people passes through the scheduler. Neither do the values in an
error: an exception of a worker is logged there, pickled to the scheduler with its causes, and
logged by every process that receives it. Zarr's error for a damaged chunk contains both checksums,
one of them of private integers; other errors contain shapes or values. A task therefore raises a
new exception in place of the original. A path in it is one on the worker's machine, so the worker
records its host and whether the path exists there, and the command names both.
"""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np

from primo_scale.accumulation.clipping_rules import ClippingRule
from primo_scale.accumulation.columns import (
    Columns,
    PeopleOfRead,
    contributions,
    row_norms,
    subtract_scores,
)
from primo_scale.accumulation.partials import Address, Partials
from primo_scale.accumulation.plan import RowTask, Task, TileTask, length
from primo_scale.errors import OnWorker, OtherVersion, PrimoError, anticipated
from primo_scale.genotypes.own_directions import OwnDirections
from primo_scale.genotypes.packings import PackedBytes
from primo_scale.kernels.product_kernels import choose_kernel
from primo_scale.kernels.products import (
    LARGEST_BYTE,
    GatheredSum,
    Int8,
    Int16,
    Int64,
    ProductSum,
    byte_planes,
    from_byte_planes,
    mirrored,
    with_ones,
)
from primo_scale.kernels.rows import UNCLIPPED
from primo_scale.storage.files import keep_files_private
from primo_scale.storage.tiles import read_ahead
from primo_scale.version import __version__

_PACKAGE = Path(__file__).parents[1]


def run_task(address: Address, task: Task) -> None:
    """Compute and commit one task on a worker, unless its results exist.

    Dask repeats a task if its worker dies before the scheduler knows that the task is done. A
    repeated task computes the same bytes. A worker with another version of primo_scale than the
    command computes nothing. An error is free of private values.
    """
    with _Contained() as contained:
        partials = _open_partials(address)
        if not partials.is_committed(task):
            compute_task(partials, task, lambda: None)
    if contained.failure is not None:
        raise contained.failure


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
    gram = ProductSum(kernel, (plan.n_planes, plan.n_planes), LARGEST_BYTE**2)
    reads = list(plan.reads(task))
    for samples, rows in zip(reads, read_ahead(outcomes.read_rows, reads), strict=True):
        check()
        multipliers, rows = clipped(samples, rows)
        multipliers[outcomes.held_out(samples)] = 0  # their rows of outcomes are zero already
        planes = byte_planes(rows, plan.n_low_bytes)
        partials.commit_read(samples, multipliers, planes)
        with_constant = with_ones(planes)
        gram.add(with_constant, with_constant)
    planes_by_outcomes = from_byte_planes(mirrored(gram.total()), q)
    partials.commit_rows(task, from_byte_planes(planes_by_outcomes.T, q))


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
    cross = ProductSum(kernel, (plan.n_planes, columns.height), partials.max_code * LARGEST_BYTE)

    def read(samples: slice) -> tuple[PackedBytes, Int8, PeopleOfRead]:
        planes = with_ones(partials.outcome_planes(samples))
        return columns.read(samples), planes, PeopleOfRead.read(partials, task.blocks, samples)

    for packed, outcomes, people in read_ahead(read, plan.reads(task)):
        check()
        codes = columns.decode(packed, people.everybody)
        cross.add(outcomes, codes)
        if people.sampled is not None:
            codes = columns.decode(packed, people)
        for gram, part in zip(grams, parts, strict=True):
            of_block = codes[part]
            gram.add(of_block, of_block)
    summed = cross.total().T
    for tile, part in zip(tiles, columns.parts, strict=True):
        products = from_byte_planes(summed[part], plan.layout.n_outcomes)
        directions = partials.components
        if isinstance(directions, OwnDirections):  # each has a phenotype of its own
            owners = directions.owners_of(tile.block)
            products = np.take_along_axis(products, owners[:, None], axis=1)
        partials.commit_cross(tile, products)
    for tile, gram in zip(tiles, grams, strict=bool(grams)):
        partials.commit_tile(tile, mirrored(gram.total()))


def _run_beside_diagonal(partials: Partials, task: TileTask, check: Callable[[], None]) -> None:
    """Sum one tile of X'X off the diagonal."""
    genotypes = partials.inputs.open_genotypes()
    left = Columns(partials, genotypes, [replace(task, column_tile=task.row_tile)])
    right = Columns(partials, genotypes, [replace(task, row_tile=task.column_tile)])
    gram = _gram_sum(partials, (left.height, right.height))

    def read(samples: slice) -> tuple[PackedBytes, PackedBytes, PeopleOfRead]:
        people = PeopleOfRead.read(partials, task.blocks, samples)
        return left.read(samples), right.read(samples), people

    for left_packed, right_packed, people in read_ahead(read, partials.plan.reads(task)):
        check()
        gram.add(left.decode(left_packed, people), right.decode(right_packed, people))
    partials.commit_tile(task, gram.total())


def _gram_sum(partials: Partials, shape: tuple[int, int]) -> ProductSum | GatheredSum:
    largest = partials.max_code
    kernel = choose_kernel(partials.kernel, largest)
    total = ProductSum(kernel, shape, largest**2)
    return total if partials.subsample is None else GatheredSum(total, partials.plan.rows_per_read)


@lru_cache(maxsize=4)
def _open_partials(address: Address) -> Partials:
    path, store_id, kernel, version = address
    refuse_other_version(version)
    keep_files_private()
    return Partials(path, store_id, kernel)


class _Contained:
    """Context manager that stores an exception of its block as `failure`, without private details.

    Raise the stored exception after the block, not inside an ``except`` clause, because a raised
    exception carries the exceptions that are being handled at that time.
    """

    failure: PrimoError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, Exception):  # no exception, or the process is being stopped
            return False
        self.failure = with_worker(_without_values(error))
        return True


def _without_values(error: Exception) -> PrimoError:
    found = anticipated(error)
    free_text = isinstance(error, OSError) and error.strerror is None
    if found is not None and not free_text:
        return type(found)(found.what, where=found.where, remedy=found.remedy)
    return PrimoError(
        f"a task failed: {type(error).__name__}",
        where=_code_location(error),
        remedy="Please report this line",
    )


def _code_location(error: Exception) -> str:
    """Return ``file:line`` of the innermost frame of this package in the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents]
    innermost = (ours or frames)[-1]
    return f"{Path(innermost.filename).name}:{innermost.lineno}"


def refuse_other_version(command: str) -> None:
    """Refuse to compute if this worker has another version of primo_scale than the command.

    Sums of another version could have another sensitivity than the proved one. The message names
    the host of the worker and both versions, and nothing private.
    """
    if command != __version__:
        raise OtherVersion(
            f"primo_scale is {__version__} there, and {command} where the command runs",
            where=f"worker on {socket.gethostname()}",
            remedy=f"Install primo_scale {command} for every worker, and start the workers again; "
            "the same command continues",
        )


def with_worker(error: PrimoError) -> PrimoError:
    """Record on an error of a task this worker's host, and whether the error's path exists here."""
    path = str(error.where)
    lacks_path = os.path.isabs(path) and not os.path.exists(path)
    error.on_worker = OnWorker(socket.gethostname(), lacks_path)
    return error


def naming_worker(error: PrimoError) -> PrimoError:
    """Return an error of a task that names the worker's host, unless that is this machine.

    The remedy for a path that exists for this process alone is to share it.
    """
    worker = error.on_worker
    if worker is None or isinstance(error, OtherVersion):  # which names the host itself
        return error
    facts = error.facts
    if worker.lacks_path and os.path.exists(str(error.where)):
        facts["remedy"] = (
            "The path exists for the command, and not for the worker. Workers need the same paths: "
            "mount the file system there, or use --object-store (cluster/README.md)"
        )
    elif worker.host == socket.gethostname():
        return error
    return type(error)(f"{error.what} on worker {worker.host}", **facts)
