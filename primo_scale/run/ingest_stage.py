"""The stage that packs genotype files into a store, and the stage that copies the store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from primo_scale.run.log_records import LOGGER, about, stage
from primo_scale.run.progress import count_bar

if TYPE_CHECKING:
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.run.request_parts import GenotypeFiles
    from primo_scale.storage.locations import Location


@stage("ingest")
def ingest_stage(
    files: GenotypeFiles, destination: Path, *, chunk_shape: tuple[int, int] = (2048, 8192)
) -> GenotypeStore:
    """Write the store, or find it finished, and log what the filters left and what is odd.

    Parameters
    ----------
    files
        Filesets and filters.
    destination
        Location of the store.
    chunk_shape
        Variants and people of a chunk.
    """
    from primo_scale.genotypes.ingest import ingest

    with count_bar("ingest", "partitions") as move:
        store = ingest(
            files.bfile,
            destination,
            selection=files.selection,
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


@stage("copy")
def copy_stage(store: GenotypeStore, destination: Location) -> GenotypeStore:
    """Copy a store to another location, or find the finished copy, and return the store there."""
    from primo_scale.genotypes.copying import copy_genotypes

    with count_bar("copy", "pieces") as move:
        copied = copy_genotypes(store, destination, on_progress=move)
    LOGGER.info("%s: copied and read back, the same as %s", destination, store.path)
    return copied
