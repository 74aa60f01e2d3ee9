"""``primo-scale copy-genotypes``: copy a genotype store to an object store."""

from __future__ import annotations

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.genotype_options import store_option


@click.command(cls=ContractCommand)
@store_option()
@click.option(
    "--to", "destination", required=True, metavar="PATH|URL",
    help="Where to copy it, such as s3://bucket/cohort/genotypes.zarr (private).",
)  # fmt: skip
def main(genotypes: str, destination: str) -> None:
    """Copy a finished genotype store to where the workers of a cluster read it.

    Every chunk is read back and compared with the CRC-32C that the ingest recorded. Run again after
    an interruption, it continues where it stopped.
    """
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.run.ingest_stage import copy_stage
    from primo_scale.storage.locations import parse_location

    copy_stage(open_genotype_store(parse_location(genotypes)), parse_location(destination))
