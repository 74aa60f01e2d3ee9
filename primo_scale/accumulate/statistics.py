"""Raw statistics: exact, private, and with one way out (`primo_scale.privacy`)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from primo_scale.accumulate.partials import SUBSAMPLE, Partials
from primo_scale.errors import InputError
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
    inputs
        Digests of what was summed, and the norms it was clipped to: `Inputs.to_json`.
    """

    matrices: BlockMatrices
    n_samples: int
    sha256: str
    inputs: dict[str, Any]


def finished_plan_digest(path: Path) -> str | None:
    """Digest of the plan whose finished statistics are at `path`, or None if there are none."""
    if not is_complete(path, KIND):
        return None
    return str(open_group(path, KIND).attrs["plan_digest"])


def open_raw_statistics(path: Path, layout: BlockLayout, n_samples: int) -> RawStatistics:
    """Open finished statistics and check every integer against their digest.

    Raises
    ------
    InputError
        There are none, they were never finished, have another shape, or are damaged.
    """
    attributes = dict(open_group(path, KIND).attrs)
    matrices = BlockMatrices(path, KIND, layout)
    if attributes["boundaries"] != list(layout.boundaries) or (
        matrices.sha256() != attributes["sha256"]
    ):
        raise InputError(
            "the statistics are damaged or of another design",
            where=path,
            remedy="Remove the work directory and run accumulate again",
        )
    inputs: Any = attributes["inputs"]
    return RawStatistics(matrices, n_samples, str(attributes["sha256"]), dict(inputs))


def reduce_partials(partials: Partials, path: Path) -> RawStatistics:
    """Sum the row groups of every committed tile into finished statistics.

    Integer sums commute, so the result does not depend on how the people were cut into groups.

    Raises
    ------
    InputError
        A tile was never committed, or is damaged.
    """
    plan = partials.plan
    writer = BlockMatricesWriter(path, KIND, plan.layout)
    for block in range(plan.layout.n_blocks):
        writer.write_gram(block, _gram(partials, block))
        writer.write_cross(block, _summed(partials.array(f"cross/{block}")))
    writer.write_outcome_gram(_summed(partials.array("outcome_gram")))
    writer.write_observed(open_outcome_store(partials.inputs.outcomes).observed)
    sha256 = BlockMatrices(path, KIND, plan.layout).sha256()
    inputs = partials.inputs.to_json()
    matrices = writer.finish(
        {"plan_digest": partials.attributes["plan_digest"], "sha256": sha256, "inputs": inputs}
    )
    return RawStatistics(matrices, plan.n_samples, sha256, inputs)


def remove_partials(path: Path) -> None:
    """Delete the partial sums of a finished accumulation, and who was in a subsample with them.

    Raises
    ------
    InputError
        The list of a subsample cannot be deleted, and it must not stay.
    """
    subsample = path / SUBSAMPLE
    try:
        if subsample.exists():
            shutil.rmtree(subsample)
    except OSError as error:
        raise InputError(
            f"the secret list of the subsample cannot be deleted: {error.strerror}",
            where=subsample,
            remedy="Delete it by hand, then run the same command again",
        ) from error
    shutil.rmtree(path, ignore_errors=True)


def _summed(array: Array) -> Int64:
    """Sum over row groups, the first axis."""
    groups, *rest = array.shape
    total = np.zeros(rest, dtype=np.int64)
    for group in range(groups):
        total += read_block(array, (slice(group, group + 1), *[slice(None)] * len(rest)))[0]
    return total


def _gram(partials: Partials, block: int) -> Int64:
    """X_b' X_b from the tiles of its upper triangle; those below are never computed."""
    plan, array = partials.plan, partials.array(f"gram/{block}")
    size = plan.layout.sizes[block]
    total = np.zeros((size, size), dtype=np.int64)
    for group in range(plan.n_row_groups):
        for task in plan.tiles_of(group, block):
            rows = plan.inside(block, task.row_tile)
            columns = plan.inside(block, task.column_tile)
            total[rows, columns] += read_block(array, (slice(group, group + 1), rows, columns))[0]
    upper = np.triu(total)
    return upper + np.triu(total, 1).T
