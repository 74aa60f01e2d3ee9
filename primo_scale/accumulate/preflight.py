"""What an accumulation will need, said before it starts, and refused if it is not there."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from dask.utils import parse_bytes

from primo_scale.accumulate.plan import Plan
from primo_scale.errors import ResourceError
from primo_scale.machine import available_memory

# Resident size of an idle worker with numba, numpy, Zarr and distributed imported (measured).
_WORKER_BASE_BYTES = 260 * 2**20
_INT64 = 8


@dataclass(frozen=True)
class Needs:
    """Resources of one accumulation, computed from public shapes.

    Attributes
    ----------
    tasks
        Row and tile tasks in all.
    disk_bytes
        Largest size of the work directory's statistics, partial sums included.
    worker_bytes
        Peak memory of one worker.
    client_bytes
        Peak memory of the process that sums the row groups of a block.
    """

    tasks: int
    disk_bytes: int
    worker_bytes: int
    client_bytes: int


def needs_of(plan: Plan) -> Needs:
    """Predict what `plan` needs; nothing in it grows with the number of people but the disk."""
    layout, q = plan.layout, plan.layout.n_outcomes
    blocks = range(layout.n_blocks)
    tiles = {block: plan.n_tiles(block) for block in blocks}
    side = min(plan.tile, max(layout.sizes))
    upper_entries = sum(min(plan.tile, layout.sizes[b]) ** 2 * t * (t + 1) // 2
                        for b, t in tiles.items())  # fmt: skip
    cross_entries = layout.n_variants * q
    partial = _INT64 * plan.n_row_groups * (upper_entries + cross_entries + q * q)
    final = _INT64 * (sum(size * size for size in layout.sizes) + cross_entries + q * q)
    rows = min(plan.rows_per_read, plan.n_samples)
    # int64 total, float product and its int64 copy; codes of both tiles and their float copies;
    # outcome rows as int16 and float64, and the cross product like the Gram.
    tile_task = (24 * side + 10 * rows) * side + (10 * rows + 24 * side) * q
    # Outcome rows and Z'Z; norms and multipliers of every block, several times.
    row_task = rows * q * 26 + 24 * q * q + rows * layout.n_blocks * 40
    largest_block = max(layout.sizes) ** 2 + max(layout.sizes) * q
    return Needs(
        tasks=plan.n_row_groups * (1 + sum(t * (t + 1) // 2 for t in tiles.values())),
        disk_bytes=partial + final + plan.n_samples * (2 * q + 4 * layout.n_blocks),
        worker_bytes=_WORKER_BASE_BYTES + max(tile_task, row_task),
        client_bytes=_WORKER_BASE_BYTES + 4 * _INT64 * largest_block,
    )


def refuse_if_too_small(needs: Needs, work_dir: Path, local_workers: int) -> None:
    """Compare what is needed with this machine.

    Raises
    ------
    ResourceError
        Too little free disk below `work_dir`, or too little memory for `local_workers` workers.
    """
    free = shutil.disk_usage(work_dir).free
    if needs.disk_bytes > free:
        raise ResourceError(
            "not enough free disk for the statistics",
            where=work_dir,
            value=f"{free / 2**30:.3g} GiB free",
            limit=f"{needs.disk_bytes / 2**30:.3g} GiB needed",
            remedy="Use smaller LD blocks (--ld-blocks window:N), or a --work-dir on a larger disk",
        )
    memory = available_memory()
    wanted = max(local_workers * needs.worker_bytes, needs.client_bytes)
    if wanted > memory:
        raise ResourceError(
            "not enough memory for the statistics",
            value=f"{memory / 2**30:.3g} GiB available",
            limit=f"{wanted / 2**30:.3g} GiB needed by {local_workers} workers",
            remedy="Use fewer --workers, or smaller LD blocks (--ld-blocks window:N)",
        )


def refuse_small_workers(needs: Needs, memory_limit: str | None) -> None:
    """Refuse a limit under which every worker would be killed and restarted for ever.

    Raises
    ------
    ResourceError
        `memory_limit`, as Dask writes it, is below the peak of one worker.
    """
    if memory_limit is not None and parse_bytes(memory_limit) < needs.worker_bytes:
        raise ResourceError(
            "a worker needs more memory than it may have",
            where="--memory-limit",
            value=memory_limit,
            limit=f"{needs.worker_bytes / 2**20:.0f} MiB needed",
            remedy="Raise the limit, or use smaller LD blocks (--ld-blocks window:N)",
        )
