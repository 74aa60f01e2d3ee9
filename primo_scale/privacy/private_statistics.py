"""`privatise`, the only function from `RawStatistics` to `PrivateStatistics`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.gaussian.lattice_noise import FineNoise, Integers
from primo_scale.ledger.ledger import PaymentStep, announce_step
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.noisy_matrices import NoisyMatrices
from primo_scale.storage.block_matrices import BlockMatrices, BlockMatricesWriter
from primo_scale.storage.groups import is_complete
from primo_scale.storage.tiles import n_threads

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
        for panel, values in exact.cross_panels(block):
            writer.write_cross_panel(block, panel, noisy.cross_panel(values, panel, block=block))

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
