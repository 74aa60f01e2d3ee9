"""The one door from raw to private statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from primo_scale.accumulate.statistics import RawStatistics
from primo_scale.privacy.mechanism import GramMechanism
from primo_scale.privacy.noise import add_lattice_noise, add_symmetric_noise
from primo_scale.storage.block_matrices import BlockMatrices, BlockMatricesWriter
from primo_scale.storage.groups import is_complete, open_group

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


def privatise(
    raw: RawStatistics,
    mechanism: GramMechanism | None,
    path: Path,
    charge_id: str,
    on_block: Callable[[int, int], None],
) -> PrivateStatistics:
    """Add the noise of `mechanism` to every statistic: the only way out of `RawStatistics`.

    The charge must be durable in the ledger before this is called, and the result is durable at
    `path` when it returns. Noise is drawn afresh at every call: one charge, one call.

    Parameters
    ----------
    raw
        Exact statistics.
    mechanism
        Calibrated noise; None adds none, copies nothing, and the result says so.
    path
        Where the private statistics go, so that a retry publishes these and draws no others.
    charge_id
        The charge this noise was paid with.
    on_block
        Called with (blocks done, blocks in all).
    """
    if mechanism is None:
        return PrivateStatistics(raw.matrices, raw.n_samples, None)
    layout, source = raw.matrices.layout, raw.matrices
    writer = BlockMatricesWriter(path, KIND, layout)
    for block in range(layout.n_blocks):
        writer.write_gram(block, add_symmetric_noise(source.gram(block), mechanism.gram_sigma))
        writer.write_cross(block, add_lattice_noise(source.cross(block), mechanism.cross_sigma))
        on_block(block + 1, layout.n_blocks)
    writer.write_outcome_gram(add_symmetric_noise(source.outcome_gram(), mechanism.outcome_sigma))
    writer.write_observed(add_lattice_noise(source.observed(), mechanism.counts_sigma))
    return PrivateStatistics(writer.finish({"charge_id": charge_id}), raw.n_samples, mechanism)


def charge_at_hand(path: Path) -> str | None:
    """Charge whose private statistics are complete at `path`, or None."""
    if not is_complete(path, KIND):
        return None
    return str(open_group(path, KIND).attrs["charge_id"])


def reopen_private(path: Path, raw: RawStatistics, mechanism: GramMechanism) -> PrivateStatistics:
    """Open the private statistics that an earlier run drew and stored at `path`."""
    matrices = BlockMatrices(path, KIND, raw.matrices.layout)
    return PrivateStatistics(matrices, raw.n_samples, mechanism)
