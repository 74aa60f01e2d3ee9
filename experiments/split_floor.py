"""``python -m experiments.split_floor``: the lower limit of the split t.

The first-order optimum of docs/maths/gram.md gives X'X nearly all of mu^2 if X'X is large and there
are few phenotypes (t = 0.2 at d = 800). It weighs the noise in X'X as if least squares were solved
with it. The product's weights for known noise tolerate much of that noise, but not the noise in
X'Y; hence the floor on t in `primo_scale.privacy.planning`. This experiment measures the R^2 of
those weights in people outside the cohort as a function of t, on mosaics of real genotypes, with
epsilon 5, delta 1/n^2, replace-one, full privacy, heritability 0.3, and the product's bounds and
clip. All t of a repetition share the cohort and the standard normal noise, so that their
differences are paired.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import click
import numpy as np

from experiments.figures import markdown_table, standard_error
from experiments.gaussian_noise import Draws, Float64, draw
from experiments.mosaic_statistics import (
    HERITABILITY,
    ClippedStatistics,
    Population,
    clipped_statistics,
    draw_population,
)
from primo_scale.gaussian.calibration import optimal_split, optimal_split_by_block
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.methods.shrinkage import KnownNoise, floored_at_zero
from primo_scale.privacy.mechanism import Promise, PublicBounds, Recipe
from primo_scale.privacy.planning import (
    PRIOR_HERITABILITY,
    PublicSizes,
    attenuation,
    choose_phenotype_clip,
    phenotype_norm,
    split_for,
    variance_left,
)
from primo_scale.privacy.scales import calibrate

SPLITS = (0.05, 0.1, 0.2, 0.5, 0.7, 1.0, 2.0)
EPSILON = 5.0
_SEED = 20261123
_STEPS = 2**12  # of the lattice, to one standard deviation of a phenotype


@dataclass(frozen=True)
class Cell:
    """People n, variants d in so many LD blocks, phenotypes l."""

    n_people: int
    n_variants: int
    n_blocks: int
    n_phenotypes: int

    @property
    def promise(self) -> Promise:
        """Full privacy, replace-one."""
        return Promise(EPSILON, self.n_people**-2.0)


CELLS = (
    Cell(2_000, 25, 1, 1),
    Cell(2_000, 200, 1, 1),
    Cell(2_000, 200, 8, 10),
    Cell(5_000, 25, 1, 10),
    Cell(5_000, 400, 1, 10),
    Cell(20_000, 100, 1, 1),
    Cell(20_000, 800, 1, 1),
    Cell(20_000, 1_000, 40, 10),
    Cell(100_000, 200, 1, 1),
    Cell(100_000, 1_000, 4, 10),
    Cell(100_000, 1_000, 40, 1),
    Cell(500_000, 800, 1, 1),
)


@dataclass(frozen=True)
class Plan:
    """Public choices of the product for one cell and population.

    `clip` is b, `first_order` the optimal split of docs/maths/gram.md before the floor, and
    `planned` the split that the product's planner chooses.
    """

    bounds: PublicBounds
    clip: float
    first_order: float
    planned: float


def make_plan(cell: Cell, population: Population) -> Plan:
    """Choose bounds, clip and split from public sizes, as `primo_scale.run.design_choices` does."""
    sizes = PublicSizes(
        n_samples=cell.n_people,
        n_variants=cell.n_variants,
        n_phenotypes=cell.n_phenotypes,
        largest_block=max(np.diff(population.boundaries).tolist()),
        row_norm=population.row_norm,
        variant_variance=population.coding.variance / cell.n_variants,
        phenotype_scale=_STEPS,
    )
    bounds = PublicBounds(
        row_norm=population.row_norm,
        block_norms=population.block_norms if cell.n_blocks > 1 else None,
        fixed_norm=1,
        phenotype_norm=phenotype_norm(sizes, clip=math.inf),
        block_sizes=tuple(np.diff(population.boundaries).tolist()),
        n_samples=cell.n_people,
        n_phenotypes=cell.n_phenotypes,
    )
    dense = replace(bounds, block_norms=None)
    unit, recipe = Promise(1.0, 1e-6), Recipe()
    scales = [calibrate(b, unit, recipe, split=_split(sizes, b)).scales for b in (dense, bounds)]
    whole, blocks = (max(each.gram) * each.phenotype_cross for each in scales)
    if blocks >= whole:
        bounds = dense

    def cross_sigma_at(norm: int) -> float:
        planned = replace(bounds, phenotype_norm=norm)
        split = _split(sizes, planned)
        return calibrate(planned, cell.promise, recipe, split=split).scales.phenotype_cross

    clip = choose_phenotype_clip(sizes, cross_sigma_at)
    bounds = replace(bounds, phenotype_norm=phenotype_norm(sizes, clip=clip))
    return Plan(bounds, clip, _first_order(sizes, bounds), _split(sizes, bounds))


def _largest_block_norm(bounds: PublicBounds) -> int | None:
    return None if bounds.block_norms is None else max(bounds.block_norms)


def _split(sizes: PublicSizes, bounds: PublicBounds) -> float:
    return split_for(
        sizes,
        outcome_norm=bounds.outcome_norm,
        adjacency=Adjacency.REPLACE_ONE,
        block_norm=_largest_block_norm(bounds),
    )


def _first_order(sizes: PublicSizes, bounds: PublicBounds) -> float:
    """Return the split that minimizes ``a/A + b/D`` (docs/maths/gram.md and blocks.md)."""
    per_phenotype = PRIOR_HERITABILITY * sizes.phenotype_scale**2 / sizes.variant_variance
    share = sizes.largest_block / sizes.n_variants
    norm = _largest_block_norm(bounds)
    gram_weight = (norm or bounds.row_norm) * per_phenotype * share / 2
    if norm is None:
        return optimal_split(gram_weight, float(bounds.outcome_norm), Adjacency.REPLACE_ONE)
    return optimal_split_by_block(gram_weight, float(bounds.outcome_norm))


def cohort_and_noise(
    cell: Cell, plan: Plan, population: Population, rng: np.random.Generator
) -> tuple[ClippedStatistics, list[Draws]]:
    """Return statistics of a cohort, clipped as planned, and standard normal noise for them."""
    statistics = clipped_statistics(
        population,
        cell.n_people,
        phenotype_bound=math.sqrt(plan.bounds.phenotype_norm) / _STEPS,
        by_block=plan.bounds.block_norms is not None,
        rng=rng,
    )
    return statistics, [draw(len(gram), cell.n_phenotypes, rng) for gram in statistics.grams]


def r_squared_by_split(cell: Cell, rng: np.random.Generator) -> tuple[Plan, Float64]:
    """Return the R^2 outside the cohort for each of `SPLITS` and the planned t, shape (8,)."""
    population = draw_population(cell.n_variants, cell.n_blocks, cell.n_phenotypes, rng)
    plan = make_plan(cell, population)
    statistics, draws = cohort_and_noise(cell, plan, population, rng)
    values = [
        population.r_squared(released_weights(cell, plan, population, statistics, draws, split))
        for split in (*SPLITS, plan.planned)
    ]
    return plan, np.array(values)


def released_weights(
    cell: Cell,
    plan: Plan,
    population: Population,
    statistics: ClippedStatistics,
    draws: list[Draws],
    split: float,
) -> Float64:
    """Add noise at one split, and return the product's weights for known noise, shape (d, l)."""
    scales = calibrate(plan.bounds, cell.promise, Recipe(), split=split).scales
    cross_sigma = scales.phenotype_cross / _STEPS
    kept = attenuation(plan.clip, cell.n_phenotypes)
    left = variance_left(plan.clip, cell.n_phenotypes)
    effect_variance = PRIOR_HERITABILITY / population.coding.variance * kept**2
    ones = np.ones(cell.n_phenotypes)
    weights = np.empty_like(statistics.cross)
    for block, (gram, noise) in enumerate(zip(statistics.grams, draws, strict=True)):
        columns = slice(population.boundaries[block], population.boundaries[block + 1])
        rule = KnownNoise(
            effect_variance * ones, left * ones, cross_sigma * ones, scales.gram[block]
        )
        values, vectors = np.linalg.eigh(gram + scales.gram[block] * noise.svec)
        values = floored_at_zero(values)
        target = vectors.T @ (statistics.cross[columns] + cross_sigma * noise.cross)
        weights[columns] = vectors @ (rule.factors(values, target) * target) / kept
    return weights


def report(repetitions: int) -> str:
    """Return the table as Markdown."""
    return "\n\n".join(
        (
            "### The floor of the split",
            f"R^2 outside the cohort (h2 = {HERITABILITY}), mean +- standard error of "
            f"{repetitions} repetitions; in brackets the paired difference from the best t of the "
            "row, in per cent of its R^2, with its standard error.",
            markdown_table(
                ("n, d, blocks, l", "first-order t", *(f"t = {t:g}" for t in SPLITS), "planned"),
                [_row(cell, repetitions) for cell in CELLS],
            ),
        )
    )


def _row(cell: Cell, repetitions: int) -> list[str]:
    found = []
    for repetition in range(repetitions):
        seed = [_SEED, cell.n_people, cell.n_variants, cell.n_blocks, repetition]
        found.append(r_squared_by_split(cell, np.random.default_rng(seed)))
    values = np.array([r_squared for _, r_squared in found])
    means = values.mean(axis=0)
    best = int(np.argmax(means[: len(SPLITS)]))
    cells = []
    for index, mean in enumerate(means):
        text = f"{mean:.4f} +- {standard_error(values[:, index]):.4f}"
        if index != best:
            gap = 100 * (values[:, index] - values[:, best]) / means[best]
            text += f" ({gap.mean():+.1f} +- {standard_error(gap):.1f})"
        cells.append(f"**{text}**" if index == best else text)
    first_order = float(np.mean([plan.first_order for plan, _ in found]))
    planned = float(np.mean([plan.planned for plan, _ in found]))
    blocks = "by block" if found[0][0].bounds.block_norms is not None else "dense"
    name = f"{cell.n_people:,}, {cell.n_variants}, {cell.n_blocks} ({blocks}), {cell.n_phenotypes}"
    return [name, f"{first_order:.2f}", *cells[:-1], f"t = {planned:.2f}: {cells[-1]}"]


@click.command()
@click.option("--repetitions", type=click.IntRange(min=2), default=20, show_default=True)
def main(repetitions: int) -> None:
    """Measure R^2 over the split t between X'X and X'Y."""
    click.echo(report(repetitions))


if __name__ == "__main__":
    main()
