"""The machine-readable statement of a release: release.json and its schema.

Only public values may stand here: what the operator chose, sizes that the adjacency makes public,
and what was computed from noisy statistics. No digest of private data without a key.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jsonschema import Draft202012Validator

from primo_scale.errors import InputError
from primo_scale.storage.files import sha256_of_json

SCHEMA_VERSION = 1
NOT_PRIVATE = "NOT PRIVATE"
_SCHEMA_PATH = Path(__file__).with_name("release.schema.json")

Document = dict[str, Any]


@dataclass(frozen=True)
class Software:
    """What computed the release."""

    name: str
    version: str


@dataclass(frozen=True)
class Guarantee:
    """The promise: (epsilon, delta) and, exactly, mu-Gaussian differential privacy.

    Attributes
    ----------
    epsilon, delta
        As asked for; the profile at `mu` stays within them.
    mu
        Sensitivity over noise of the whole bundle of queries.
    adjacency, unit, privacy
        Between which cohorts: ``replace-one``, ``one person's whole row``, ``full``.
    accountant
        How `mu` was turned into (epsilon, delta).
    """

    epsilon: float
    delta: float
    mu: float
    adjacency: str
    unit: str
    privacy: str
    accountant: str


@dataclass(frozen=True)
class Query:
    """One noisy statistic.

    Attributes
    ----------
    name
        ``gram`` (X'X by LD block), ``cross`` (X'Z), ``outcome_gram`` (Z'Z) or ``observed``
        (people with each phenotype), where Z is the constant, covariates and phenotypes.
    statistic
        The same for a reader.
    shape
        Of the statistic; of the dense d x d matrix for ``gram``.
    layout
        ``svec``: symmetric, off-diagonal noise `off_diagonal_sigma`; ``full``: all alike.
    sensitivity
        Greatest l2 change when one row is replaced, of this statistic alone, in lattice units.
    sigma, off_diagonal_sigma
        Standard deviation of the noise, in lattice units.
    fine_bits
        The noise was drawn on multiples of 2^-fine_bits, then the sum rounded to integers.
    """

    name: Literal["gram", "cross", "outcome_gram", "observed"]
    statistic: str
    shape: tuple[int, ...]
    layout: Literal["svec", "full"]
    sensitivity: float
    sigma: float
    off_diagonal_sigma: float | None
    fine_bits: int


@dataclass(frozen=True)
class Mechanism:
    """How the noise was calibrated (docs/maths.md, sections 2 and 6).

    Attributes
    ----------
    name
        ``reuse-cov-gauss``.
    split
        t = D/A, the share of the cross statistic against that of the Gram matrix.
    row_norm_squared
        N_x: every genotype row on the lattice satisfies ||q_x||^2 <= N_x.
    outcome_norm_squared
        N_z, the same of the constant, covariates and phenotypes; the sum of the next two.
    constant_and_covariates_norm_squared, phenotypes_norm_squared
        N_c and N_y.
    joint_sensitivity
        sqrt(2) (N_x + k^2 N_z) with k^2 = t N_x / (2 N_z): the joint l2 sensitivity of ``gram``,
        ``cross`` and ``outcome_gram`` in units in which the noise of ``gram`` is sigma_1.
    counts_share
        Share of mu^2 spent on ``observed``; 0 without it.
    queries
        All that was measured on the cohort.
    sampler, rng
        How noise was drawn and from what randomness.
    """

    name: str
    split: float
    row_norm_squared: int
    outcome_norm_squared: int
    constant_and_covariates_norm_squared: int
    phenotypes_norm_squared: int
    joint_sensitivity: float
    counts_share: float
    queries: tuple[Query, ...]
    sampler: str
    rng: str


@dataclass(frozen=True)
class Cohort:
    """Sizes, all public under replace-one adjacency."""

    n_samples: int
    n_variants: int
    n_phenotypes: int
    n_covariates: int
    block_sizes: tuple[int, ...]


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
        As given by the operator; ``NR`` when not reported.
    """

    reference_frequencies: ReferenceFrequencies | Literal["uninformative"]
    genotype_unit: int
    phenotype_unit: int
    constant: int
    phenotypes: tuple[PhenotypeBounds, ...]
    covariates: tuple[CovariateBounds, ...]
    ld_blocks: str
    genome_build: str


@dataclass(frozen=True)
class Estimation:
    """How weights were computed from the noisy statistics (post-processing).

    Attributes
    ----------
    shrinkage
        The rule of shrinkage, for a reader.
    parameters
        Its numbers, in lattice units.
    eigenvalue_floor
        What happens to eigenvalues that noise made small or negative, for a reader.
    attenuation
        Factor, for each phenotype, by which clipping rows shrinks effects; known and divided out.
    """

    shrinkage: str
    parameters: dict[str, float]
    eigenvalue_floor: str
    attenuation: tuple[float, ...]


@dataclass(frozen=True)
class Accuracy:
    """What to expect, from public sizes alone.

    Attributes
    ----------
    effective_sample_size
        People in a cohort analysed without noise that would give the same accuracy.
    definition
        The formula or planner behind it.
    """

    effective_sample_size: float
    definition: str


@dataclass(frozen=True)
class LedgerEntry:
    """The charge for this release and what the cohort had spent before and after it.

    Attributes
    ----------
    cohort
        Name or keyed identifier of the cohort in the custodian's ledger.
    charge
        Identifier of this charge.
    delta
        The cohort's one delta, at which every epsilon here is stated.
    """

    cohort: str
    charge: str
    mu_squared_before: float
    mu_squared_after: float
    mu_squared_budget: float
    epsilon_before: float
    epsilon_after: float
    epsilon_budget: float
    delta: float


@dataclass(frozen=True)
class Statement:
    """Everything release.json says but the list of files.

    A release without a guarantee (`private` False) has no `guarantee` and no `ledger`; it may
    have a `mechanism` (noise from a fixed seed, which protects nobody).

    Attributes
    ----------
    created
        UTC date, ``YYYY-MM-DD``; a time of day would say how long the computation took.
    unprotected
        Names of what is published without protection; empty in ``full`` privacy.
    """

    software: Software
    created: str
    private: bool
    guarantee: Guarantee | None
    mechanism: Mechanism | None
    cohort: Cohort
    public_inputs: PublicInputs
    estimation: Estimation
    accuracy: Accuracy
    ledger: LedgerEntry | None
    unprotected: tuple[str, ...]

    @property
    def stamp(self) -> str:
        """The line that every file of the release carries."""
        return stamp_of(dataclasses.asdict(self))


def stamp_of(document: Document) -> str:
    """The stamp that goes with the guarantee in `document` (release.json as read)."""
    guarantee = document["guarantee"]
    if not document["private"] or guarantee is None:
        return f"{NOT_PRIVATE}: no noise protects the people in the cohort"
    return (
        f"({guarantee['epsilon']:.12g}, {guarantee['delta']:.12g})-differentially private, "
        f"{guarantee['adjacency']}, {guarantee['unit']}"
    )


def statement_document(statement: Statement) -> Document:
    """The statement as the contents of release.json, without `files`."""
    fields = json.loads(json.dumps(dataclasses.asdict(statement), allow_nan=False))
    return {"schema_version": SCHEMA_VERSION, "stamp": statement.stamp, **fields}


def statement_digest(document: Document) -> str:
    """SHA-256 of the statement in `document`, `files` left out.

    It stands in release.log and report.html, whose own digests stand in `files`: so a change of
    any value is noticed. All of it is public, so the digest needs no key.
    """
    return sha256_of_json({name: value for name, value in document.items() if name != "files"})


def serialise(document: Document) -> bytes:
    """The one form in which a document is written to release.json."""
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def schema_problems(document: object) -> list[str]:
    """Where `document` departs from release.schema.json; empty when it does not."""
    return [
        f"{error.json_path}: {error.message}"
        for error in sorted(_validator().iter_errors(document), key=lambda error: error.json_path)
    ]


def check_schema(document: Document) -> None:
    """Refuse a document that is not a valid release.json.

    Raises
    ------
    InputError
        Naming the first place that is wrong.
    """
    problems = schema_problems(document)
    if problems:
        raise InputError("does not follow its schema", where="release.json", value=problems[0])


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(_SCHEMA_PATH.read_text(encoding="utf-8")))
