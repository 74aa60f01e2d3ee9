"""PLINK 1 filesets into the packed genotype store: ``python -m pipelines.ingest``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from primo_scale.cli.command_line import (
    CONTEXT,
    ContractCommand,
    debug_option,
    explain_errors,
    log_format_option,
    log_to_terminal,
)
from primo_scale.cli.options import bfile_option, out_option, selection_options
from primo_scale.run.choices import selection_from
from primo_scale.run.log_records import LOGGER, about, stage

if TYPE_CHECKING:
    from primo_scale.genotypes.store import GenotypeStore


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@bfile_option
@out_option("Genotype store to write, such as genotypes.zarr (private).")
@selection_options
@click.option("--chunk-variants", default=2048, show_default=True, help="Variants of a chunk.")
@click.option(
    "--chunk-samples", default=8192, show_default=True, help="People of a chunk, a multiple of 4."
)
@log_format_option
@debug_option
@explain_errors
def main(out: Path, chunk_variants: int, chunk_samples: int, **options: Any) -> None:
    """Write the genotypes of PLINK 1 filesets to a packed Zarr store.

    Run again after an interruption with the same options, it continues where it stopped.
    """
    log_to_terminal()
    ingest_stage(options, out, chunk_shape=(chunk_variants, chunk_samples))


@stage("ingest")
def ingest_stage(
    options: dict[str, Any], destination: Path, *, chunk_shape: tuple[int, int] = (2048, 8192)
) -> GenotypeStore:
    """Write the store, or find it finished, and say what the filters left and what is odd.

    Parameters
    ----------
    options
        ``bfile`` and what `selection_from` reads.
    destination
        The store.
    chunk_shape
        Variants and people of a chunk.
    """
    from primo_scale.genotypes.ingest import ingest
    from primo_scale.run.progress import count_bar

    with count_bar("ingest", "partitions") as move:
        store = ingest(
            [Path(prefix) for prefix in options["bfile"]],
            destination,
            selection=selection_from(options),
            chunk_shape=chunk_shape,
            on_progress=move,
        )
    for count in store.filter_counts:
        LOGGER.info("%s", count, extra=about("filter", asdict(count)))
    for line in store.input_warnings.lines():
        LOGGER.info("note: %s", line, extra=about("hazard", {}))
    sizes = {"variants": store.n_variants, "people": store.n_samples}
    LOGGER.info(
        "%s: %d variants of %d people", destination, store.n_variants, store.n_samples,
        extra=about("genotypes", {"path": destination, **sizes}),
    )  # fmt: skip
    return store


if __name__ == "__main__":
    main()
