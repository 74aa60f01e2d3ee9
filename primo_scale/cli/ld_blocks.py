"""``primo-scale ld-blocks``: LD blocks of a public panel."""

from __future__ import annotations

from pathlib import Path

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import count_option, file_option


@click.command(cls=ContractCommand)
@click.option("--panel", type=Path, required=True, metavar="PREFIX", help="PLINK 1 fileset.")
@file_option("--out", required=True, help="Table to write: chr start stop.")
@count_option("--least", default=300, help="Smallest number of variants in a block.")
@count_option("--most", default=700, help="Largest number of variants in a block.")
def main(panel: Path, out: Path, least: int, most: int) -> None:
    """Divide the chromosomes of a public panel where there is the least LD across the cuts.

    Give the table to release or accumulate as --ld-blocks. The panel is public: it must not contain
    people of the cohort, and should have the ancestry and the variants of the cohort.
    """
    from primo_scale.genotypes.ld_cuts import BlockSizes, write_ld_blocks

    n_blocks = write_ld_blocks(panel, out, BlockSizes(least, most))
    click.echo(f"{out}: {n_blocks} LD blocks")
