"""VCF-Zarr stores (https://github.com/sgkit-dev/vcf-zarr-spec), as bio2zarr writes them.

The ALT allele is counted, by the rules of `genotypes.vcf`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.source import GenotypeSource, SourceFiles
from primo_scale.genotypes.store import DOSAGES, PackedBytes
from primo_scale.genotypes.tables import (
    Index,
    StringColumn,
    VariantTable,
    people_with_ids,
    refuse_multiallelic,
)
from primo_scale.genotypes.vcf import (
    MOST_PLOIDY,
    count_copies,
    read_dosages,
)
from primo_scale.kernels.packed import pack_copies
from primo_scale.ranges import runs_of
from primo_scale.storage.groups import Array, foreign_errors_explained, open_foreign_arrays

_GENOTYPES = "call_genotype"
_REQUIRED = (
    _GENOTYPES, "contig_id", "sample_id", "variant_allele", "variant_contig", "variant_position",
)  # fmt: skip
_USED = (*_REQUIRED, "variant_id")
_DOSAGES, _PROBABILITIES = "call_DS", "call_GP"


@dataclass(frozen=True, eq=False)
class VcfZarr(GenotypeSource):
    """Hard calls or dosages of a VCF-Zarr store, whose chunks are all hashed before the copy.

    They are not in the order of the variants.
    """

    genotypes: Array  # shape (v, n, ploidy)
    dosages: Array | None  # DS, shape (v, n) or (v, n, 1), or GP, shape (v, n, ploidy + 1)
    # The chunks of bio2zarr have 1,000 variants of 10,000 people.
    variant_major: bool = field(default=False, kw_only=True)

    def files(self) -> list[Path]:
        """Return the metadata and all chunks of the arrays that are read."""
        top = [path for path in self.where.iterdir() if path.is_file()]
        used = _USED if self.dosages is None else (*_USED, self.dosages.basename)
        chunks = (path for name in used for path in (self.where / name).rglob("*"))
        return sorted([*top, *(path for path in chunks if path.is_file())])

    def read_into(self, result: PackedBytes, variants: Index, samples: Index) -> None:
        """Read one chunk of the store after the other."""
        height, width, _ = self.genotypes.chunks
        copies = np.empty((len(variants), len(samples)), dtype=np.int8)
        for rows in starmap(slice, runs_of(variants // height)):
            for columns in starmap(slice, runs_of(samples // width)):
                v, s, called = variants[rows], samples[columns], copies[rows, columns]
                box = slice(v[0], v[-1] + 1), slice(s[0], s[-1] + 1)
                alleles = _values(self.genotypes, self.where, box)
                v, s = v - v[0], s - s[0]
                if not count_copies(alleles, v, s, called):
                    raise InputError(
                        "a genotype has an allele that its variant lacks", where=self.where
                    )
                if self.dosages is None:
                    continue
                fields = _fields(self.dosages, self.where, box)
                if not read_dosages(fields, alleles, v, s, called, result[rows, columns]):
                    raise InputError("a dosage is not between 0 and 2", where=self.where)
        if self.dosages is None:
            pack_copies(copies, result)


def open_vcz(path: Path, files: SourceFiles) -> VcfZarr:
    """Read the tables of a VCF-Zarr store.

    A store that is missing or lacks an array, arrays whose shapes disagree, variants with more than
    two alleles, people of higher ploidy, and a store without dosages that are to be read, are
    refused.
    """
    arrays = open_foreign_arrays(path)
    absent = [name for name in _REQUIRED if name not in arrays]
    if absent:
        raise InputError(
            f"is no VCF-Zarr store: it lacks {', '.join(absent)}",
            where=path,
            remedy="Write it with bio2zarr (vcf2zarr convert)",
        )
    genotypes = arrays[_GENOTYPES]
    if genotypes.ndim != 3 or genotypes.shape[2] > MOST_PLOIDY:
        raise InputError(
            "call_genotype has a wrong shape",
            where=path,
            value=genotypes.shape,
            expected="(variants, people, ploidy 1 or 2)",
        )
    _check_shapes(arrays, path)
    variants = _variants(arrays, path)
    refuse_multiallelic(variants, path, "Split them in the VCF (bcftools norm -m -any)")
    people = people_with_ids(_texts(arrays["sample_id"], path))
    dosages = _dosages(arrays, path) if files.packing is DOSAGES else None
    return VcfZarr(path, people, variants, genotypes, dosages, packing=files.packing)


def _check_shapes(arrays: Mapping[str, Array], path: Path) -> None:
    """Refuse tables of another number of variants or people than the genotypes."""
    n_variants, n_people, _ = arrays[_GENOTYPES].shape
    shapes = {
        "contig_id": arrays["contig_id"].shape[:1],
        "sample_id": (n_people,),
        "variant_allele": (n_variants, *arrays["variant_allele"].shape[-1:]),
        **dict.fromkeys(("variant_contig", "variant_id", "variant_position"), (n_variants,)),
    }
    for name, shape in shapes.items():
        if name in arrays and arrays[name].shape != shape:
            raise InputError(
                f"{name} has a wrong shape", where=path, value=arrays[name].shape, expected=shape
            )


def _dosages(arrays: Mapping[str, Array], path: Path) -> Array:
    """Return the array of the dosages or, without one, that of the probabilities."""
    name = _DOSAGES if _DOSAGES in arrays else _PROBABILITIES
    if name not in arrays:
        raise InputError(
            f"has no dosages: it lacks {_DOSAGES} and {_PROBABILITIES}",
            where=path,
            remedy="Leave --dosages out",
        )
    n_variants, n_people, ploidy = arrays[_GENOTYPES].shape
    allowed = ((), (1,)) if name == _DOSAGES else ((ploidy + 1,),)
    if arrays[name].shape not in [(n_variants, n_people, *last) for last in allowed]:
        raise InputError(f"{name} has a wrong shape", where=path, value=arrays[name].shape)
    return arrays[name]


def _variants(arrays: Mapping[str, Array], path: Path) -> VariantTable:
    position = _values(arrays["variant_position"], path)
    alleles = _values(arrays["variant_allele"], path).astype(object)
    alternates = [",".join(filter(None, row)) or "." for row in alleles[:, 1:].tolist()]
    contigs = _texts(arrays["contig_id"], path)
    contig = _values(arrays["variant_contig"], path).astype(np.intp)
    if (contig < 0).any() or (contig >= len(contigs)).any():
        raise InputError("variant_contig has an index without a contig_id", where=path)
    chromosomes = contigs[contig]
    names = ["."] * len(position)
    if "variant_id" in arrays:
        names = _texts(arrays["variant_id"], path).tolist()
    return VariantTable.of(chromosomes.tolist(), names, position, alternates, alleles[:, 0])


def _values(array: Array, path: Path, box: Any = ...) -> npt.NDArray[Any]:
    with foreign_errors_explained(path):
        return np.asarray(array[box])


def _fields(dosages: Array, path: Path, box: tuple[slice, slice]) -> npt.NDArray[np.floating]:
    """Return DS or GP of a box of genotypes, shape (v, n, numbers of a genotype)."""
    found = _values(dosages, path, box)
    return found.reshape(*found.shape[:2], -1)


def _texts(array: Array, path: Path) -> StringColumn:
    return _values(array, path).astype(object)
