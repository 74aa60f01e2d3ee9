"""The packed genotype store: a Zarr group that any process opens by its place.

Layout (format 3): ``genotypes`` uint8 (variant, byte), packed as in `kernels.packed`, uncompressed
and checksummed; ``genotype_counts`` int64 (variant, 4); ``chunk_crc32c`` uint32 (chunk-row,
chunk), what the ingest wrote there; the variant and sample tables, one array a column. The
attributes hold digests, hazards, what each filter left and the orientation self-test. All of it is
private.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.filters import FilterCount
from primo_scale.genotypes.hazards import Hazards
from primo_scale.genotypes.tables import SampleTable, VariantTable
from primo_scale.kernels.packed import GENOTYPES_PER_BYTE, PackedGenotypes, packed_width
from primo_scale.storage.chunks import read_block
from primo_scale.storage.groups import Array, array_of, open_group, read_strings
from primo_scale.storage.places import Place

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

    path: Place
    n_samples: int
    n_variants: int
    chunk_shape: tuple[int, int]
    identity_digest: str
    cohort_digest: str

    @cached_property
    def samples(self) -> SampleTable:
        """People of the store, in the order of the genotypes."""
        group = open_group(self.path, KIND)
        return SampleTable(
            family=read_strings(group, "sample_family"),
            individual=read_strings(group, "sample_individual"),
            sex=read_block(array_of(group, "sample_sex"), (slice(None),)),
        )

    @cached_property
    def variants(self) -> VariantTable:
        """Variants of the store, in the order of the genotypes."""
        group = open_group(self.path, KIND)
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
        return Hazards(**open_group(self.path, KIND).attrs["hazards"])  # type: ignore[arg-type]

    @cached_property
    def filter_counts(self) -> tuple[FilterCount, ...]:
        """What each filter of the ingest named, found and left. Private."""
        counts: Any = open_group(self.path, KIND).attrs["filter_counts"]
        return tuple(FilterCount(**count) for count in counts)

    @cached_property
    def genotype_counts(self) -> npt.NDArray[np.int64]:
        """Samples of each raw value 0..3 per variant, shape (n_variants, 4). Private."""
        group = open_group(self.path, KIND)
        return read_block(array_of(group, "genotype_counts"), (slice(None), slice(None)))

    @cached_property
    def _genotypes(self) -> Array:
        return array_of(open_group(self.path, KIND), "genotypes")

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
            A chunk does not match its checksum.
        """
        start, stop, _ = samples.indices(self.n_samples)
        if start % GENOTYPES_PER_BYTE:
            raise ValueError(f"samples start at {start}, inside a byte of 4")
        columns = slice(start // GENOTYPES_PER_BYTE, packed_width(stop))
        return read_block(self._genotypes, (variants, columns))

    def __reduce__(self) -> tuple[object, ...]:
        # Workers open the store themselves: cached tables never travel.
        return open_genotype_store, (self.path,)


def open_genotype_store(path: Place) -> GenotypeStore:
    """Open a finished store; costs two small reads.

    Raises
    ------
    InputError
        Not a genotype store, an unfinished one, or one of another format version.
    """
    group = open_group(path, KIND)
    attributes: Any = group.attrs.asdict()
    try:
        return GenotypeStore(
            path=path,
            n_samples=int(attributes["n_samples"]),
            n_variants=int(attributes["n_variants"]),
            chunk_shape=(int(attributes["chunk_shape"][0]), int(attributes["chunk_shape"][1])),
            identity_digest=str(attributes["identity_digest"]),
            cohort_digest=str(attributes["cohort_digest"]),
        )
    except KeyError as error:
        raise InputError(
            "the genotype store is damaged: an attribute is missing",
            where=str(path),
            value=str(error),
            remedy="Remove it and run the ingest again",
        ) from error
