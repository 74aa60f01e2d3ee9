"""Gibbs sampler of effects of which many are zero, for coordinates of LD blocks.

In every block the coordinates are ``h = M beta + noise`` with independent noise of precisions p.
Effects beta are 0 with probability ``1 - pi``, otherwise normal with variance t. A sweep draws
every effect once, given all others (docs/maths/weights.md, Theorem 9).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.compiling import compiled
from primo_scale.kernels.products import Int64

Float64 = npt.NDArray[np.float64]


class EffectMaps(NamedTuple):
    """Matrices M of all blocks, transposed, one after the other."""

    entries: npt.NDArray[np.float32]  # rows of variants, each of its block's coordinates
    starts: Int64  # position of every block's first entry, shape (blocks,)
    variants: Int64  # boundaries of the blocks among the variants, shape (blocks + 1,)
    coordinates: Int64  # boundaries of the blocks among the coordinates, shape (blocks + 1,)


def information(maps: EffectMaps, precisions: Float64) -> Float64:
    """Return the diagonal of ``M' diag(p) M`` of all blocks, shape (variants,)."""
    squares = np.empty(maps.variants[-1])
    _information(maps, precisions, squares)
    return squares


_compiled = partial(compiled, reorders=True)


@_compiled
def _information(maps: EffectMaps, precisions: Float64, squares: Float64) -> None:
    for block in range(len(maps.starts)):
        here = precisions[maps.coordinates[block] : maps.coordinates[block + 1]]
        row = maps.starts[block]
        for variant in range(maps.variants[block], maps.variants[block + 1]):
            entries = maps.entries[row : row + len(here)]
            row += len(here)
            total = 0.0
            for j in range(len(here)):
                total += entries[j] ** 2 * here[j]
            squares[variant] = total


@_compiled
def sweep(
    maps: EffectMaps,
    precisions: Float64,
    informations: Float64,
    chain: tuple[Float64, Float64, Float64],
    draws: Float64,
    prior: tuple[float, float],
) -> None:
    """Draw every effect once, and change the state of the chain.

    `chain` has the precisions times ``h - M beta``, shape (coordinates,), the effects beta, shape
    (variants,), and the sum of their conditional means over sweeps. `informations` is the result of
    `information`, and `prior` has the probability pi and the variance t of an effect. `draws` has
    uniform numbers in the first row, and standard normal ones in the second.
    """
    probability, variance = prior
    residuals, effects, means = chain
    odds_before = (1 - probability) / probability  # of an effect of zero
    for block in range(len(maps.starts)):
        first, last = maps.coordinates[block], maps.coordinates[block + 1]
        # Loops over slices become vector instructions, and those with offsets do not.
        residual, noise = residuals[first:last], precisions[first:last]
        row = maps.starts[block]
        for variant in range(maps.variants[block], maps.variants[block + 1]):
            entries = maps.entries[row : row + len(residual)]
            row += len(residual)
            before, known = effects[variant], informations[variant]
            product = known * before
            for j in range(len(residual)):
                product += entries[j] * residual[j]
            precision = known + 1 / variance
            mean = product / precision
            odds = odds_before * np.sqrt(variance * precision) * np.exp(-0.5 * product * mean)
            share = 1 / (1 + odds)
            means[variant] += share * mean
            after = 0.0
            if draws[0, variant] < share:
                after = mean + draws[1, variant] / np.sqrt(precision)
            change = before - after
            if change != 0:
                effects[variant] = after
                for j in range(len(residual)):
                    residual[j] += change * entries[j] * noise[j]
