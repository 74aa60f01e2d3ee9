"""A simulated cohort as a whole: genotypes, covariates, phenotypes and the files they go to."""

from __future__ import annotations

from dataclasses import dataclass

from primo_scale.simulation.fileset import Fileset
from primo_scale.simulation.mosaic import Mosaic, genotype_slabs
from primo_scale.simulation.panel import lay_out_sites, read_panel
from primo_scale.simulation.traits import TraitModel, draw_effects, simulate_people


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


def simulate(cohort: SimulatedCohort) -> int:
    """Write the files of a cohort and return its number of variants."""
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
    n_people, files = cohort.samples, Fileset(cohort.out)
    files.write_genotypes(genotype_slabs(mosaic, n_people), sites.variants, n_people)
    effects = None
    if model.names:
        frequency = panel.a1_frequency[sites.panel_row]
        effects = draw_effects(mosaic, frequency, model, seed=cohort.effects_seed)
        files.write_effects(effects, sites.variants, model)
    files.write_bounds(model)
    people = simulate_people(mosaic, n_people, model, effects)
    files.write_people(people, model, f"SIM{cohort.seed}")
    return mosaic.n_variants
