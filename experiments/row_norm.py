"""``python -m experiments.row_norm``: the bound N_x on rows of variants.

The noise on X'Y grows with the root of N_x, and rows with a larger squared norm are scaled down to
it. Nearly all rows have a norm near its mean V, so that a bound near V costs little. This
experiment measures the R^2 of released weights in people outside the cohort as a function of
N_x / V, in the cells of `experiments.split_floor`, with the product's other bounds. All bounds of a
repetition share the people and the standard normal noise, so that their differences are paired.
"""

from __future__ import annotations

import math
from dataclasses import replace

import click
import numpy as np

from experiments.figures import markdown_table, standard_error
from experiments.gaussian_noise import Float64
from experiments.mosaic_statistics import draw_population
from experiments.split_floor import CELLS, Cell, cohort_and_noise, make_plan, released_weights

EXCESSES = (-0.5, 0.0, 0.5, 1.0, 2.0, 4.0)
"""Numbers a of the bounds ``N_x = (1 + a / sqrt(d)) V``."""
_SEED = 20261124


def r_squared_by_bound(cell: Cell, seed: list[int]) -> Float64:
    """Return the R^2 outside the cohort for each of `EXCESSES`."""
    drawn = draw_population(
        cell.n_variants, cell.n_blocks, cell.n_phenotypes, np.random.default_rng(seed)
    )
    found = []
    for excess in EXCESSES:
        rng = np.random.default_rng([*seed, 1])
        share = 1 + excess / math.sqrt(cell.n_variants)
        norm = min(math.ceil(share * drawn.coding.variance), drawn.coding.max_squared_norm)
        population = replace(drawn, row_norm=norm)
        plan = make_plan(cell, population)
        statistics, draws = cohort_and_noise(cell, plan, population, rng)
        weights = released_weights(cell, plan, population, statistics, draws, plan.planned)
        found.append(population.r_squared(weights))
    return np.array(found)


@click.command()
@click.option("--repetitions", type=click.IntRange(min=2), default=10, show_default=True)
@click.option("--most-people", default=100_000, show_default=True, help="Of the cells measured.")
def main(repetitions: int, most_people: int) -> None:
    """Measure R^2 over the bound on rows of variants."""
    rows = []
    for cell in (cell for cell in CELLS if cell.n_people <= most_people):
        key = [_SEED, cell.n_people, cell.n_variants, cell.n_blocks]
        values = np.array([r_squared_by_bound(cell, [*key, r]) for r in range(repetitions)])
        means, gaps = values.mean(axis=0), 100 * (values / values[:, [-1]] - 1)
        name = f"{cell.n_people:,}, {cell.n_variants}, {cell.n_blocks}, {cell.n_phenotypes}"
        gains = (f"{gap.mean():+.1f} +- {standard_error(gap):.1f}" for gap in gaps.T[:-1])
        rows.append((name, f"{means[-1]:.4f}", *gains))
        click.echo(rows[-1])
    first, *others = EXCESSES[::-1]
    headers = (f"a = {excess:g}, %" for excess in others[::-1])
    click.echo(markdown_table(("n, d, blocks, l", f"R^2 at a = {first:g}", *headers), rows))


if __name__ == "__main__":
    main()
