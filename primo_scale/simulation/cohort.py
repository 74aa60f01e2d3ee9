"""A simulated cohort as a whole: genotypes, covariates, phenotypes and the files they go to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

from primo_scale.genotypes.write_fileset import GenotypeSlab
from primo_scale.simulation.cohort_files import CohortFiles
from primo_scale.simulation.mosaic import PEOPLE_PER_STRIPE, Mosaic, genotype_slabs
from primo_scale.simulation.panel import lay_out_sites, read_panel
from primo_scale.simulation.traits import TraitModel, draw_effects, simulate_people

Progress = Callable[[str, str], AbstractContextManager[Callable[[int, int], None]]]
"""Context of a progress bar, given its name and what it counts.

It yields a function that is called with (count done, total count).
"""

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class SimulatedCohort:
    """Parameters of a simulated cohort."""

    bfile: str  # prefix of the PLINK 1 fileset of the panel
    out: str  # prefix of the files to write
    samples: int
    seed: int  # of the people
    # More variants than the panel has tile it under new IDs. None stands for those of the panel.
    variants: int | None = None
    # Mean number of neighbouring variants copied from one member of the panel.
    mean_segment: float = 200
    missing: float = 0  # share of genotype calls
    phenotypes: int = 0  # quantitative traits, of mean 0 and variance 1
    # Share of cases of a further binary trait; None stands for no such trait.
    prevalence: float | None = None
    # Heritability of every trait, of the binary one on the liability scale.
    heritability: float = 0.3
    causal_fraction: float = 0.01  # share of polymorphic variants that have an effect
    # Seed of the effects; cohorts that share it, and the trait options, share their effects.
    effects_seed: int = 0


def simulate(
    cohort: SimulatedCohort,
    progress: Progress = lambda name, of_what: nullcontext(lambda done, total: None),
) -> int:
    """Write the files of a cohort and return its number of variants."""
    files = CohortFiles(cohort.out)
    files.refuse_others()
    panel = read_panel(cohort.bfile)
    sites = lay_out_sites(panel, cohort.variants or len(panel.variants))
    mosaic = Mosaic(
        codes=panel.codes,
        panel_row=sites.panel_row,
        chromosome_starts=sites.chromosome_starts,
        mean_segment=cohort.mean_segment,
        missing_rate=cohort.missing,
        seed=cohort.seed,
    )
    model = TraitModel(
        cohort.phenotypes, cohort.prevalence, cohort.heritability, cohort.causal_fraction
    )
    n_people = cohort.samples
    with progress("genotypes", "variants") as move:
        counted = _counted(
            genotype_slabs(mosaic, n_people),
            lambda slab: move(*_variants_done(slab, mosaic, n_people)),
        )
        files.write_genotypes(counted, sites.variants, n_people)
    effects = None
    if model.names:
        frequency = panel.a1_frequency[sites.panel_row]
        effects = draw_effects(mosaic, frequency, model, seed=cohort.effects_seed)
        files.write_effects(effects, sites.variants, model)
    files.write_bounds(model)
    with progress("covariates and traits", "people") as move:
        people = simulate_people(mosaic, n_people, model, effects)
        written = _counted(people, lambda slab: move(slab.people.stop, n_people))
        files.write_people(written, model, cohort.seed)
    return mosaic.n_variants


def _variants_done(slab: GenotypeSlab, mosaic: Mosaic, n_people: int) -> tuple[int, int]:
    """Return how many variants are done after a slab, and their total, over all stripes."""
    stripe, stripes = slab.first_person // PEOPLE_PER_STRIPE, -(-n_people // PEOPLE_PER_STRIPE)
    done = stripe * mosaic.n_variants + slab.first_variant + len(slab.packed)
    return done, stripes * mosaic.n_variants


def _counted(parts: Iterable[_Part], report: Callable[[_Part], None]) -> Iterator[_Part]:
    """Yield each part, and report it once the consumer is done with it."""
    for part in parts:
        yield part
        report(part)
