"""Genotypes from a DataArray of pandas-plink (``read_plink1_bin``).

The array is read block by block on threads of this process, whatever Dask cluster is in use, so
that no genotype enters a task graph. It becomes a PLINK 1 fileset beside the store, from which the
ingest makes the store with all its checks; the fileset is then deleted.

pandas-plink reads other people's genotypes where a chunk of people does not begin at a multiple of
4, the number of genotypes in a byte of a .bed file. Such chunks are refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import accumulate, product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError, UsageError, errors_explained
from primo_scale.genotypes import tables
from primo_scale.genotypes.ingest import ingest
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.genotypes.write_fileset import GenotypeSlab, write_bed, write_bim, write_fam
from primo_scale.kernels import packed
from primo_scale.storage.files import files_private, make_private_directory
from primo_scale.storage.locations import usable_path

if TYPE_CHECKING:
    import xarray

_DIMENSIONS = ("sample", "variant")
_COORDINATES = ("fid", "iid", "gender", "chrom", "snp", "cm", "pos", "a0", "a1")


@errors_explained()
def from_pandas_plink(
    genotypes: xarray.DataArray, out: str | Path, *, counted: Literal["a0", "a1"] = "a1"
) -> GenotypeStore:
    """Write the genotypes of a DataArray of pandas-plink to a packed store.

    Parameters
    ----------
    genotypes : xarray.DataArray of float, dims (sample, variant)
        Result of ``pandas_plink.read_plink1_bin``: copies of an allele, nan where missing.
    out : path
        Store to write (private), which `primo_scale.AccumulateRequest` takes.
    counted : str
        Allele that is counted, which was the argument ``ref`` of ``read_plink1_bin``: ``a1`` (its
        default, column 6 of the .bim) or ``a0``. The array itself does not tell.

    Returns
    -------
    GenotypeStore
        Finished store.

    Raises
    ------
    UsageError
        `counted` is no allele.
    InputError
        The array has other dimensions or coordinates, a chunk of people does not begin at a
        multiple of 4, a value is no number of copies, or the ingest refuses the genotypes.
    ResourceError
        The disk has too little space.
    """
    if counted not in ("a0", "a1"):
        raise UsageError("is no allele", where="counted", value=counted, limit="a0 or a1")
    _check_form(genotypes)
    out = usable_path(out, "out")
    with files_private():
        place = make_private_directory(out.with_name(f"{out.name}.plink"))
        try:
            prefix = place / "genotypes"
            shape = (genotypes.sizes["variant"], genotypes.sizes["sample"])
            write_bed(Path(f"{prefix}.bed"), _slabs(genotypes, counted), shape)
            write_bim(Path(f"{prefix}.bim"), _variants(genotypes))
            write_fam(Path(f"{prefix}.fam"), _samples(genotypes))
            return ingest(SourceFiles((prefix,)), out)
        finally:
            shutil.rmtree(place)


def _check_form(genotypes: xarray.DataArray) -> None:
    dimensions = getattr(genotypes, "dims", ())
    if dimensions != _DIMENSIONS or not set(_COORDINATES) <= set(genotypes.coords):
        raise InputError(
            "is no DataArray of read_plink1_bin",
            where="genotypes",
            value=f"dimensions {', '.join(map(str, dimensions)) or 'none'}",
            expected=f"dimensions sample, variant, and {', '.join(_COORDINATES)}",
            remedy="Give the result of pandas_plink.read_plink1_bin",
        )
    people = _chunks(genotypes, 0)
    if any(chunk.start % packed.GENOTYPES_PER_BYTE for chunk in people):
        raise InputError(
            "pandas-plink reads wrong genotypes in chunks of this number of people",
            where="genotypes",
            value=f"chunks of {people[0].stop} people",
            limit="a multiple of 4",
            remedy="Read it again, with chunk=Chunk(nsamples=1024)",
        )


def _chunks(genotypes: xarray.DataArray, axis: int) -> list[slice]:
    """Return the chunks of an axis; an array in memory is one chunk."""
    sizes = (genotypes.shape[axis],) if genotypes.chunks is None else genotypes.chunks[axis]
    return [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _slabs(genotypes: xarray.DataArray, counted: str) -> Iterator[GenotypeSlab]:
    import dask

    for people, variants in product(_chunks(genotypes, 0), _chunks(genotypes, 1)):
        (values,) = dask.compute(genotypes.data[people, variants], scheduler="threads")
        yield GenotypeSlab(variants.start, people.start, _packed(values.T, counted))


def _packed(copies: npt.NDArray[np.floating], counted: str) -> packed.PackedGenotypes:
    """Pack copies of an allele, shape (variants, people), nan where missing."""
    known = ~np.isnan(copies)
    values = np.where(known, copies, 0)
    wrong = values[~np.isin(values, (0, 1, 2))]
    if len(wrong):
        raise InputError(
            "a genotype is no number of copies",
            where="genotypes",
            value=f"{wrong[0]:g}",
            expected="0, 1, 2 or nan",
        )
    of_first = values if counted == "a0" else 2 - values
    result = np.empty((len(values), packed.packed_width(values.shape[1])), dtype=np.uint8)
    packed.pack_copies(np.where(known, of_first, -1).astype(np.int8), result)
    return result


def _texts(genotypes: xarray.DataArray, *names: str) -> list[tables.StringColumn]:
    return [genotypes[name].values.astype(str).astype(object) for name in names]


def _variants(genotypes: xarray.DataArray) -> tables.VariantTable:
    chromosome, identifier, allele1, allele2 = _texts(genotypes, "chrom", "snp", "a0", "a1")
    position, centimorgan = genotypes["pos"].values, genotypes["cm"].values
    return tables.VariantTable.of(chromosome, identifier, position, allele1, allele2, centimorgan)


def _samples(genotypes: xarray.DataArray) -> tables.SampleTable:
    family, individual, gender = _texts(genotypes, "fid", "iid", "gender")
    sex = [tables.SEX_CODES.get(code, tables.UNKNOWN_SEX) for code in gender]
    return tables.SampleTable(family, individual, np.array(sex, dtype=np.int8))
