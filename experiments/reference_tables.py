"""``python -m experiments.reference_tables``: the reference figures of docs/maths, computed.

Prints Markdown, sections 1 (with 3), 2 and 8; docs/reference_figures.md holds the last full run.
Sections 1 and 2 are arithmetic. Section 8 is simulation under fixed seeds.
"""

from __future__ import annotations

import click

from experiments import accuracy, calibration_figures, sensitivity_figures

SECTIONS = ("1", "2", "8")


@click.command()
@click.option("--section", type=click.Choice([*SECTIONS, "all"]), default="all", show_default=True)
@click.option(
    "--repetitions",
    type=click.IntRange(min=2),
    default=accuracy.STATED_REPETITIONS,
    show_default=True,
    help="Of the accuracy table.",
)
def main(section: str, repetitions: int) -> None:
    """Print the computed reference figures next to those of docs/maths."""
    if section in ("1", "all"):
        click.echo(calibration_figures.report() + "\n")
    if section in ("2", "all"):
        click.echo(sensitivity_figures.report() + "\n")
    if section in ("8", "all"):
        click.echo(accuracy.report(repetitions))


if __name__ == "__main__":
    main()
