"""The one door from raw to private statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from primo_scale.accumulate.statistics import RawStatistics
from primo_scale.privacy.mechanism import GramMechanism
from primo_scale.privacy.noise import FineNoise, add_lattice_noise, add_symmetric_noise
from primo_scale.storage.block_matrices import BlockLayout, BlockMatrices, BlockMatricesWriter
from primo_scale.storage.groups import is_complete

KIND = "private statistics"


@dataclass(frozen=True)
class PrivateStatistics:
    """Statistics that may be post-processed and published.

    Attributes
    ----------
    matrices
        X'X by blocks, X'Z, Z'Z and the numbers observed, each with its noise.
    n_samples
        Public number of people n.
    mechanism
        The noise that was added; None: none was, and whatever comes of them is NOT PRIVATE.
    """

    matrices: BlockMatrices
    n_samples: int
    mechanism: GramMechanism | None


@dataclass(frozen=True)
class Draw:
    """One drawing of noise.

    Attributes
    ----------
    mechanism
        The calibrated scales.
    source
        Where the noise comes from; used up by the drawing.
    destination
        Store that the private statistics go to.
    on_block
        Called with (blocks done, blocks in all).
    """

    mechanism: GramMechanism
    source: FineNoise
    destination: Path
    on_block: Callable[[int, int], None]


def privatise(raw: RawStatistics, draw: Draw | None) -> PrivateStatistics:
    """Add noise to every statistic: the only way out of `RawStatistics`.

    The charge must be durable in the ledger before this is called; the result is durable when it
    returns. None adds no noise, and the result says so.
    """
    if draw is None:
        return PrivateStatistics(raw.matrices, raw.n_samples, None)
    layout, exact, scales = raw.matrices.layout, raw.matrices, draw.mechanism
    writer = BlockMatricesWriter(draw.destination, KIND, layout)
    for block in range(layout.n_blocks):
        gram, cross = exact.gram(block), exact.cross(block)
        label = f"X'X, block {block}"
        writer.write_gram(
            block, add_symmetric_noise(gram, scales.gram_sigma, source=draw.source, label=label)
        )
        label = f"X'Z, block {block}"
        writer.write_cross(
            block, add_lattice_noise(cross, scales.cross_sigma, source=draw.source, label=label)
        )
        draw.on_block(block + 1, layout.n_blocks)
    outcome_gram, observed = exact.outcome_gram(), exact.observed()
    writer.write_outcome_gram(
        add_symmetric_noise(outcome_gram, scales.outcome_sigma, source=draw.source, label="Z'Z")
    )
    writer.write_observed(
        add_lattice_noise(observed, scales.counts_sigma, source=draw.source, label="observed")
    )
    return PrivateStatistics(writer.finish({}), raw.n_samples, scales)


def reopen_private(path: Path, raw: RawStatistics, mechanism: GramMechanism) -> PrivateStatistics:
    """Open the private statistics that an earlier run drew and stored at `path`."""
    matrices = BlockMatrices(path, KIND, raw.matrices.layout)
    return PrivateStatistics(matrices, raw.n_samples, mechanism)


def is_drawn(path: Path) -> bool:
    """Whether complete private statistics lie at `path`."""
    return is_complete(path, KIND)


def count_draws(layout: BlockLayout) -> int:
    """Noisy numbers in all of a release's statistics; public."""
    grams = sum(size * (size + 1) // 2 for size in layout.sizes)
    q = layout.n_outcomes
    return grams + layout.n_variants * q + q * (q + 1) // 2 + layout.n_phenotypes
