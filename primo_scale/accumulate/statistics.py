"""Raw statistics: exact, private, and with one way out (`primo_scale.privacy`)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from primo_scale.accumulate.partials import Partials
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.storage.block_matrices import (
    BlockLayout,
    BlockMatrices,
    BlockMatricesWriter,
    Int64,
)
from primo_scale.storage.groups import Array, is_complete, open_group, read_block

KIND = "statistics"


@dataclass(frozen=True)
class RawStatistics:
    """Exact integer statistics of a cohort. PRIVATE: never to be published as they are.

    Attributes
    ----------
    matrices
        X'X by blocks, X'Z, Z'Z and the numbers observed.
    n_samples
        Number of people n.
    sha256
        Digest of the integers; private too, since it would confirm a guess of them.
    """

    matrices: BlockMatrices
    n_samples: int
    sha256: str


def finished_plan_digest(path: Path) -> str | None:
    """Digest of the plan whose finished statistics are at `path`, or None if there are none."""
    if not is_complete(path, KIND):
        return None
    return str(open_group(path, KIND).attrs["plan_digest"])


def open_raw_statistics(path: Path, layout: BlockLayout, n_samples: int) -> RawStatistics:
    """Open finished statistics.

    Raises
    ------
    InputError
        There are none, or they were never finished.
    """
    sha256 = str(open_group(path, KIND).attrs["sha256"])
    return RawStatistics(BlockMatrices(path, KIND, layout), n_samples, sha256)


def reduce_partials(partials: Partials, path: Path) -> RawStatistics:
    """Sum the row groups of every committed tile into finished statistics.

    Integer sums commute, so the result does not depend on how the people were cut into groups.
    """
    plan = partials.plan
    writer = BlockMatricesWriter(path, KIND, plan.layout)
    for block in range(plan.layout.n_blocks):
        gram = _sum_over_groups(partials.array(f"gram/{block}"))
        writer.write_gram(block, _mirrored(gram))
        writer.write_cross(block, _sum_over_groups(partials.array(f"cross/{block}")))
    writer.write_outcome_gram(_sum_over_groups(partials.array("outcome_gram")))
    writer.write_observed(open_outcome_store(partials.inputs.outcomes).observed)
    sha256 = BlockMatrices(path, KIND, plan.layout).sha256()
    matrices = writer.finish({"plan_digest": partials.attributes["plan_digest"], "sha256": sha256})
    return RawStatistics(matrices, plan.n_samples, sha256)


def remove_partials(path: Path) -> None:
    """Delete the partial sums of a finished accumulation (they are as private as the sums)."""
    shutil.rmtree(path, ignore_errors=True)


def _sum_over_groups(array: Array) -> Int64:
    groups, *rest = array.shape
    total = np.zeros(rest, dtype=np.int64)
    for group in range(groups):
        total += read_block(array, (slice(group, group + 1), *[slice(None)] * len(rest)))[0]
    return total


def _mirrored(gram: Int64) -> Int64:
    """Symmetric matrix of one whose tiles below the diagonal were never written (zeros)."""
    upper = np.triu(gram)
    return upper + np.triu(gram, 1).T
