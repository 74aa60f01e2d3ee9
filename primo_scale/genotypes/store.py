"""Packed genotype store, a Zarr group, whose kind is that of its `Packing`.

Layout (format 3 of hard calls, 1 of dosages): ``genotypes`` uint8 (variant, byte), packed as in
`kernels.packed` or `kernels.dosage_bytes`, uncompressed and checksummed; ``genotype_counts`` int64
(variant, 4), the number of samples with each raw value, or those that `Packing.count` counts;
``chunk_crc32c`` uint32 (row of chunks, chunk), the checksum of each chunk of ``genotypes``, which
detects exchanged chunks; and one array for each column of the variant and sample tables. The
attributes hold digests, the effects of the filters and the checksums of all other chunks. All of it
is private.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import errors_explained
from primo_scale.genotypes import coding, filters
from primo_scale.genotypes.tables import SampleTable, VariantTable
from primo_scale.kernels import dosage_bytes, packed
from primo_scale.storage import groups, locations

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class GenotypeStore:
    """Finished genotype store, whose tables and genotypes are read on request."""

    path: locations.Location
    n_samples: int  # after the filters of the ingest
    n_variants: int  # after the filters of the ingest
    # Numbers of variants and samples in a chunk; the number of samples is a multiple of 4.
    chunk_shape: tuple[int, int]
    # SHA-256 digest of the source files' contents and the selected samples and variants. It does
    # not depend on the chunks. Private.
    identity_digest: str = field(repr=False)
    # SHA-256 digest of all people in the .fam files, before filters and in any order. Private; the
    # ledger uses it only with its secret key.
    cohort_digest: str = field(repr=False)
    packing: Packing = field(repr=False)  # of the genotypes

    @cached_property
    def samples(self) -> SampleTable:
        """People of the store, in the order of the genotypes."""
        names = "family", "individual"
        return SampleTable(*(groups.read_strings(self._group, f"sample_{n}") for n in names))

    @cached_property
    def variants(self) -> VariantTable:
        """Variants of the store, in the order of the genotypes."""
        chromosome, identifier, allele1, allele2 = (
            groups.read_strings(self._group, f"variant_{name}")
            for name in ("chromosome", "identifier", "allele1", "allele2")
        )
        position = groups.read_block(groups.array_of(self._group, "variant_position"))
        return VariantTable(chromosome, identifier, position, allele1, allele2)

    def input_warnings(self) -> list[str]:
        """Return what is suspicious about the input. Private."""
        counts = groups.read_block(groups.array_of(self._group, "genotype_counts"))
        found = {
            "variants with the identifier '.', which no list and no score can name": np.sum(
                self.variants.identifier == coding.NO_IDENTIFIER
            ),
            "variants without any call (kept)": np.sum(counts[:, 1] == self.n_samples),
        }
        return [f"{words}: {count}" for words, count in found.items() if count]

    @property
    def people_file(self) -> str:
        """File of the source that lists the people, such as the .fam."""
        sources = groups.attributes_of(self._group)["sources"]
        return people_file_of([source["path"] for source in sources], str(self.path))

    @cached_property
    def filter_counts(self) -> tuple[filters.FilterCount, ...]:
        """Effects of the filters of the ingest. Private."""
        counts = groups.attributes_of(self._group)["filter_counts"]
        return tuple(filters.FilterCount(**count) for count in counts)

    def a1_frequencies(self) -> npt.NDArray[np.float64] | None:
        """Return the frequency of A1 in the store's people, shape (d,), nan without calls. Private.

        It is None for dosages, whose counts do not tell it.
        """
        if self.packing is not HARD_CALLS:
            return None
        counts = groups.read_block(groups.array_of(self._group, "genotype_counts"))
        copies, called = counts @ np.maximum(COPIES_OF_A1, 0), counts @ (COPIES_OF_A1 >= 0)
        frequencies = np.full(len(counts), np.nan)
        np.divide(copies, 2 * called, out=frequencies, where=called > 0)
        return frequencies

    @property
    def heritability_share(self) -> float:
        """Share of the heritability that the variants are assumed to explain.

        It is the share that `extract_by_prior` left of a public score, or 1 without it. Public.
        """
        return math.prod(count.share for count in self.filter_counts)

    @cached_property
    def _group(self) -> groups.Group:
        return groups.open_group(self.path, self.packing.kind)

    @cached_property
    def _genotypes(self) -> groups.Array:
        checksums = groups.read_block(groups.array_of(self._group, "chunk_crc32c"))
        # Of chunks that are not written through the store, which does not record them.
        self._group.store.tables["genotypes"] = checksums
        return groups.array_of(self._group, "genotypes")

    def read_packed(self, variants: slice, samples: slice) -> PackedBytes:
        """Read packed genotypes, uint8 (v, width of the samples), of ranges without steps.

        `samples` starts at a whole byte. Bits after the last sample belong to the next samples or
        are padding. A missing, damaged or exchanged chunk is refused.
        """
        start, stop, _ = samples.indices(self.n_samples)
        if start % self.packing.samples_per_byte:
            raise ValueError(f"samples start at {start}, inside a byte of 4")
        columns = slice(self.packing.width(start), self.packing.width(stop))
        return groups.read_block(self._genotypes, (variants, columns))

    def __reduce__(self) -> tuple[object, ...]:
        # Workers open the store themselves, so that cached tables are not sent to them.
        return open_genotype_store, (self.path,)


def people_file_of(paths: Sequence[str], otherwise: str) -> str:
    """Return the first table of people of some files, or the first of them without one."""
    tables = (path for path in paths if path.endswith((".fam", ".psam", ".sample")))
    return next(tables, next(iter(paths), otherwise))


def open_genotype_store(path: locations.Location) -> GenotypeStore:
    """Open a finished store with two small reads, or refuse what `open_group` refuses."""
    group = groups.open_group(path, *PACKINGS)
    attributes = groups.attributes_of(group)
    return GenotypeStore(
        path=path,
        n_samples=int(attributes["n_samples"]),
        n_variants=int(attributes["n_variants"]),
        chunk_shape=(int(attributes["chunk_shape"][0]), int(attributes["chunk_shape"][1])),
        identity_digest=str(attributes["identity_digest"]),
        cohort_digest=str(attributes["cohort_digest"]),
        packing=PACKINGS[group.kind],
    )


@errors_explained()
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

    store = open_genotype_store(locations.usable_location(path, "path"))
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
    store = open_genotype_store(locations.parse_location(path))
    packing, packed = store.packing, store.read_packed(variants, samples)
    steps = packing.steps_or_missing(packed, samples.stop - samples.start)
    if packing is HARD_CALLS:
        return np.asarray(steps, dtype=np.int8)
    copies = np.where(steps == MISSING_DOSAGE, MISSING_DOSAGE, steps / packing.steps)
    return np.asarray(copies, dtype=np.float32)


MISSING_DOSAGE = -1
# Copies of A1 (.bim column 5) of the raw values 0 hom A1, 1 missing, 2 het, 3 hom A2.
COPIES_OF_A1 = np.array([2, MISSING_DOSAGE, 1, 0], dtype=np.int8)

PackedBytes = npt.NDArray[np.uint8]
"""Genotypes of v variants, shape (v, width of the packing), of hard calls or dosages."""
_Codes = npt.NDArray[np.int8]
_Table = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Packing:
    """Encoding of a store's genotypes as bytes, and the functions that read them.

    A code table has the codes of 2 copies, of a missing genotype, of 1 copy and of 0 copies of A1
    for each variant, shape (v, 4).
    """

    kind: str  # of the store, a key of `storage.groups.FORMAT_VERSIONS`
    samples_per_byte: int
    missing: int  # byte of samples whose genotypes are missing
    steps: int  # number of steps in one copy, see `steps_or_missing`
    # Default numbers of variants and samples in a chunk, which has 4 MiB.
    chunk_shape: tuple[int, int]
    # Decode (v, width) into the memory of codes, and return the part written, (v, samples).
    decode_into: Callable[[_Codes, PackedBytes, _Table], _Codes]
    # Add the squared norm of each sample's codes over the variants to int64 norms, shape (n,).
    add_squared_norms: Callable[[npt.NDArray[np.int64], PackedBytes, _Table], None]
    # Count, of so many samples, those with 2 copies, missing, in between, and with 0, shape (v, 4).
    count: Callable[[PackedBytes, int], npt.NDArray[np.int64]]
    # Return the genotypes of the samples at these positions.
    select: Callable[[PackedBytes, npt.NDArray[np.intp]], PackedBytes]
    # Return copies of A1 of so many samples in steps, -1 where missing, shape (v, samples).
    steps_or_missing: Callable[[PackedBytes, int], npt.NDArray[np.signedinteger[Any]]]

    def width(self, n_samples: int) -> int:
        """Return the number of bytes of one variant of these samples."""
        return -(-n_samples // self.samples_per_byte)


def copies_of_hard_calls(genotypes: PackedBytes, n_samples: int) -> npt.NDArray[np.int8]:
    """Decode hard calls (v, ceil(n / 4)) to copies of A1, int8 (v, n); -1 where missing."""
    return packed.decode(genotypes, np.tile(COPIES_OF_A1, (len(genotypes), 1)), n_samples)


HARD_CALLS = Packing(
    kind="genotypes",
    samples_per_byte=packed.GENOTYPES_PER_BYTE,
    missing=0x55,
    steps=1,
    chunk_shape=(2048, 8192),
    decode_into=packed.decode_into,
    add_squared_norms=packed.add_squared_norms,
    count=packed.count_genotypes,
    select=packed.repack,
    steps_or_missing=copies_of_hard_calls,
)
DOSAGES = Packing(
    kind="dosages",
    samples_per_byte=1,
    missing=dosage_bytes.MISSING_BYTE,
    steps=dosage_bytes.STEPS,
    chunk_shape=(512, 8192),
    decode_into=dosage_bytes.decode_into,
    add_squared_norms=dosage_bytes.add_squared_norms,
    count=dosage_bytes.count_dosages,
    select=dosage_bytes.select,
    steps_or_missing=dosage_bytes.steps_or_missing,
)
PACKINGS = {packing.kind: packing for packing in (HARD_CALLS, DOSAGES)}
"""Packing by the kind of a store."""
