"""``primo-scale simulate``: a cohort of any size made of real public genotypes."""

from __future__ import annotations

from typing import Any

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import Number, count_option

LARGEST_HERITABILITY = 0.95  # age explains the other 0.05
SEED = click.IntRange(min=0, max=2**63 - 1)


@click.command(cls=ContractCommand)
@click.option("--bfile", required=True, metavar="PREFIX", help="PLINK 1 fileset of the panel.")
@click.option("--out", required=True, metavar="PREFIX", help="Files to write: PREFIX.bed, ...")
@count_option("--samples", required=True, help="People to simulate.")
@click.option("--seed", type=SEED, required=True, help="Seed of the people.")
@count_option(
    "--variants",
    help="Number of variants; a larger one tiles the panel under new IDs (default: the panel's).",
)
@click.option(
    "--mean-segment",
    type=Number(min=1),
    default=200,
    help="Mean number of neighbouring variants copied from one member of the panel. Give fewer for "
    "variants thinned by LD, which are far apart: their LD is far too large otherwise.",
)
@click.option(
    "--missing",
    type=Number(min=0, max=1, max_open=True),
    default=0,
    help="Share of genotype calls to make missing.",
)
@click.option(
    "--phenotypes",
    type=click.IntRange(min=0),
    default=0,
    help="Quantitative traits QT1, QT2, ... of mean 0 and variance 1.",
)
@click.option(
    "--prevalence",
    type=Number(min=0, max=1, min_open=True, max_open=True),
    help="Add a 0/1 trait CASE with this share of cases.",
)
@click.option(
    "--heritability",
    type=Number(min=0, max=LARGEST_HERITABILITY),
    default=0.3,
    help="Heritability of every trait in the simulated population (CASE: on the liability scale).",
)
@click.option(
    "--causal-fraction",
    type=Number(min=0, max=1, min_open=True),
    default=0.01,
    help="Share of polymorphic variants that have an effect.",
)
@click.option(
    "--effects-seed",
    type=SEED,
    default=0,
    help="Seed of the effects; cohorts with equal seeds and trait options have equal effects.",
)
def main(**options: Any) -> None:
    """Simulate a cohort whose genotypes are mosaics of a public panel's.

    Writes a PLINK 1 fileset, PREFIX.covar.tsv (age and sex) and, for traits, PREFIX.pheno.tsv,
    the bounds files that a release needs and the true effects. The same options give the same
    files, byte for byte.
    """
    from primo_scale.run.progress import count_bar
    from primo_scale.simulation.cohort import SimulatedCohort, simulate

    n_variants = simulate(SimulatedCohort(**options), count_bar)
    click.echo(f"{options['out']}: {options['samples']} simulated people, {n_variants} variants")
