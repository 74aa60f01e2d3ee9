"""Gaussian noise on a fine lattice, rounded onto the integers (docs/maths/noise.md).

A statistic is an array of integers. To each entry a Gaussian on the lattice ``2^-k Z`` is added,
with at least 2^32 lattice steps to a standard deviation, and the sum is rounded to an integer.
That is post-processing of the ideal Gaussian mechanism, up to what the margin in the calibration
covers (docs/maths/sampler.md); no floating-point number is added to the data, so there are no
low-order bits to attack.

A small release is drawn by OpenDP, from the operating system's entropy. A large one would wait
minutes for that, so it is drawn from a keystream. Both reject some candidates: how long they take
depends on the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

# Not opendp.prelude, which imports scikit-learn where it is installed and takes ten times longer.
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import enable_features

from primo_scale.errors import UsageError
from primo_scale.machine import usable_cpus

Integers = npt.NDArray[np.int64]

# OpenDP's 64-bit draws saturate near 2^62; up to here, 32 standard deviations fit.
LARGEST_FINE_SIGMA = 2.0**58
SMALLEST_SIGMA = 2.0**-20
_STEPS_PER_SIGMA_BITS = 32
# A third of a second of drawing: enough to hide the call, little enough to share among cores.
_CHUNK_DRAWS = 1 << 14
# OpenDP takes 2.5 s of one core for so many.
KEYSTREAM_FROM_DRAWS = 100_000


class Sampler(StrEnum):
    """How the noise of a release is drawn, in the words of `release.json`."""

    OPENDP = "OpenDP exact discrete Gaussian on a fine lattice, rounded to integers"
    KEYSTREAM = "Gaussian from an AES-256-CTR keystream on a fine lattice, rounded to integers"


class FineNoise(Protocol):
    """Source of independent Gaussian integers, before they are rounded onto the statistic."""

    def draw(self, label: str, count: int, scale: float) -> Integers:
        """Draw int64, shape (count,), of standard deviation `scale` lattice steps."""


@dataclass(frozen=True)
class OpenDPNoise:
    """OpenDP's exact discrete Gaussian, from the operating system's entropy."""

    def draw(self, label: str, count: int, scale: float) -> Integers:
        """Draw on every core, at about 25 us a draw and core; the label makes no difference."""
        draw = _discrete_gaussian(scale)
        noise = np.empty(count, dtype=np.int64)

        def fill(start: int) -> None:
            part = noise[start : start + _CHUNK_DRAWS]
            part[:] = draw([0] * len(part))

        # OpenDP samples without the interpreter's lock, so threads are enough.
        with ThreadPoolExecutor(usable_cpus()) as threads:
            list(threads.map(fill, range(0, count, _CHUNK_DRAWS)))
        return noise


OPENDP = OpenDPNoise()


def sampler_for(n_draws: int, *, continuable: bool = False) -> Sampler:
    """The sampler of a release.

    Parameters
    ----------
    n_draws
        Draws in all of its statistics, a public number.
    continuable
        An interrupted drawing must go on with the very same noise, which only a key can give.
    """
    keystream = continuable or n_draws >= KEYSTREAM_FROM_DRAWS
    return Sampler.KEYSTREAM if keystream else Sampler.OPENDP


def noise_from(sampler: Sampler, key: bytes) -> FineNoise:
    """The noise of one release.

    Parameters
    ----------
    sampler
        How it is drawn.
    key
        32 secret bytes that no other release uses; OpenDP leaves them alone.
    """
    if sampler is Sampler.OPENDP:
        return OPENDP
    from primo_scale.privacy.keystream_noise import KeystreamNoise  # imports Numba: half a second

    return KeystreamNoise(key)


def fine_bits(sigma: float) -> int:
    """The k of the lattice ``2^-k Z``: least with ``sigma 2^k >= 2^32``, at least 0."""
    return max(0, _STEPS_PER_SIGMA_BITS + 1 - math.frexp(sigma)[1])


def off_diagonal_sigma(sigma: float) -> float:
    """Off-diagonal scale of a symmetric matrix with `sigma` on its diagonal, rounded up.

    With ``sigma / sqrt(2)`` there, each unordered pair of entries carries the noise of the
    symmetrised matrix ``(E + E') / 2``, so the sensitivity is the Frobenius norm.
    """
    return math.nextafter(sigma / math.sqrt(2), math.inf)


def lattice_noise(
    size: int,
    sigma: float,
    *,
    bits: int | None = None,
    source: FineNoise = OPENDP,
    label: str = "",
) -> Integers:
    """Independent draws whose sum with an integer is the rounded ideal Gaussian mechanism.

    Parameters
    ----------
    size
        Number of draws.
    sigma
        Standard deviation in lattice units of the statistic; used exactly as given.
    bits
        k of the lattice ``2^-k Z``; `fine_bits(sigma)` unless a finer one is wanted.
    source
        Where the draws come from, see `noise_from`.
    label
        What they are for; a keystream gives each label once.

    Returns
    -------
    ndarray of int64, shape (size,)

    Raises
    ------
    UsageError
        ``sigma`` not between 2^-20 and 2^58, or a label used before.
    """
    if not SMALLEST_SIGMA <= sigma <= LARGEST_FINE_SIGMA:
        raise UsageError(
            "the noise scale cannot be sampled exactly",
            value=sigma,
            limit=f"{SMALLEST_SIGMA:g} to {LARGEST_FINE_SIGMA:g}",
            remedy="Change the public bounds or the scale of the lattice",
        )
    bits = fine_bits(sigma) if bits is None else bits
    return rounded_shift(source.draw(label, size, math.ldexp(sigma, bits)), bits)


def rounded_shift(fine: Integers, bits: int) -> Integers:
    """``fine / 2^bits`` rounded to the nearest integer, ties upward."""
    return fine if bits == 0 else (fine + (1 << (bits - 1))) >> bits


def add_lattice_noise(
    values: Integers, sigma: float, *, source: FineNoise = OPENDP, label: str = ""
) -> Integers:
    """Add independent noise to every entry of an integer array of any shape."""
    noise = lattice_noise(values.size, sigma, source=source, label=label)
    return values + noise.reshape(values.shape)


def add_symmetric_noise(
    gram: Integers, sigma: float, *, source: FineNoise = OPENDP, label: str = ""
) -> Integers:
    """Add symmetric noise to a symmetric integer matrix.

    Parameters
    ----------
    gram
        Shape (d, d), symmetric.
    sigma
        Standard deviation on the diagonal; off it, `off_diagonal_sigma`. Both are drawn on the
        lattice of the smaller.
    source, label
        See `lattice_noise`.

    Returns
    -------
    ndarray of int64, shape (d, d)
        Each pair of entries (j, k), (k, j) shares one draw.
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


def _discrete_gaussian(scale: float) -> Callable[[list[int]], list[int]]:
    enable_features("contrib")
    mechanism: Callable[[list[int]], list[int]] = make_gaussian(
        vector_domain(atom_domain(T="i64")), l2_distance(T=float), scale=scale
    )
    return mechanism
