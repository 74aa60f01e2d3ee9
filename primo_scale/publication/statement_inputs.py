"""The public inputs of a release as release.json states them, and where each came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ReferenceFrequencies:
    """The public allele frequency file: its name without directories, and its digest."""

    file: str
    sha256: str


@dataclass(frozen=True)
class PhenotypeBounds:
    """Public range and scale of one phenotype; `kind` is ``quantitative`` or ``binary``."""

    name: str
    kind: Literal["quantitative", "binary"]
    lower: float
    upper: float
    mean: float
    sd: float


@dataclass(frozen=True)
class CovariateBounds:
    """Public range, centre and lattice units per raw unit of one covariate."""

    name: str
    lower: float
    upper: float
    centre: float
    scale: float


@dataclass(frozen=True)
class Source:
    """Where a public input came from.

    Attributes
    ----------
    input
        What it is, for a reader.
    value
        What was used, or where it stands in full.
    source
        The option that gave it, or the rule that made it from other public inputs.
    """

    input: str
    value: str
    source: str


@dataclass(frozen=True)
class PublicInputs:
    """Everything that shaped the release and did not come from the cohort.

    Attributes
    ----------
    reference_frequencies
        Where the genotype coding came from; ``uninformative`` codes every variant about 1.
    genotype_unit, phenotype_unit, constant
        Lattice units of one genotype unit, of one phenotype sd (s_y), and the constant kappa.
    phenotypes, covariates
        One entry a column, in the order of weights.tsv.gz.
    ld_blocks
        The rule that made the LD blocks.
    genome_build
        Genome build of the positions as the PGS Catalog names it; ``NR`` when not reported.
    sources
        Of all of these, and of the bounds that noise rests on.
    """

    reference_frequencies: ReferenceFrequencies | Literal["uninformative"]
    genotype_unit: int
    phenotype_unit: int
    constant: int
    phenotypes: tuple[PhenotypeBounds, ...]
    covariates: tuple[CovariateBounds, ...]
    ld_blocks: str
    genome_build: str
    sources: tuple[Source, ...]
