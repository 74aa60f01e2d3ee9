"""`privatise`, the only function from `RawStatistics` to `PrivateStatistics`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.gaussian.lattice_noise import (
    FineNoise,
    Integers,
    add_lattice_noise,
    add_symmetric_noise,
    off_diagonal_sigma,
)
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.ledger.ledger import PaymentStep, announce_step
from primo_scale.machine import n_threads
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.storage.block_matrices import BlockMatrices, BlockMatricesWriter, Tile
from primo_scale.storage.groups import is_complete

KIND = "private statistics"


@dataclass(frozen=True)
class PrivateStatistics:
    """Statistics that may be post-processed and published."""

    # X'X by blocks, X'Z, Z'Z and the counts of people, each with its noise.
    matrices: BlockMatrices
    # Mechanism whose noise was added. None means exact statistics, whose release is NOT PRIVATE.
    mechanism: Mechanism | None


@dataclass(frozen=True)
class Draw:
    """Parameters of drawing the noise of a release."""

    mechanism: Mechanism
    source: FineNoise  # cannot be used again
    destination: Path  # store of the private statistics
    # Callback for progress, with the number of finished blocks and the total number.
    on_block: Callable[[int, int], None]


def privatise(raw: RawStatistics, draw: Draw | None) -> PrivateStatistics:
    """Add noise to every statistic that the promise protects, and return the durable result.

    The charge for the noise must be durable in the ledger. A draw of None returns the exact
    statistics without a mechanism, whose release is NOT PRIVATE.

    Memory: several copies of one stored piece of X'X or X'Z for each thread, and Z'Z; 120 MiB
    measured for one block of 20,000 variants. The smallest eigenvalue needs whole blocks.
    """
    if draw is None:
        return PrivateStatistics(raw.matrices, None)
    exact, layout, scales = raw.matrices, raw.matrices.layout, draw.mechanism.scales
    noisy = NoisyMatrices(draw.mechanism, draw.source)
    copies = draw.mechanism.recipe.gram_copies
    writer = BlockMatricesWriter(draw.destination, KIND, layout, gram_copies=copies)

    def add_noise(block: int) -> None:
        """Write the noisy X'X and X'Z of one block."""
        for tile, values in exact.gram_tiles(block):
            for copy in range(copies):
                found = noisy.gram_tile(values, tile, block=block, copy=copy)
                writer.write_gram_tile(block, tile, found, copy)
        for number, (panel, values) in enumerate(exact.cross_panels(block)):
            writer.write_cross_panel(block, panel, noisy.cross_panel(values, number, block=block))

    with ThreadPoolExecutor(n_threads()) as threads:
        for done, _ in enumerate(threads.map(add_noise, range(layout.n_blocks)), start=1):
            announce_step(PaymentStep.BLOCK_WRITTEN)
            draw.on_block(done, layout.n_blocks)
    writer.write_outcome_gram(noisy.outcome_gram(exact.outcome_gram()))
    writer.write_observed(noisy.counts(exact.observed()))
    if scales.smallest_eigenvalue:
        smallest = smallest_eigenvalue(map(exact.gram, range(layout.n_blocks)))
        writer.write_smallest_eigenvalue(noisy.smallest_eigenvalue(smallest))
    matrices = writer.finish({})
    announce_step(PaymentStep.STATISTICS_STORED)
    return PrivateStatistics(matrices, draw.mechanism)


def reopen_private(path: Path, raw: RawStatistics, mechanism: Mechanism) -> PrivateStatistics:
    """Open the private statistics that an earlier run stored at `path`."""
    return PrivateStatistics(BlockMatrices(path, KIND, raw.matrices.layout), mechanism)


def is_drawn(path: Path) -> bool:
    """Return whether complete private statistics are stored at `path`."""
    return is_complete(path, KIND)


def smallest_eigenvalue(grams: Iterable[Integers]) -> int:
    """Return the computed smallest eigenvalue of X'X, given its blocks, rounded down.

    Memory: 16 d_b^2 bytes for the largest block.
    """
    smallest = [float(np.linalg.eigvalsh(gram.astype(np.float64))[0]) for gram in grams]
    return math.floor(min(smallest))


# ---- Noise on each of the statistics -------------------------------------------------------------
#
# A statistic with scale 0 is public under the promise and is returned unchanged. X'X and X'Z do not
# fit in memory, so the noise on each stored tile and panel is drawn under its own label.


@dataclass(frozen=True, eq=False)
class NoisyMatrices:
    """Noise of one release, which each method adds to an exact statistic."""

    mechanism: Mechanism
    source: FineNoise

    def gram_tile(self, values: Integers, tile: Tile, *, block: int, copy: int) -> Integers:
        """Add noise to a stored tile of a copy of X_b'X_b, smaller off the diagonal than on it."""
        sigma = self.mechanism.scales.gram[block]
        if sigma == 0:
            return values
        label = f"X'X, block {block}, copy {copy}, tile {tile.row}, {tile.column}"
        if tile.on_diagonal:
            return self._symmetric(values, sigma, label)
        return self._noisy(values, off_diagonal_sigma(sigma), label)

    def cross_panel(self, values: Integers, panel: int, *, block: int) -> Integers:
        """Add noise to X'Y in a panel of ``X_b'(C, Y)``; X'C is public under label privacy."""
        fixed, phenotypes = np.split(values, [self._n_fixed(values)], axis=1)
        label = f"X'Y, block {block}, panel {panel}"
        noisy = self._noisy(phenotypes, self.mechanism.scales.phenotype_cross, label)
        return np.hstack([fixed, noisy])

    def outcome_gram(self, gram: Integers) -> Integers:
        """Return Z'Z, shape (q, q), for z = (c, y): noisy Y'Y, and zeros in the place of C'Y.

        C'C is public under label privacy. C'Y is not measured, because phenotypes were adjusted.
        """
        n_fixed = self._n_fixed(gram)
        noisy = np.zeros_like(gram)
        noisy[:n_fixed, :n_fixed] = gram[:n_fixed, :n_fixed]
        noisy[n_fixed:, n_fixed:] = self._symmetric(
            gram[n_fixed:, n_fixed:], self.mechanism.scales.phenotype_gram, "Y'Y"
        )
        return noisy

    def counts(self, observed: Integers) -> Integers:
        """Add noise to the number of people, if it is private, and to those with each phenotype."""
        public, private = np.split(observed, [not self.mechanism.promise.n_is_private])
        noisy = self._noisy(private, self.mechanism.scales.observed, "observed")
        return np.concatenate([public, noisy])

    def smallest_eigenvalue(self, value: int) -> int:
        """Add noise to the smallest eigenvalue of X'X, which is rounded down to an integer."""
        exact, scale = np.array([value], dtype=np.int64), self.mechanism.scales.smallest_eigenvalue
        return int(self._noisy(exact, scale, "smallest eigenvalue")[0])

    def _n_fixed(self, columns: Integers) -> int:
        """Return the number of the outcome columns C, which come before Y."""
        n_fixed = int(columns.shape[1]) - self.mechanism.bounds.n_phenotypes
        if n_fixed and self.mechanism.promise.unit is not PrivacyUnit.LABEL:
            raise ValueError("covariates are in no sum where they are private")
        return n_fixed

    def _noisy(self, values: Integers, sigma: float, label: str) -> Integers:
        if sigma == 0:
            return values
        return add_lattice_noise(values, sigma, source=self.source, label=label)

    def _symmetric(self, gram: Integers, sigma: float, label: str) -> Integers:
        if sigma == 0:
            return gram
        return add_symmetric_noise(gram, sigma, source=self.source, label=label)
