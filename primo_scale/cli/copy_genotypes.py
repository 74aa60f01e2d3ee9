"""A genotype store copied to an object store: ``python -m pipelines.copy_genotypes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from primo_scale.cli.command_line import (
    CONTEXT,
    ContractCommand,
    debug_option,
    explain_errors,
    log_to_terminal,
)
from primo_scale.cli.option_types import PLACE
from primo_scale.run.log_records import LOGGER, stage

if TYPE_CHECKING:
    from primo_scale.genotypes.store import GenotypeStore
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

    log_to_terminal()
    copy_stage(open_genotype_store(genotypes), destination)


@stage("copy")
def copy_stage(store: GenotypeStore, destination: Location) -> GenotypeStore:
    """Copy a store, or find the finished copy, and give the store there."""
    from primo_scale.genotypes.copying import copy_genotypes
    from primo_scale.run.progress import count_bar

    with count_bar("copy", "pieces") as move:
        copied = copy_genotypes(store, destination, on_progress=move)
    LOGGER.info("%s: copied and read back, the same as %s", destination, store.path)
    return copied


if __name__ == "__main__":
    main()
