"""Raw statistics, which are exact and private; only `primo_scale.privacy` may release them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from primo_scale.accumulation.partials import SUBSAMPLE
from primo_scale.errors import InputError
from primo_scale.storage.block_matrices import BlockLayout, BlockMatrices
from primo_scale.storage.groups import attributes_of, is_complete, open_group
from primo_scale.storage.locations import Location
from primo_scale.storage.stores import store_at

KIND = "statistics"


@dataclass(frozen=True)
class RawStatistics:
    """Exact integer statistics of a cohort. PRIVATE: they must never be published.

    So is their digest, in hexadecimal, since it can confirm a guess.
    """

    matrices: BlockMatrices  # X'X by blocks, X'Z, Z'Z and the counts of people
    n_samples: int
    sha256: str
    inputs: dict[str, Any]  # as `Inputs.to_json` returns them: digests, and clipping norms


def finished_plan_digest(path: Location) -> str | None:
    """Return the plan digest of the finished statistics at `path`, or None if there are none."""
    if not is_complete(path, KIND):
        return None
    return str(attributes_of(open_group(path, KIND))["plan_digest"])


def open_raw_statistics(path: Location, layout: BlockLayout, n_samples: int) -> RawStatistics:
    """Open finished statistics and check every integer against their digest."""
    attributes = attributes_of(open_group(path, KIND))
    matrices = BlockMatrices(path, KIND, layout)
    if attributes["boundaries"] != list(layout.boundaries) or (
        matrices.sha256() != attributes["sha256"]
    ):
        raise InputError(
            "the statistics are damaged or of another design",
            where=str(path),
            remedy="Remove them and run accumulate again",
        )
    return RawStatistics(matrices, n_samples, attributes["sha256"], attributes["inputs"])


def remove_partials(path: Location) -> None:
    """Delete the partial sums of a finished accumulation, and its secret subsample list first.

    The list must not remain, so that it is an error if it cannot be deleted.
    """
    store = store_at(path)
    inside = f"/{SUBSAMPLE}/"
    for store_id in {key.partition(inside)[0] for key in store.all_keys() if inside in key}:
        subsample = f"{store_id}/{SUBSAMPLE}"
        try:
            store.remove_below(subsample)
        except OSError as error:
            raise InputError(
                f"the secret list of the subsample cannot be deleted: {error.strerror}",
                where=str(path / subsample),
                remedy="Delete it by hand, then run the same command again",
            ) from error
    with suppress(OSError):
        store.remove_below("")
