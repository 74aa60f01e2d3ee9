"""``python -m experiments.reproduce FIGURE``: run a figure of a paper, or all, and draw it.

`docs/papers` shows the figures beside what the papers state.
"""

from __future__ import annotations

from pathlib import Path

import click

from experiments import primo_baselines, primo_figures, primo_rates, side_by_side, wu_figures
from experiments.reproduction import reproduce

FIGURES = {
    **wu_figures.FIGURES,
    **primo_figures.FIGURES,
    **primo_rates.FIGURES,
    **primo_baselines.FIGURES,
    **side_by_side.FIGURES,
}


@click.command()
@click.argument("figure", type=click.Choice([*FIGURES, "all"]))
@click.option("--out", type=click.Path(path_type=Path), default="reproduced", show_default=True)
@click.option("--repetitions", type=click.IntRange(min=2), help="[default: the paper's number]")
@click.option("--quick", is_flag=True, help="Run a reduced grid, and write it to OUT/quick.")
def main(figure: str, out: Path, repetitions: int | None, *, quick: bool) -> None:
    """Write FIGURE.csv and FIGURE.svg; the same command continues after an interruption."""
    folder = out / "quick" if quick else out
    for name in FIGURES if figure == "all" else [figure]:
        chosen = FIGURES[name].reduced() if quick else FIGURES[name]
        rows = reproduce(chosen, name, folder, repetitions=repetitions or chosen.repetitions)
        click.echo(f"{chosen.title}: {len(rows)} rows in {folder / name}.csv, drawn in {name}.svg")


if __name__ == "__main__":
    main()
