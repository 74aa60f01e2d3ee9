"""What a release needs of the machine it is made on, said and refused before it is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.design import Design
from primo_scale.accumulate.preflight import statistics_bytes
from primo_scale.errors import ResourceError
from primo_scale.in_words import bytes_in_words
from primo_scale.machine import available_memory, free_disk
from primo_scale.methods.solve_memory import solve_bytes

if TYPE_CHECKING:
    from pipelines.estimation import Chosen

# Of the libraries that are loaded on the way, and of pieces of statistics while noise is drawn
# (measured, Linux, Python 3.11: 60 MiB and 120 MiB).
_BASE_BYTES = 180 << 20


@dataclass(frozen=True)
class ReleaseNeeds:
    """Resources of one release, from public sizes.

    Attributes
    ----------
    memory_bytes
        What the process takes on at its peak.
    noisy_bytes
        Private statistics on the disk of the work directory; none without noise.
    largest_block
        Variants in the largest LD block, which memory grows with the square of.
    """

    memory_bytes: int
    noisy_bytes: int
    largest_block: int


def release_needs(design: Design, chosen: Chosen | None) -> ReleaseNeeds:
    """What a release of a design will need: by a method, or at least where that is still open."""
    layout = design.layout
    copies, keeps = 1, False
    if chosen is not None:
        copies = chosen.method.recipe(layout.n_phenotypes, design.subsample).gram_copies
        keeps = chosen.keeps_spectra
    solving = solve_bytes(layout, gram_copies=copies, keeps_spectra=keeps)
    return ReleaseNeeds(
        memory_bytes=_BASE_BYTES + solving,
        noisy_bytes=statistics_bytes(layout, copies) if design.clipped else 0,
        largest_block=max(layout.sizes),
    )


def refuse_small_memory(needs: ReleaseNeeds) -> None:
    """Compare with what there is of memory.

    Raises
    ------
    ResourceError
        There is less.
    """
    there = available_memory()
    if needs.memory_bytes > there:
        raise ResourceError(
            f"not enough memory to solve blocks of up to {needs.largest_block} variants",
            value=f"{bytes_in_words(there)} there",
            limit=f"{bytes_in_words(needs.memory_bytes)} needed",
            remedy="Use smaller LD blocks (--ld-blocks window:N), or run finalize on the same "
            "--work-dir where there is more memory",
        )


def refuse_full_disk(needs: ReleaseNeeds, noise: Path) -> None:
    """Compare what is still to be written of private statistics with what there is of disk.

    Raises
    ------
    ResourceError
        There is less.
    """
    written = sum(path.stat().st_size for path in noise.rglob("*") if path.is_file())
    missing, there = needs.noisy_bytes - written, free_disk(noise)
    if missing > there:
        raise ResourceError(
            "not enough free disk for the private statistics",
            where=noise,
            value=f"{bytes_in_words(there)} free",
            limit=f"{bytes_in_words(missing)} needed",
            remedy="Make room, and run the same command again",
        )
