"""Exact sums of a second round: one number for each direction of a phenotype's own. PRIVATE."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.plan import Task
from primo_scale.errors import InputError
from primo_scale.kernels.products import Int64
from primo_scale.storage import groups
from primo_scale.storage.chunks import read_block, write_array
from primo_scale.storage.locations import Location

KIND = "own sums"


@dataclass(frozen=True, eq=False)
class RawOwnSums:
    """Exact integer sums ``sum y_k z_t`` of all directions t. PRIVATE: never to be published."""

    values: Int64  # shape (m,)
    sha256: str
    inputs: dict[str, Any]  # as `Inputs.to_json` returns them


class OwnReduction:
    """Sum of partial sums over row groups."""

    def __init__(self, partials: Partials, path: Location) -> None:
        self._partials, self._path = partials, path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def add(self, task: Task) -> None:
        """Do nothing: the sums are small, and read at the end."""

    def finish(self) -> RawOwnSums:
        """Sum all row groups, and store the result."""
        partials = self._partials
        windows = range(partials.plan.layout.n_blocks)
        parts = [read_block(partials.array(f"cross/{window}")).sum(axis=0) for window in windows]
        values, inputs = np.concatenate(parts)[:, 0], partials.inputs.to_json()
        group = groups.create_group(self._path, KIND, {})
        write_array(group, "sums", values, (min(len(values), 1 << 18),))
        groups.flush(group)
        groups.mark_complete(group, {"inputs": inputs, "sha256": _sha256(values)})
        return RawOwnSums(values, _sha256(values), inputs)


def find_own_sums(path: Location) -> RawOwnSums | None:
    """Return the finished sums at `path` after a check of every integer, or None without any."""
    if not groups.is_complete(path, KIND):
        return None
    group = groups.open_group(path, KIND)
    attributes, values = groups.attributes_of(group), read_block(groups.array_of(group, "sums"))
    if _sha256(values) != attributes["sha256"]:
        raise InputError(
            "the sums of the second round are damaged",
            where=str(path),
            remedy="Remove them and run accumulate again",
        )
    return RawOwnSums(values, attributes["sha256"], attributes["inputs"])


def _sha256(values: Int64) -> str:
    return hashlib.sha256(values.astype("<i8").tobytes()).hexdigest()
