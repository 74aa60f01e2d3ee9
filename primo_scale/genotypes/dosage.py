"""Dosages of a genotype store as int8 copies of A1, decoded on demand."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.store import open_genotype_store
from primo_scale.kernels.packed import PackedGenotypes, decode
from primo_scale.storage.locations import parse_location

if TYPE_CHECKING:
    import xarray

MISSING_DOSAGE = -1
# Copies of A1 (.bim column 5) of the raw values 0 hom A1, 1 missing, 2 het, 3 hom A2.
COPIES_OF_A1 = np.array([2, MISSING_DOSAGE, 1, 0], dtype=np.int8)


def decode_dosages(packed: PackedGenotypes, n_samples: int) -> npt.NDArray[np.int8]:
    """Decode packed genotypes (v, ceil(n / 4)) to copies of A1, int8 (v, n); -1 where missing."""
    return decode(packed, np.tile(COPIES_OF_A1, (len(packed), 1)), n_samples)


def open_genotypes(path: str | Path) -> xarray.DataArray:
    """Open a genotype store as a lazy dosage array.

    Parameters
    ----------
    path
        Location of a store written by ``primo-scale ingest``.

    Returns
    -------
    xarray.DataArray of int8, dims (variant, sample), Dask-backed
        Copies of A1 (.bim column 5); -1 where missing. The coordinates are ``variant`` (ID),
        ``chrom``, ``pos``, ``a1``, ``a2``, ``sample`` (IID) and ``fid``. All of it is private.

    Raises
    ------
    InputError
        The location does not hold a finished genotype store.
    """
    import dask.array
    import xarray

    store = open_genotype_store(parse_location(path))
    shape = (store.n_variants, store.n_samples)
    blocks = dask.array.map_blocks(
        _read_block,
        str(store.path.resolve()),
        chunks=dask.array.core.normalize_chunks(store.chunk_shape, shape),
        dtype=np.int8,
        meta=np.empty((0, 0), dtype=np.int8),
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


def _read_block(path: str, block_info: Any) -> npt.NDArray[np.int8]:
    variants, samples = (slice(*bounds) for bounds in block_info[None]["array-location"])
    packed = open_genotype_store(parse_location(path)).read_packed(variants, samples)
    return decode_dosages(packed, samples.stop - samples.start)
