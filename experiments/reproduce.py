"""``python -m experiments.reproduce FIGURE``: run a figure of a paper and draw it.

`docs/papers` shows the figures beside what the papers state.
"""

from __future__ import annotations

from pathlib import Path

import click

from experiments import wu_figures
from experiments.reproduction import reproduce

FIGURES = {**wu_figures.FIGURES}


@click.command()
@click.argument("figure", type=click.Choice([*FIGURES]))
@click.option("--out", type=click.Path(path_type=Path), default="reproduced", show_default=True)
@click.option("--repetitions", type=click.IntRange(min=2), help="[default: the paper's number]")
def main(figure: str, out: Path, repetitions: int | None) -> None:
    """Write FIGURE.csv and FIGURE.svg; the same command continues after an interruption."""
    chosen = FIGURES[figure]
    rows = reproduce(chosen, figure, out, repetitions=repetitions or chosen.repetitions)
    click.echo(f"{chosen.title}: {len(rows)} rows in {out / figure}.csv, drawn in {figure}.svg")


if __name__ == "__main__":
    main()
