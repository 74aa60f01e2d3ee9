"""Public files that shaped a release, as release.json states them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from primo_scale.publication.schema_types import (
    ONE_LINE,
    Amount,
    AtLeastOne,
    Digest,
    Number,
    Positive,
    Text,
)

_FileName = Annotated[str, Meta(pattern=ONE_LINE.replace("[^", "[^/"))]  # without directories


@dataclass(frozen=True)
class ReferenceFrequencies:
    """Public file of allele frequencies: its name without directories, and its SHA-256 digest."""

    file: _FileName
    sha256: Digest


@dataclass(frozen=True)
class StatedLdPanel:
    """Public people for the linkage disequilibrium: a fileset's name, digest and size."""

    file: _FileName  # prefix of its files, without directories
    sha256: Digest
    people: Positive


@dataclass(frozen=True)
class StatedLoadings:
    """Public loadings of principal components: name and digest of the file, and their sizes."""

    file: _FileName
    sha256: Digest  # of the loadings and their allele frequencies
    n_variants: Positive  # variants of the release that have loadings
    n_components: Positive  # components, the last covariates


@dataclass(frozen=True)
class StatedSlope:
    """Slope of a phenotype on a public score, estimated from the noisy statistics."""

    phenotype: Text
    slope: Number  # phenotype units per unit of the score, shrunk by its noise; 0 if it is useless
    standard_error: Amount  # of the slope before it was shrunk


@dataclass(frozen=True)
class StatedScore:
    """Public score that is the prior mean of the effects."""

    file: _FileName  # name without directories
    sha256: Digest
    pgs_id: Text | None  # identifier in the header of a PGS Catalog file
    n_variants: Positive  # of the score
    n_matched: Positive  # of them, those that the release has
    slopes: Annotated[tuple[StatedSlope, ...], AtLeastOne]  # for each phenotype it is a prior of
