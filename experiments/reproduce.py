"""``python -m experiments.reproduce FIGURE``: run a figure of a paper, or all, and draw it.

`docs/papers` shows the figures beside what the papers state.
"""

from __future__ import annotations

from pathlib import Path

import click

from experiments import (
    gopher,
    primo_baselines,
    primo_complexity,
    primo_dp_sgd,
    primo_figures,
    primo_lemmas,
    primo_rates,
    projections,
    reconstruction,
    side_by_side,
    sketching_figures,
    thesis_bound,
    thesis_figures,
    wu_figures,
    wu_rates,
)
from experiments.reproduction import reproduce

# Figures on real tables, of which the user can add those that are not in the repository.
ON_TABLES = wu_figures.ON_TABLES
FIGURES = {
    **gopher.FIGURES,
    **wu_figures.FIGURES,
    **wu_rates.FIGURES,
    **primo_figures.FIGURES,
    **primo_rates.FIGURES,
    **primo_baselines.FIGURES,
    **primo_dp_sgd.FIGURES,
    **primo_lemmas.FIGURES,
    **primo_complexity.FIGURES,
    **thesis_figures.FIGURES,
    **thesis_bound.FIGURES,
    **side_by_side.FIGURES,
    **reconstruction.FIGURES,
    **sketching_figures.FIGURES,
    **projections.FIGURES,
    **{name: make(None) for name, make in ON_TABLES.items()},
}


@click.command()
@click.argument("figure", type=click.Choice([*FIGURES, "all"]))
@click.option("--out", type=click.Path(path_type=Path), default="reproduced", show_default=True)
@click.option("--repetitions", type=click.IntRange(min=2), help="[default: the paper's number]")
@click.option(
    "--tables",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=f"Folder of further tables, for {' or '.join(ON_TABLES)} (docs/papers).",
)
@click.option("--quick", is_flag=True, help="Run a reduced grid, and write it to OUT/quick.")
def main(
    figure: str, out: Path, repetitions: int | None, tables: Path | None, *, quick: bool
) -> None:
    """Write FIGURE.csv and FIGURE.svg; the same command continues after an interruption."""
    if tables and figure not in ON_TABLES:
        raise click.UsageError(
            f"{figure} uses no further tables (only {', '.join(ON_TABLES)} does)"
        )
    folder = out / "quick" if quick else out
    for name in FIGURES if figure == "all" else [figure]:
        full = ON_TABLES[name](tables) if tables else FIGURES[name]
        chosen = full.reduced() if quick else full
        rows = reproduce(chosen, name, folder, repetitions=repetitions or chosen.repetitions)
        click.echo(f"{chosen.title}: {len(rows)} rows in {folder / name}.csv, drawn in {name}.svg")


if __name__ == "__main__":
    main()
