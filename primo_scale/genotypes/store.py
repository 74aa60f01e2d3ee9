"""The packed genotype store: a Zarr group that any process opens by its place.

Layout (format 3): ``genotypes`` uint8 (variant, byte), packed as in `kernels.packed`, uncompressed
and checksummed; ``genotype_counts`` int64 (variant, 4); ``chunk_crc32c`` uint32 (chunk-row,
chunk), the checksum of each chunk of ``genotypes``, by which a chunk in another's place is found;
the variant and sample tables, one array a column. The attributes hold digests, hazards, what each
filter left, the orientation self-test and the checksums of all other chunks. All of it is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.filters import FilterCount
from primo_scale.genotypes.input_warnings import Hazards
from primo_scale.genotypes.tables import SampleTable, VariantTable
from primo_scale.kernels.packed import GENOTYPES_PER_BYTE, PackedGenotypes, packed_width
from primo_scale.storage.chunks import read_block
from primo_scale.storage.groups import (
    Array,
    Group,
    array_of,
    attributes_of,
    expect_checksums,
    open_group,
    read_strings,
)
from primo_scale.storage.locations import Location

KIND = "genotypes"


@dataclass(frozen=True)
class GenotypeStore:
    """A genotype store on disk; only what is asked for is read.

    Attributes
    ----------
    path : Path or ObjectUrl
    n_samples, n_variants : int
        What the filters of the ingest left.
    chunk_shape : tuple of int
        (variants, samples) of a chunk; samples a multiple of 4.
    identity_digest : str
        SHA-256 of the source files' contents, the samples and the variants selected; it does not
        depend on chunking. Private.
    cohort_digest : str
        SHA-256 of everybody in the .fam files, before filters and in any order. Private, and only
        ever used under the ledger's key.
    """

    path: Location
    n_samples: int
    n_variants: int
    chunk_shape: tuple[int, int]
    identity_digest: str
    cohort_digest: str

    @cached_property
    def samples(self) -> SampleTable:
        """People of the store, in the order of the genotypes."""
        group = self._group
        return SampleTable(
            family=read_strings(group, "sample_family"),
            individual=read_strings(group, "sample_individual"),
            sex=read_block(array_of(group, "sample_sex"), (slice(None),)),
        )

    @cached_property
    def variants(self) -> VariantTable:
        """Variants of the store, in the order of the genotypes."""
        group = self._group
        return VariantTable(
            chromosome=read_strings(group, "variant_chromosome"),
            identifier=read_strings(group, "variant_identifier"),
            centimorgan=read_block(array_of(group, "variant_centimorgan"), (slice(None),)),
            position=read_block(array_of(group, "variant_position"), (slice(None),)),
            allele1=read_strings(group, "variant_allele1"),
            allele2=read_strings(group, "variant_allele2"),
        )

    @cached_property
    def hazards(self) -> Hazards:
        """What is legal but dangerous in these genotypes. Private."""
        return Hazards(**attributes_of(self._group)["hazards"])

    @cached_property
    def filter_counts(self) -> tuple[FilterCount, ...]:
        """What each filter of the ingest named, found and left. Private."""
        counts = attributes_of(self._group)["filter_counts"]
        return tuple(FilterCount(**count) for count in counts)

    @cached_property
    def genotype_counts(self) -> npt.NDArray[np.int64]:
        """Samples of each raw value 0..3 per variant, shape (n_variants, 4). Private."""
        group = self._group
        return read_block(array_of(group, "genotype_counts"), (slice(None), slice(None)))

    @cached_property
    def _group(self) -> Group:
        return open_group(self.path, KIND)

    @cached_property
    def _genotypes(self) -> Array:
        checksums = read_block(array_of(self._group, "chunk_crc32c"), (slice(None), slice(None)))
        expect_checksums(self._group, "genotypes", checksums)
        return array_of(self._group, "genotypes")

    def read_packed(self, variants: slice, samples: slice) -> PackedGenotypes:
        """Read a block of packed genotypes.

        Parameters
        ----------
        variants, samples : slice
            Without steps; `samples` starts at a multiple of 4.

        Returns
        -------
        ndarray of uint8, shape (v, ceil(s / 4))
            Bits after the last sample asked for are those of its neighbours or padding.

        Raises
        ------
        InputError
            A chunk is missing, damaged, or not the one that the ingest wrote there.
        """
        start, stop, _ = samples.indices(self.n_samples)
        if start % GENOTYPES_PER_BYTE:
            raise ValueError(f"samples start at {start}, inside a byte of 4")
        columns = slice(start // GENOTYPES_PER_BYTE, packed_width(stop))
        return read_block(self._genotypes, (variants, columns))

    def __reduce__(self) -> tuple[object, ...]:
        # Workers open the store themselves: cached tables never travel.
        return open_genotype_store, (self.path,)


def open_genotype_store(path: Location) -> GenotypeStore:
    """Open a finished store; costs two small reads.

    Raises
    ------
    InputError
        Not a genotype store, an unfinished one, or one of another format version.
    """
    attributes = attributes_of(open_group(path, KIND))
    return GenotypeStore(
        path=path,
        n_samples=int(attributes["n_samples"]),
        n_variants=int(attributes["n_variants"]),
        chunk_shape=(int(attributes["chunk_shape"][0]), int(attributes["chunk_shape"][1])),
        identity_digest=str(attributes["identity_digest"]),
        cohort_digest=str(attributes["cohort_digest"]),
    )
