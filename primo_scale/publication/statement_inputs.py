"""Public inputs of a release in release.json, and the origin of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from primo_scale.genotypes.coding import REFERENCE_UNIT
from primo_scale.genotypes.genome_build import BUILD_NAMES
from primo_scale.publication.schema_types import (
    AtLeastOne,
    Digest,
    Natural,
    Positive,
    PositiveAmount,
    Text,
    one_of,
)


@dataclass(frozen=True)
class ReferenceFrequencies:
    """Public file of allele frequencies: its name without directories, and its SHA-256 digest."""

    file: Annotated[str, Meta(pattern="^[^/]+$")]
    sha256: Digest


@dataclass(frozen=True)
class StatedLdPanel:
    """Public people for the linkage disequilibrium: a fileset's name, digest and size."""

    file: Annotated[str, Meta(pattern="^[^/]+$")]  # prefix of its files, without directories
    sha256: Digest
    people: Positive


@dataclass(frozen=True)
class StatedLoadings:
    """Public loadings of principal components: name and digest of the file, and their sizes."""

    file: Annotated[str, Meta(pattern="^[^/]+$")]
    sha256: Digest  # of the loadings and their allele frequencies
    n_variants: Positive  # variants of the release that have loadings
    n_components: Positive  # components, the last covariates


@dataclass(frozen=True)
class StatedPhenotype:
    """Public range and scale of one phenotype."""

    name: Text
    kind: Literal["quantitative", "binary"]
    lower: float
    upper: float
    mean: float
    sd: PositiveAmount


@dataclass(frozen=True)
class StatedCovariate:
    """Public range, centre, and lattice units per raw unit of one covariate."""

    name: Text
    lower: float
    upper: float
    centre: float
    scale: PositiveAmount


@dataclass(frozen=True)
class Source:
    """Origin of a public input."""

    input: Text  # description of the input
    value: Text  # value of the input, or the place where it is given in full
    source: Text  # option that gave the value, or rule that computed it from other public inputs


@dataclass(frozen=True)
class PublicInputs:
    """Everything that shaped the release and did not come from the cohort."""

    # Origin of the genotype coding; ``uninformative`` codes every variant about 1.
    reference_frequencies: ReferenceFrequencies | Literal["uninformative"]
    genotype_unit: Annotated[int, one_of((1, REFERENCE_UNIT))]  # lattice units of one allele copy
    phenotype_unit: Positive  # lattice units of one phenotype standard deviation, s_y
    constant: Natural  # the constant kappa, in lattice units
    # One entry per phenotype, in the order of weights.tsv.gz.
    phenotypes: Annotated[tuple[StatedPhenotype, ...], AtLeastOne]
    # One entry per covariate, in the order of covariates.tsv.
    covariates: tuple[StatedCovariate, ...]
    ld_blocks: Text  # rule that made the LD blocks
    # Genome build of the positions in the PGS Catalog's notation; ``NR`` for not reported.
    genome_build: Annotated[str, one_of(BUILD_NAMES)]
    # Origins of these inputs and of the bounds on which the noise is based.
    sources: Annotated[tuple[Source, ...], AtLeastOne]
    # Panel whose linkage disequilibrium is used, if any; absent in releases of earlier versions.
    ld_panel: StatedLdPanel | None = None
    # Loadings that gave the last covariates, if any.
    pc_loadings: StatedLoadings | None = None
