"""Repeated releases in memory, with the noise that `privatise` draws.

`publish` returns the noisy numbers of a release, `exact_numbers` the same numbers without noise,
and `stated_scales` their stated standard deviations, all in the same order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
import numpy.typing as npt

from primo_scale.audit.distinguishing import Floats
from primo_scale.audit.worst_pairs import CohortStatistics
from primo_scale.gaussian.keystream_noise import KEY_BYTES, KeystreamNoise
from primo_scale.gaussian.lattice_noise import FineNoise, Integers, off_diagonal_sigma
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.private_statistics import NoisyMatrices
from primo_scale.storage.tiles import panels, upper_tiles

Flags = npt.NDArray[np.bool_]
NoiseOfRun = Callable[[], FineNoise]

# Number of runs whose noise is drawn in one call.
_POOLED_RUNS = 1024


class PooledNoise:
    """The sampler's own independent draws for many runs, requested in bulk."""

    def __init__(self, source: FineNoise) -> None:
        self._source = source
        self._dealt: dict[tuple[str, int, float], Iterator[Integers]] = {}

    def draw(self, label: str, count: int, scale: float) -> Integers:
        """Return draws as the sampler does, any number of times for each label."""
        if count == 0:
            return np.empty(0, dtype=np.int64)
        key = (label, count, scale)
        if key not in self._dealt:
            self._dealt[key] = self._deal(*key)
        return next(self._dealt[key])

    def _deal(self, label: str, size: int, scale: float) -> Iterator[Integers]:
        for pool in count():
            name = f"{label}, {size} draws of {scale!r}, pool {pool}"
            yield from self._source.draw(name, _POOLED_RUNS * size, scale).reshape(-1, size)


def pooled_noise(source: FineNoise | None = None) -> NoiseOfRun:
    """Return a function that yields the noise of each run, by default of the product's sampler."""
    noise = PooledNoise(source or KeystreamNoise(os.urandom(KEY_BYTES)))
    return lambda: noise


class _NoNoise:
    """Source of zeros."""

    def draw(self, label: str, count: int, scale: float) -> Integers:
        return np.zeros(count, dtype=np.int64)


def publish(exact: CohortStatistics, mechanism: Mechanism, source: FineNoise) -> list[Integers]:
    """Return statistics in memory with the noise of a release, as `privatise` adds it."""
    noisy, published = NoisyMatrices(mechanism, source), []
    for block, (gram, cross) in enumerate(zip(exact.gram, exact.cross, strict=True)):
        (tile,), (panel,) = upper_tiles(len(gram)), panels(*cross.shape)  # a block is one piece
        for copy in range(mechanism.recipe.gram_copies):
            published.append(noisy.gram_tile(gram, tile, block=block, copy=copy))
        published.append(noisy.cross_panel(cross, panel, block=block))
    published.append(noisy.outcome_gram(exact.outcome_gram))
    published.append(noisy.counts(exact.observed))
    if mechanism.scales.smallest_eigenvalue:
        published.append(np.array([noisy.smallest_eigenvalue(exact.smallest_eigenvalue)]))
    return published


def flat(parts: list[Integers]) -> Integers:
    """Return every published number in one array."""
    return np.concatenate([part.ravel() for part in parts])


def exact_numbers(statistics: CohortStatistics, mechanism: Mechanism) -> Integers:
    """Return the numbers that `publish` adds noise to."""
    return flat(publish(statistics, mechanism, _NoNoise()))


def stated_scales(mechanism: Mechanism) -> tuple[Floats, Flags]:
    """Return the stated noise of every number that `publish` returns, and which numbers count.

    The standard deviation is 1 for numbers without noise. Entries below the diagonal of symmetric
    matrices do not count, because they repeat those above it.
    """
    scales, n_phenotypes = mechanism.scales, mechanism.bounds.n_phenotypes
    parts, once = list[Floats](), list[Flags]()

    def add(part: Floats, *, symmetric: bool) -> None:
        parts.append(part.ravel())
        counted = np.ones(part.shape, dtype=bool)
        once.append((np.triu(counted) if symmetric else counted).ravel())

    for size, sigma in zip(mechanism.bounds.block_sizes, scales.gram, strict=True):
        for _ in range(mechanism.recipe.gram_copies):
            add(_symmetric(size, sigma), symmetric=True)
        add(np.full((size, n_phenotypes), scales.phenotype_cross), symmetric=False)
    add(_symmetric(n_phenotypes, scales.phenotype_gram), symmetric=True)
    counts = np.full(1 + n_phenotypes, scales.observed)
    counts[0] *= mechanism.promise.n_is_private
    add(counts, symmetric=False)
    if scales.smallest_eigenvalue:
        add(np.array([scales.smallest_eigenvalue]), symmetric=False)
    stated = np.concatenate(parts)
    return np.where(stated > 0, stated, 1.0), np.concatenate(once)


def _symmetric(size: int, sigma: float) -> Floats:
    scale = np.full((size, size), off_diagonal_sigma(sigma) if sigma else 0.0)
    np.fill_diagonal(scale, sigma)
    return scale
