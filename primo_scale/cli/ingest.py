"""``primo-scale ingest``: PLINK 1 filesets into a packed genotype store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from primo_scale.cli.command_line import ContractCommand, log_format_option
from primo_scale.cli.options import bfile_option, out_option, request_from, selection_options


@click.command(cls=ContractCommand)
@bfile_option
@out_option("Genotype store to write, such as genotypes.zarr (private).")
@selection_options
@click.option("--chunk-variants", default=2048, show_default=True, help="Variants of a chunk.")
@click.option(
    "--chunk-samples", default=8192, show_default=True, help="People of a chunk, a multiple of 4."
)
@log_format_option
def main(out: Path, chunk_variants: int, chunk_samples: int, **options: Any) -> None:
    """Write the genotypes of PLINK 1 filesets to a packed Zarr store.

    Run again after an interruption with the same options, it continues where it stopped.
    """
    from primo_scale.run.operations import ingest
    from primo_scale.run.request_parts import GenotypeFiles

    files = request_from(GenotypeFiles, options)
    ingest(files, out, chunk_shape=(chunk_variants, chunk_samples))
