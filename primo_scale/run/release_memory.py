"""What a release needs of the machine it is made on, said and refused before it is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primo_scale.errors import ResourceError
from primo_scale.humanize import bytes_in_words
from primo_scale.machine import available_memory, resident_memory
from primo_scale.methods.catalogue import METHODS
from primo_scale.methods.solve_memory import solve_bytes
from primo_scale.run.design import Design
from primo_scale.storage.block_matrices import stored_bytes
from primo_scale.storage.tiles import TILE

if TYPE_CHECKING:
    from primo_scale.run.method_choice import Chosen

# Resident size of a process that has loaded what it releases with (measured, Linux, Python 3.11:
# 300 to 350 MiB).
_PROCESS_BYTES = 350 << 20
# Of all weights, when solved: on the lattice, per allele, and one on the way from these to those.
_WEIGHTS = 3
# Names and alleles of a variant, and its lines on the way to the files (measured: 140 and 400).
_PER_VARIANT = 600
# Copies of a tile of X'X while its noise is drawn (measured: 120 MiB in all), and of Z'Z.
_TILES_DRAWN, _OUTCOME_GRAMS = 15, 4
_ENTRY = 8
_LEAST = METHODS["reuse-cov-gauss"]  # of the methods, it needs the least


@dataclass(frozen=True)
class ReleaseNeeds:
    """Resources of one release, from public sizes.

    Attributes
    ----------
    solving_bytes, publishing_bytes, drawing_bytes
        Memory beyond that of an idle process, at three moments.
    noisy_bytes
        Private statistics on the disk of the work directory; none without noise.
    largest_block
        Variants in the largest LD block; solving grows with the square of it.
    """

    solving_bytes: int
    publishing_bytes: int
    drawing_bytes: int
    noisy_bytes: int
    largest_block: int

    @property
    def memory_bytes(self) -> int:
        """Peak of this process if it makes the release."""
        process = max(_PROCESS_BYTES, resident_memory())
        return process + max(self.solving_bytes, self.publishing_bytes, self.drawing_bytes)


def release_needs(design: Design, chosen: Chosen | None) -> ReleaseNeeds:
    """What a release of a design will need: by a method, or at least where that is still open."""
    layout, method = design.layout, _LEAST if chosen is None else chosen.method
    estimator = method.estimator if chosen is None else chosen.estimator
    copies = layout.n_phenotypes if method.gram_per_phenotype else 1
    largest = max(layout.sizes)
    weights = _ENTRY * layout.n_variants * layout.n_phenotypes
    tiles, outcomes = min(largest, TILE) ** 2, layout.n_outcomes**2
    return ReleaseNeeds(
        solving_bytes=solve_bytes(layout, method, estimator),
        publishing_bytes=_WEIGHTS * weights + _PER_VARIANT * layout.n_variants,
        drawing_bytes=_ENTRY * (_TILES_DRAWN * tiles + _OUTCOME_GRAMS * outcomes),
        noisy_bytes=stored_bytes(layout, gram_copies=copies) if design.clipped else 0,
        largest_block=largest,
    )


def memory_line(needs: ReleaseNeeds) -> str:
    """For the terminal and the private log."""
    size = bytes_in_words(needs.memory_bytes)
    blocks = f"blocks of up to {needs.largest_block} variants"
    return f"pre-flight: noise and weights take {size} of memory, for {blocks}"


def refuse_small_memory(needs: ReleaseNeeds) -> None:
    """Compare with what this process has and can get.

    Raises
    ------
    ResourceError
        It is less.
    """
    there = available_memory() + resident_memory()
    if needs.memory_bytes <= there:
        return
    if needs.solving_bytes >= needs.publishing_bytes:
        what = f"solve blocks of up to {needs.largest_block} variants"
        instead = "smaller LD blocks (--ld-blocks window:N) in a new --work-dir"
    else:
        what, instead = "hold the weights of all phenotypes", "fewer phenotypes (--pheno-name)"
    raise ResourceError(
        f"not enough memory to {what}",
        value=f"{bytes_in_words(there)} there",
        limit=f"{bytes_in_words(needs.memory_bytes)} needed",
        remedy=f"Finalize where there is more memory, or use {instead}",
    )
