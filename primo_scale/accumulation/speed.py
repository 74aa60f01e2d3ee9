"""Predicted duration of an accumulation, from operation counts and measured rates.

The prediction serves the operator and is never part of a release. It assumes that every core is
like the current one and free for this run, and that the disk has the rate `STORE_RATE`.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from itertools import takewhile

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.accumulation.checkpoint import partial_bytes
from primo_scale.accumulation.plan import Plan, RowTask, Task
from primo_scale.accumulation.workload import Rates, Workload
from primo_scale.genotypes.packings import Packing
from primo_scale.kernels.product_kernels import choose_kernel
from primo_scale.kernels.products import LARGEST_BYTE, Int8, ProductKernel, ProductSum, spread_rows
from primo_scale.ranges import whole_multiple

STORE_RATE = 10**9
"""Assumed rate of reading and writing stores, including checksums, in bytes per second."""

# Wide enough for the tiles of every kernel, at a few milliseconds per measurement.
_ROWS, _PEOPLE, _COLUMNS = 512, 1024, 64
_REPEATS = 2
# Codes of two, missing, one and no copies of an allele of frequency 0.2 in a reference panel. Some
# kernels take longer for codes of a larger range.
_TYPICAL_CODES = np.array([45, 0, 17, -11], dtype=np.int8)
# Time to start and to stop workers (measured on two cores).
_START_SECONDS = 3.0
# Time to flush one chunk of the finished statistics to the disk (measured on a virtual disk).
_FLUSH_SECONDS = 0.02


def measure_rates(kernel: str, largest_code: int, packing: Packing) -> Rates:
    """Measure the seconds of each operation on one core of this machine, in tens of milliseconds.

    `kernel` is one of `primo_scale.kernels.NAMES`; codes have a magnitude up to `largest_code`.
    """
    genotypes = choose_kernel(kernel, largest_code)
    planes = choose_kernel(kernel, LARGEST_BYTE)
    packed = np.resize(np.arange(256, dtype=np.uint8), (_ROWS, packing.width(_PEOPLE)))
    table = np.tile(np.clip(_TYPICAL_CODES, -largest_code, largest_code), (_ROWS, 1))
    decode_into, add_squared_norms = packing.decode_into, packing.add_squared_norms
    left, right = (spread_rows(_ROWS, _PEOPLE) for _ in range(2))
    codes, others = decode_into(left, packed, table), decode_into(right, packed[::-1], table)
    square, oblong = _ROWS * _ROWS * _PEOPLE, _ROWS * _COLUMNS * _PEOPLE
    norms = np.zeros(_PEOPLE, dtype=np.int64)
    with threadpool_limits(1, user_api="blas"):  # as in a worker
        _product(genotypes, codes[:, :_COLUMNS], others[:, :_COLUMNS])
        _product(planes, codes[:, :_COLUMNS], others[:, :_COLUMNS])
        return Rates(
            diagonal=_seconds(lambda: _product(genotypes, codes, codes)) / square,
            beside=_seconds(lambda: _product(genotypes, codes, others)) / square,
            outcomes=_seconds(lambda: _product(planes, others[:_COLUMNS], codes)) / oblong,
            outcome_gram=_seconds(lambda: _product(planes, codes, codes)) / square,
            decoding=_seconds(lambda: decode_into(left, packed, table)) / (_ROWS * _PEOPLE),
            norms=_seconds(lambda: add_squared_norms(norms, packed, table)) / (_ROWS * _PEOPLE),
        )


def bytes_read(work: Workload) -> int:
    """Return the bytes that all tasks read from the genotype store, in whole chunks.

    A tile is read once for every tile that it is multiplied with.
    """
    variants = sum(map(work.variants_read, _tasks_of_a_person(work.plan)))
    people = whole_multiple(work.plan.n_samples, work.chunk_shape[1])
    return variants * work.packing.width(people)


def core_seconds(work: Workload, rates: Rates) -> float:
    """Return the total time of all tasks on one core, in seconds."""
    tasks = _tasks_of_a_person(work.plan)
    a_person = sum(work.of_a_person(task, rates) for task in tasks)
    return work.plan.n_samples * a_person + partial_bytes(work) / STORE_RATE


def _tasks_of_a_person(plan: Plan) -> list[Task]:
    """Return the tasks of the first person; other people have as many."""
    return [RowTask(0), *takewhile(lambda task: task.row_group == 0, plan.tile_tasks())]


def expected_seconds(work: Workload, rates: Rates, cores: int) -> float:
    """Return the seconds until the statistics are finished, or `core_seconds` for 0 cores."""
    seconds = core_seconds(work, rates)
    if not cores:
        return seconds
    reading = (bytes_read(work) + partial_bytes(work)) / STORE_RATE
    layout = work.plan.layout
    flushed = layout.n_blocks + sum(1 for b in range(layout.n_blocks) for _ in layout.tiles(b))
    return _START_SECONDS + (seconds + reading) / cores + flushed * _FLUSH_SECONDS


def _product(kernel: ProductKernel, left: Int8, right: Int8) -> None:
    ProductSum(kernel, (len(left), len(right)), LARGEST_BYTE).add(left, right)


def _seconds(action: Callable[[], object]) -> float:
    """Return the shortest of several durations, because other processes may use the machine."""
    return min(timeit.repeat(action, number=1, repeat=_REPEATS))
