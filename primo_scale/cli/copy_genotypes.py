"""``primo-scale copy-genotypes``: copy a genotype store to an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from primo_scale.cli.command_line import CONTEXT, ContractCommand, debug_option, explain_errors
from primo_scale.cli.option_types import PLACE

if TYPE_CHECKING:
    from primo_scale.storage.locations import Location


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@click.option(
    "--genotypes", type=PLACE, required=True, help="Store written by ingest: a path or an URL."
)
@click.option(
    "--to", "destination", type=PLACE, required=True,
    help="Where to copy it, such as s3://bucket/cohort/genotypes.zarr (private).",
)  # fmt: skip
@debug_option
@explain_errors
def main(genotypes: Location, destination: Location) -> None:
    """Copy a finished genotype store to where the workers of a cluster read it.

    Every chunk is read back and compared with the CRC-32C that the ingest recorded. Run again after
    an interruption, it continues where it stopped.
    """
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.run.ingest_stage import copy_stage

    copy_stage(open_genotype_store(genotypes), destination)
