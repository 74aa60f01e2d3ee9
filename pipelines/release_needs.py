"""What a release needs of the machine it is made on, said and refused before it is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.design import Design
from primo_scale.accumulate.preflight import statistics_bytes
from primo_scale.errors import ResourceError
from primo_scale.in_words import bytes_in_words
from primo_scale.machine import available_memory, free_disk, resident_memory
from primo_scale.methods.solve_memory import solve_bytes
from primo_scale.storage.tiles import TILE

if TYPE_CHECKING:
    from pipelines.estimation import Chosen

# Resident size of a process that has loaded what it releases with (measured, Linux, Python 3.11:
# 300 to 350 MiB).
_PROCESS_BYTES = 330 << 20
# Of all weights, when solved: on the lattice, per allele, and one on the way from these to those.
_WEIGHTS = 3
# Copies of a tile of X'X while its noise is drawn (measured: 120 MiB in all), and of Z'Z.
_TILES_DRAWN, _OUTCOME_GRAMS = 15, 4
_ENTRY = 8


@dataclass(frozen=True)
class ReleaseNeeds:
    """Resources of one release, from public sizes.

    Attributes
    ----------
    memory_bytes
        Peak of the process that makes it.
    noisy_bytes
        Private statistics on the disk of the work directory; none without noise.
    largest_block
        Variants in the largest LD block, which memory grows with the square of.
    """

    memory_bytes: int
    noisy_bytes: int
    largest_block: int


def memory_line(needs: ReleaseNeeds) -> str:
    """For the terminal and the private log."""
    size = bytes_in_words(needs.memory_bytes)
    return f"pre-flight: a release takes {size} for blocks of up to {needs.largest_block} variants"


def release_needs(design: Design, chosen: Chosen | None) -> ReleaseNeeds:
    """What a release of a design will need: by a method, or at least where that is still open."""
    layout = design.layout
    copies, keeps = 1, False
    if chosen is not None:
        copies = chosen.method.recipe(layout.n_phenotypes, design.subsample).gram_copies
        keeps = chosen.keeps_spectra
    largest = max(layout.sizes)
    solving = solve_bytes(layout, gram_copies=copies, keeps_spectra=keeps)
    publishing = _ENTRY * _WEIGHTS * layout.n_variants * layout.n_phenotypes
    drawing = _ENTRY * _TILES_DRAWN * min(largest, TILE) ** 2
    outcomes = _ENTRY * _OUTCOME_GRAMS * layout.n_outcomes**2
    return ReleaseNeeds(
        memory_bytes=_PROCESS_BYTES + outcomes + max(solving, publishing, drawing),
        noisy_bytes=statistics_bytes(layout, copies) if design.clipped else 0,
        largest_block=largest,
    )


def refuse_small_memory(needs: ReleaseNeeds) -> None:
    """Compare with what this process has and can get.

    Raises
    ------
    ResourceError
        It is less.
    """
    there = available_memory() + resident_memory()
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
