"""``primo-scale ingest``: genotype files into a packed store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from primo_scale.cli.command_line import ContractCommand, log_format_option
from primo_scale.cli.genotype_options import selection_options, source_options
from primo_scale.cli.options import ld_panel_option, out_option, ref_freq_option, request_from


@click.command(cls=ContractCommand)
@source_options
@out_option("Genotype store to write, such as genotypes.zarr (private).")
@selection_options
@ref_freq_option
@ld_panel_option(
    "whose linkage disequilibrium tells how much of the score the variants of --top explain, for "
    "forecasts."
)
@click.option(
    "--chunk-variants", type=int, help="Variants of a chunk (default: 2048, of dosages 512)."
)
@click.option("--chunk-samples", default=8192, help="People of a chunk, a multiple of 4.")
@log_format_option
def main(
    out: Path,
    ld_panel: tuple[str, ...] | None,
    chunk_variants: int | None,
    chunk_samples: int,
    **options: Any,
) -> None:
    """Write genotype files to a packed Zarr store.

    Run again after an interruption with the same options, it continues where it stopped.
    """
    from primo_scale.run.genotype_files import GenotypeFiles
    from primo_scale.run.operations import ingest

    files = request_from(GenotypeFiles, options)
    if chunk_variants is None:
        chunk_variants = files.sources.packing.chunk_shape[0]
    ingest(files, out, ld_panel=ld_panel, chunk_shape=(chunk_variants, chunk_samples))
