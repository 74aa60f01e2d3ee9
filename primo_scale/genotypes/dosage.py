"""Genotypes of a store as copies of A1, decoded on demand."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.packings import HARD_CALLS, MISSING_DOSAGE
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.storage.locations import parse_location

if TYPE_CHECKING:
    import xarray


def open_genotypes(path: str | Path) -> xarray.DataArray:
    """Open a genotype store as a lazy dosage array.

    Parameters
    ----------
    path
        Location of a store written by ``primo-scale ingest``.

    Returns
    -------
    xarray.DataArray of int8, dims (variant, sample), Dask-backed
        Copies of A1 (.bim column 5); -1 where missing. Those of a store of dosages are float32. The
        coordinates are ``variant`` (ID), ``chrom``, ``pos``, ``a1``, ``a2``, ``sample`` (IID) and
        ``fid``. All of it is private.

    Raises
    ------
    InputError
        The location does not hold a finished genotype store.
    """
    import dask.array
    import xarray

    store = open_genotype_store(parse_location(path))
    shape = (store.n_variants, store.n_samples)
    dtype = np.dtype(np.int8 if store.packing is HARD_CALLS else np.float32)
    blocks = dask.array.map_blocks(
        _read_block,
        str(store.path.resolve()),
        chunks=dask.array.core.normalize_chunks(store.chunk_shape, shape),
        dtype=dtype,
        meta=np.empty((0, 0), dtype=dtype),
        # Other users of a cluster can see task names. A random name reveals no content.
        name=f"open-genotypes-{uuid.uuid4().hex}",
    )
    variants, samples = store.variants, store.samples
    return xarray.DataArray(
        blocks,
        dims=("variant", "sample"),
        coords={
            "variant": variants.identifier,
            "sample": samples.individual,
            "chrom": ("variant", variants.chromosome),
            "pos": ("variant", variants.position),
            "a1": ("variant", variants.allele1),
            "a2": ("variant", variants.allele2),
            "fid": ("sample", samples.family),
        },
        name="dosage",
    )


def _read_block(path: str, block_info: Any) -> npt.NDArray[np.int8 | np.float32]:
    variants, samples = (slice(*bounds) for bounds in block_info[None]["array-location"])
    store = open_genotype_store(parse_location(path))
    packing, packed = store.packing, store.read_packed(variants, samples)
    steps = packing.steps_or_missing(packed, samples.stop - samples.start)
    if packing is HARD_CALLS:
        return np.asarray(steps, dtype=np.int8)
    copies = np.where(steps == MISSING_DOSAGE, MISSING_DOSAGE, steps / packing.steps)
    return np.asarray(copies, dtype=np.float32)
