"""Raw statistics: exact, private, and with one way out (`primo_scale.privacy`)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from primo_scale.accumulate.partials import SUBSAMPLE
from primo_scale.errors import InputError
from primo_scale.storage.block_matrices import BlockLayout, BlockMatrices
from primo_scale.storage.groups import attributes_of, is_complete, open_group
from primo_scale.storage.places import Place
from primo_scale.storage.stores import store_at

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


def finished_plan_digest(path: Place) -> str | None:
    """Digest of the plan whose finished statistics are at `path`, or None if there are none."""
    if not is_complete(path, KIND):
        return None
    return str(attributes_of(open_group(path, KIND))["plan_digest"])


def open_raw_statistics(path: Place, layout: BlockLayout, n_samples: int) -> RawStatistics:
    """Open finished statistics and check every integer against their digest.

    Raises
    ------
    InputError
        There are none, they were never finished, have another shape, or are damaged.
    """
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
    inputs: Any = attributes["inputs"]
    return RawStatistics(matrices, n_samples, str(attributes["sha256"]), dict(inputs))


def remove_partials(path: Place) -> None:
    """Delete the partial sums of a finished accumulation, and who was in a subsample with them.

    Raises
    ------
    InputError
        The list of a subsample cannot be deleted, and it must not stay.
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
