"""LD blocks solved side by side, and what noise does to the eigenvalues of symmetric matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from primo_scale.machine import in_threads, usable_cpus

Float64 = npt.NDArray[np.float64]

LARGEST_SIDE_BY_SIDE = 2048
"""Number of variants up to which LD blocks are solved side by side."""
FLOOR_SHARE = 0.3
"""Eigenvalues of a noisy Gram matrix below this share of the noise norm carry no information
(docs/maths/estimation.md, Theorem 4)."""

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


def noise_norm(sigma: float, size: int) -> float:
    """Return a bound on the spectral norm of symmetric noise in the svec layout.

    ``P(norm > sigma (sqrt(2 size) + 3))`` is below 3% (docs/maths/estimation.md, Theorem 5).
    """
    return sigma * (float(np.sqrt(2 * size)) + 3)


def floored_at_zero(eigenvalues: Float64, rounding: float = 0.0) -> Float64:
    """Return a symmetric matrix' eigenvalues with negative and negligible values set to zero.

    `rounding` is the rounding error of the matrix itself, if it is the difference of larger ones.
    """
    largest = np.abs(eigenvalues).max(initial=0.0)
    negligible = max(len(eigenvalues) * np.finfo(np.float64).eps * largest, rounding)
    return np.where(eigenvalues > negligible, eigenvalues, 0.0)


def quotient(numerator: Float64, denominator: Float64) -> Float64:
    """Return ``numerator / denominator``, or 0 where the denominator is 0."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape), where=denominator != 0)
