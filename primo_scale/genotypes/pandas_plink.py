"""Genotypes from a DataArray of pandas-plink (``read_plink1_bin``).

The array is read block by block on threads of this process, whatever Dask cluster is in use, so
that no genotype enters a task graph. It becomes a PLINK 1 fileset beside the store, from which the
ingest makes the store with all its checks; the fileset is then deleted.

pandas-plink reads other genotypes where a chunk does not begin at a multiple of 4, the number of
genotypes in a byte of a .bed file: at a person, or at a variant of a sample-major file. The task
graph of the array shows how it was read, and such arrays are refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError, errors_explained
from primo_scale.genotypes import bed, tables
from primo_scale.genotypes.ingest import IngestPlan, ingest, plan_of_source
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.kernels import packed
from primo_scale.storage import files, locations

if TYPE_CHECKING:
    import xarray

_DIMENSIONS = ("sample", "variant")
_COORDINATES = ("fid", "iid", "chrom", "snp", "pos", "a0", "a1")
_PEOPLE = 1024  # of a chunk where those of the array do not begin at whole bytes
# The function of pandas-plink that reads a chunk, and two of its arguments.
_READ, _FIRST_COLUMN, _COUNTED = "_read_bed_chunk", 5, 7


@errors_explained()
def from_pandas_plink(genotypes: xarray.DataArray, out: str | Path) -> GenotypeStore:
    """Write the genotypes of a DataArray of pandas-plink to a packed store.

    Parameters
    ----------
    genotypes : xarray.DataArray of float, dims (sample, variant)
        Result of ``pandas_plink.read_plink1_bin``: copies of a1 (its default), nan where missing.
    out : path
        Store to write (private), which `primo_scale.AccumulateRequest` takes.

    Returns
    -------
    GenotypeStore
        Finished store.

    Raises
    ------
    InputError
        The array has other dimensions or coordinates, was read in chunks that pandas-plink reads
        wrongly, counts the other allele, has a value that is no number of copies, or the ingest
        refuses the genotypes.
    ResourceError
        The disk has too little space.
    """
    with files.files_private():
        return PlinkArray(genotypes).ingest(locations.usable_path(out, "out"))


@dataclass(frozen=True, eq=False)
class PlinkArray:
    """DataArray of `pandas_plink.read_plink1_bin`, of copies of a1 (column 6 of the .bim)."""

    array: xarray.DataArray

    def __post_init__(self) -> None:
        dimensions = getattr(self.array, "dims", ())
        if dimensions != _DIMENSIONS or not set(_COORDINATES) <= set(self.array.coords):
            raise InputError(
                "is no DataArray of read_plink1_bin",
                where="genotypes",
                value=f"dimensions {', '.join(map(str, dimensions)) or 'none'}",
                expected=f"dimensions sample, variant, and {', '.join(_COORDINATES)}",
                remedy="Give the result of pandas_plink.read_plink1_bin",
            )
        _check_reads(self.array)

    def __str__(self) -> str:
        people, variants = self.array.shape
        rows = [self.array[name].values.astype(str).tolist() for name in _COORDINATES]
        digest = files.sha256_of_json({"rows": rows})[:16]
        return f"{people} people and {variants} variants of pandas-plink, coordinates {digest}"

    def plan(self, destination: Path) -> IngestPlan:
        """Return the plan of an ingest, which a finished store is not compared with."""
        source = bed.Fileset(_prefix(destination), self.samples, self.variants)
        return plan_of_source(source, destination)

    @cached_property
    def samples(self) -> tables.SampleTable:
        """People of the array."""
        return tables.SampleTable(*self._texts("fid", "iid"))

    @cached_property
    def variants(self) -> tables.VariantTable:
        """Variants of the array."""
        chromosome, identifier, allele1, allele2 = self._texts("chrom", "snp", "a0", "a1")
        position = self.array["pos"].values
        return tables.VariantTable.of(chromosome, identifier, position, allele1, allele2)

    def ingest(
        self, out: Path, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> GenotypeStore:
        """Write the genotypes to a store, or find it finished; an unfinished one is made anew."""
        prefix = _prefix(out)
        # Its record has no hash of a .bed that had to be written again.
        shutil.rmtree(self.plan(out).partial, ignore_errors=True)
        files.make_private_directory(prefix.parent)
        try:
            shape = (self.array.sizes["variant"], self.array.sizes["sample"])
            bed.write_bed(Path(f"{prefix}.bed"), self._slabs(), shape)
            bed.write_bim(Path(f"{prefix}.bim"), self.variants)
            bed.write_fam(Path(f"{prefix}.fam"), self.samples)
            return ingest(SourceFiles((prefix,)), out, on_progress=on_progress)
        finally:
            shutil.rmtree(prefix.parent)

    def _slabs(self) -> Iterator[bed.GenotypeSlab]:
        import dask

        people, variants = (_chunks(self.array, axis) for axis in (0, 1))
        if any(chunk.start % packed.GENOTYPES_PER_BYTE for chunk in people):
            n_people = self.array.shape[0]
            people = [slice(s, min(s + _PEOPLE, n_people)) for s in range(0, n_people, _PEOPLE)]
        for rows, columns in product(people, variants):
            (values,) = dask.compute(self.array.data[rows, columns], scheduler="threads")
            yield columns.start, rows.start, _packed(values.T)

    def _texts(self, *names: str) -> list[tables.StringColumn]:
        return [self.array[name].values.astype(str).astype(object) for name in names]


def _prefix(store: Path) -> Path:
    """Return the prefix of the fileset from which a store is made."""
    return store.with_name(f"{store.name}.plink") / "genotypes"


def _check_reads(genotypes: xarray.DataArray) -> None:
    """Refuse an array that was read in chunks that begin inside a byte, or with another allele.

    An array that is in memory, or whose graph does not show how it was read, is refused only if its
    own chunks of people begin inside a byte.
    """
    graph = dict(getattr(genotypes.data, "dask", {}))
    functions = ((task, getattr(task, "func", None)) for task in graph.values())
    reads = [task.args for task, f in functions if getattr(f, "__name__", "") == _READ]
    starts = [read[_FIRST_COLUMN] for read in reads] or [c.start for c in _chunks(genotypes, 0)]
    wrong = [start for start in starts if start % packed.GENOTYPES_PER_BYTE]
    if wrong:
        raise InputError(
            "pandas-plink reads wrong genotypes in chunks that do not begin at a multiple of 4",
            where="genotypes",
            value=f"a chunk that begins at {wrong[0]}",
            limit="a multiple of 4",
            remedy="Read it again, with chunk=Chunk(nsamples=1024, nvariants=1024)",
        )
    others = {read[_COUNTED].name for read in reads} - {"a1"}
    if others:
        what = "counts the other allele"
        remedy = 'Read it again with ref="a1"'
        raise InputError(what, where="genotypes", value=others.pop(), expected="a1", remedy=remedy)


def _chunks(genotypes: xarray.DataArray, axis: int) -> list[slice]:
    """Return the chunks of an axis; an array in memory is one chunk."""
    sizes = (genotypes.shape[axis],) if genotypes.chunks is None else genotypes.chunks[axis]
    return [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _packed(copies: npt.NDArray[np.floating]) -> packed.PackedGenotypes:
    """Pack copies of a1, shape (variants, people), nan where missing."""
    known = ~np.isnan(copies)
    values = np.where(known, copies, 0)
    wrong = values[~np.isin(values, (0, 1, 2))]
    if len(wrong):
        what = "a genotype is no number of copies"
        raise InputError(what, where="genotypes", value=f"{wrong[0]:g}", expected="0, 1, 2 or nan")
    result = np.empty((len(values), packed.packed_width(values.shape[1])), dtype=np.uint8)
    packed.pack_copies(np.where(known, 2 - values, -1).astype(np.int8), result)
    return result
