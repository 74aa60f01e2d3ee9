"""python -m pipelines.simulate: a cohort of any size made of real public genotypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from primo_scale.cli.command_line import CONTEXT, ContractCommand, debug_option, explain_errors
from primo_scale.cli.option_types import Number

LARGEST_HERITABILITY = 0.95  # age explains the other 0.05
SEED = click.IntRange(min=0, max=2**63 - 1)


@dataclass(frozen=True)
class CohortChoices:
    """A cohort as asked for on the command line; the options' help says what each means."""

    bfile: str
    out: str
    samples: int
    seed: int
    variants: int | None
    mean_segment: float
    missing: float
    phenotypes: int
    prevalence: float | None
    heritability: float
    causal_fraction: float
    effects_seed: int


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@click.option("--bfile", required=True, metavar="PREFIX", help="PLINK 1 fileset of the panel.")
@click.option("--out", required=True, metavar="PREFIX", help="Files to write: PREFIX.bed, ...")
@click.option("--samples", type=click.IntRange(min=1), required=True, help="People to simulate.")
@click.option("--seed", type=SEED, required=True, help="Of the people.")
@click.option(
    "--variants",
    type=click.IntRange(min=1),
    help="How many; more than the panel has tiles it under new IDs (default: the panel's).",
)
@click.option(
    "--mean-segment",
    type=Number(min=1),
    default=200,
    show_default=True,
    help="Mean number of neighbouring variants copied from one member of the panel.",
)
@click.option(
    "--missing",
    type=Number(min=0, max=1, max_open=True),
    default=0,
    show_default=True,
    help="Share of genotype calls to make missing.",
)
@click.option(
    "--phenotypes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Quantitative traits QT1, QT2, ... of mean 0 and variance 1.",
)
@click.option(
    "--prevalence",
    type=Number(min=0, max=1, min_open=True, max_open=True),
    help="Adds a 0/1 trait CASE with this share of cases.",
)
@click.option(
    "--heritability",
    type=Number(min=0, max=LARGEST_HERITABILITY),
    default=0.3,
    show_default=True,
    help="Of every trait (of CASE: on the liability scale), in the population simulated from.",
)
@click.option(
    "--causal-fraction",
    type=Number(min=0, max=1, min_open=True),
    default=0.01,
    show_default=True,
    help="Share of polymorphic variants that have an effect.",
)
@click.option(
    "--effects-seed",
    type=SEED,
    default=0,
    show_default=True,
    help="Of the effects: cohorts that share it, and the trait options, share their effects.",
)
@debug_option
@explain_errors
def main(**options: Any) -> None:
    """Simulate a cohort whose genotypes are mosaics of a public panel's.

    Writes a PLINK 1 fileset, PREFIX.covar.tsv (age and sex) and, for traits, PREFIX.pheno.tsv,
    the bounds files that a release needs and the true effects. The same options give the same
    files, byte for byte: nobody in them is real, so there is nothing for randomness to protect.
    """
    n_variants = simulate(CohortChoices(**options))
    click.echo(f"{options['out']}: {options['samples']} simulated people, {n_variants} variants")


def simulate(choices: CohortChoices) -> int:
    """Write a cohort's files and return how many variants it has."""
    from primo_scale.simulation.fileset import Fileset
    from primo_scale.simulation.mosaic import Mosaic, genotype_slabs
    from primo_scale.simulation.panel import lay_out_sites, read_panel
    from primo_scale.simulation.traits import TraitModel, draw_effects, simulate_people

    panel = read_panel(choices.bfile)
    sites = lay_out_sites(panel, choices.variants or len(panel.variants))
    mosaic = Mosaic(
        codes=panel.codes,
        panel_row=sites.panel_row,
        chromosome_starts=sites.chromosome_starts,
        mean_segment=choices.mean_segment,
        missing_rate=choices.missing,
        seed=choices.seed,
    )
    model = TraitModel(
        choices.phenotypes, choices.prevalence, choices.heritability, choices.causal_fraction
    )
    n_people, files = choices.samples, Fileset(choices.out)
    files.write_bed(genotype_slabs(mosaic, n_people), mosaic.n_variants, n_people)
    files.write_bim(sites.variants)
    effects = None
    if model.names:
        frequency = panel.a1_frequency[sites.panel_row]
        effects = draw_effects(mosaic, frequency, model, seed=choices.effects_seed)
        files.write_effects(effects, sites.variants, model)
    files.write_bounds(model)
    people = simulate_people(mosaic, n_people, model, effects)
    files.write_people(people, model, f"SIM{choices.seed}")
    return mosaic.n_variants


if __name__ == "__main__":
    main()
