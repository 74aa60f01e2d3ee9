"""Raw statistics: exact, private, and with one way out (`primo_scale.privacy`)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from primo_scale.accumulate.partials import SUBSAMPLE, Partials
from primo_scale.accumulate.plan import Plan
from primo_scale.errors import InputError
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.storage.block_matrices import (
    BlockLayout,
    BlockMatrices,
    BlockMatricesWriter,
    Int64,
    Integers,
)
from primo_scale.storage.chunks import read_block
from primo_scale.storage.groups import Array, attributes_of, is_complete, open_group
from primo_scale.storage.places import Place
from primo_scale.storage.stores import store_at
from primo_scale.storage.tiles import (
    Panel,
    Tile,
    in_threads,
    n_threads,
    panel_height,
    upper_tiles,
    whole_tiles,
)

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


def reduce_partials(partials: Partials, path: Place) -> RawStatistics:
    """Sum the row groups of every committed tile into finished statistics, piece by piece.

    Integer sums commute, so the result does not depend on how the people were cut into groups.
    Memory depends on the cutting alone, see `reduction_bytes`.

    Raises
    ------
    InputError
        A tile was never committed, or is damaged.
    """
    plan, layout = partials.plan, partials.plan.layout
    largest = plan.n_samples * partials.max_code**2
    writer = BlockMatricesWriter(path, KIND, layout, largest_gram=largest)
    blocks, side = range(layout.n_blocks), whole_tiles(plan.tile)

    def sum_gram(piece: tuple[int, Tile]) -> None:
        block, region = piece
        total = _sum_region(partials.array(f"gram/{block}"), region, plan.tile, writer.gram_type)
        for tile in region.cut():
            writer.write_gram_tile(block, tile, total[tile.inside(region)])

    def sum_cross(piece: tuple[int, Panel]) -> None:
        block, panel = piece
        total = _summed(partials.array(f"cross/{block}"), (panel.rows, slice(None)))
        writer.write_cross_panel(block, panel, total)

    regions = ((b, region) for b in blocks for region in upper_tiles(layout.size(b), side))
    in_threads(sum_gram, regions)
    in_threads(sum_cross, ((b, panel) for b in blocks for panel in layout.panels(b)))
    writer.write_outcome_gram(_summed(partials.array("outcome_gram"), (slice(None), slice(None))))
    writer.write_observed(open_outcome_store(partials.inputs.outcomes).observed)
    sha256, inputs = writer.sha256(), partials.inputs.to_json()
    matrices = writer.finish(
        {"plan_digest": partials.attributes["plan_digest"], "sha256": sha256, "inputs": inputs}
    )
    return RawStatistics(matrices, plan.n_samples, sha256, inputs)


def reduction_bytes(plan: Plan) -> int:
    """Largest memory that `reduce_partials` takes beyond what the process holds, whatever d and n.

    A thread holds a region of X'X or a panel of X'Z, what it adds to it, and the bytes that this
    was read from.
    """
    q = plan.layout.n_outcomes
    region = 3 * min(whole_tiles(plan.tile), max(plan.layout.sizes)) ** 2
    panel = (3 * panel_height(q) + 2 * plan.tile) * q
    return np.dtype(np.int64).itemsize * (n_threads() * max(region, panel) + 4 * q * q)


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


def _summed(array: Array, selection: tuple[slice, ...]) -> Int64:
    """Sum of `selection` over row groups, the first axis."""
    groups = array.shape[0]
    total = _group(array, 0, selection).astype(np.int64)
    for group in range(1, groups):
        total += _group(array, group, selection)
    return total


def _sum_region(
    array: Array, region: Tile, tile_side: int, kind: np.dtype[np.signedinteger[Any]]
) -> Integers:
    """A region of X_b'X_b in integers of a `kind`; tiles below the diagonal are never computed.

    Where tiles are smaller than a region on the diagonal, the rest of it is mirrored.
    """
    tiles = list(region.cut(tile_side))
    if len(tiles) == 1:
        return _sum_tile(array, tiles[0], kind)
    total = np.empty(region.shape, dtype=kind)
    for tile in tiles:
        part = _sum_tile(array, tile, kind)
        total[tile.inside(region)] = part
        if region.on_diagonal and not tile.on_diagonal:
            total[tile.inside(region)[::-1]] = part.T
    return total


def _sum_tile(array: Array, tile: Tile, kind: np.dtype[np.signedinteger[Any]]) -> Integers:
    first = _group(array, 0, tile.selection)
    if array.shape[0] == 1:
        return first.astype(kind, copy=False)
    total = first.astype(kind)
    for group in range(1, array.shape[0]):
        total += _group(array, group, tile.selection)
    return total


def _group(array: Array, group: int, selection: tuple[slice, ...]) -> Integers:
    partial: Integers = read_block(array, (slice(group, group + 1), *selection))[0]
    return partial
