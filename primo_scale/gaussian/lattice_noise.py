"""Gaussian noise on integers, from a keystream that its key reproduces (docs/maths/noise.md).

A Gaussian on the lattice ``2^-k Z``, with at least 2^32 lattice steps per standard deviation, is
added to every entry, and the sum is rounded to an integer. Up to a difference that the margin of
the calibration covers (docs/maths/sampler.md), this is post-processing of the ideal Gaussian
mechanism. No floating-point number is added to the data, which prevents attacks on low-order bits.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

from primo_scale.errors import UsageError

Integers = npt.NDArray[np.int64]

# Largest sigma for which 24 standard deviations, which no draw exceeds, fit in 64 bits.
LARGEST_FINE_SIGMA = 2.0**58
SMALLEST_SIGMA = 2.0**-20
_STEPS_PER_SIGMA_BITS = 32


class FineNoise(Protocol):
    """Source of independent Gaussian integers on the fine lattice."""

    def draw(self, label: str, count: int, scale: float) -> Integers:
        """Return draws, int64 of shape (count,), with standard deviation `scale` lattice steps."""


def fine_bits(sigma: float) -> int:
    """Return the smallest k >= 0 of a lattice ``2^-k Z`` with ``sigma 2^k >= 2^32``."""
    return max(0, _STEPS_PER_SIGMA_BITS + 1 - math.frexp(sigma)[1])


def off_diagonal_sigma(sigma: float) -> float:
    """Return the off-diagonal scale of svec noise with `sigma` on the diagonal, rounded up.

    With ``sigma / sqrt(2)`` off the diagonal, the noise is that of the symmetrised matrix
    ``(E + E') / 2``, and the sensitivity is the Frobenius norm.
    """
    return math.nextafter(sigma / math.sqrt(2), math.inf)


def check_sigma(sigma: float, *, remedy: str, where: str | None = None) -> None:
    """Refuse a standard deviation, in lattice units, that is not between 2^-20 and 2^58.

    `where` is the option that asks for the noise, if it is one.
    """
    if not SMALLEST_SIGMA <= sigma <= LARGEST_FINE_SIGMA:
        raise UsageError(
            "the noise scale cannot be sampled exactly",
            where=where,
            value=sigma,
            limit=f"{SMALLEST_SIGMA:g} to {LARGEST_FINE_SIGMA:g}",
            remedy=remedy,
        )


def lattice_noise(
    size: int, sigma: float, *, bits: int | None = None, source: FineNoise, label: str
) -> Integers:
    """Return `size` independent draws whose sum with an integer is the rounded Gaussian mechanism.

    `sigma`, in lattice units of the statistic, is used exactly as given. `bits` is the exponent k
    of the lattice ``2^-k Z``, by default `fine_bits(sigma)`. `label` names the statistic; a
    keystream draws each label once. A `sigma` that is not between 2^-20 and 2^58, and a label that
    was used before, raise a UsageError.
    """
    check_sigma(sigma, remedy="Change the public bounds or the scale of the lattice")
    bits = fine_bits(sigma) if bits is None else bits
    return rounded_shift(source.draw(label, size, math.ldexp(sigma, bits)), bits)


def rounded_shift(fine: Integers, bits: int) -> Integers:
    """Return ``fine / 2^bits`` rounded to the nearest integer, ties upward."""
    return fine if bits == 0 else (fine + (1 << (bits - 1))) >> bits


def add_lattice_noise(values: Integers, sigma: float, *, source: FineNoise, label: str) -> Integers:
    """Add independent noise to every entry of an integer array of any shape."""
    noise = lattice_noise(values.size, sigma, source=source, label=label)
    return values + noise.reshape(values.shape)


def add_symmetric_noise(gram: Integers, sigma: float, *, source: FineNoise, label: str) -> Integers:
    """Add symmetric noise to a symmetric integer matrix, shape (d, d).

    The standard deviation is `sigma` on the diagonal and `off_diagonal_sigma` off it; both are
    drawn on the lattice of the smaller one. The entries (j, k) and (k, j) share one draw.
    """
    size = len(gram)
    noisy = gram.copy()
    above_sigma = off_diagonal_sigma(sigma)
    bits = fine_bits(above_sigma)
    noisy[np.diag_indices(size)] += lattice_noise(
        size, sigma, bits=bits, source=source, label=f"{label}, diagonal"
    )
    above = lattice_noise(
        size * (size - 1) // 2,
        above_sigma,
        bits=bits,
        source=source,
        label=f"{label}, above the diagonal",
    )
    start = 0
    for j in range(size - 1):
        stop = start + size - 1 - j
        noisy[j, j + 1 :] += above[start:stop]
        noisy[j + 1 :, j] = noisy[j, j + 1 :]
        start = stop
    return noisy
