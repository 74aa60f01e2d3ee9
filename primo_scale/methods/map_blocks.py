"""Computation over the LD blocks of a release, on all CPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from threadpoolctl import threadpool_limits

from primo_scale.machine import usable_cpus
from primo_scale.storage.tiles import in_threads

LARGEST_SIDE_BY_SIDE = 2048
"""Number of variants up to which LD blocks are solved side by side."""

_Result = TypeVar("_Result")


def map_blocks(function: Callable[[int], _Result], sizes: Sequence[int]) -> list[_Result]:
    """Apply `function` to the number of each LD block, and return the results in order.

    `function` should release the interpreter lock: numpy.linalg does, and scipy.linalg does not.

    Small blocks are solved side by side, each on one BLAS thread. BLAS threads that share a small
    matrix wait for each other, and spin while they wait (docs/benchmarks.md). A large block has the
    memory and all CPUs for itself.
    """
    threads = usable_cpus()
    found: dict[int, _Result] = {}
    large = [block for block, size in enumerate(sizes) if size > LARGEST_SIDE_BY_SIDE]
    small = [block for block, size in enumerate(sizes) if size <= LARGEST_SIDE_BY_SIDE]
    for blocks, side_by_side in ((large, 1), (small, threads)):
        if not blocks:
            continue
        with threadpool_limits(threads // side_by_side, user_api="blas"):
            found |= zip(blocks, in_threads(function, blocks, side_by_side), strict=True)
    return [found[block] for block in range(len(sizes))]
