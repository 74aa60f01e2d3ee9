"""What a release says about itself, as data: the parts of release.json.

Only public values may stand here: what the operator chose, sizes that the adjacency makes public,
and what was computed from noisy statistics. No digest of private data without a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from primo_scale.publication.statement_inputs import PublicInputs
from primo_scale.publication.statement_mechanism import Mechanism

NOT_PRIVATE = "NOT PRIVATE"

_UNITS = {
    ("full", "replace-one"): "one person's whole row",
    ("full", "add-remove"): "one person's whole row",
    (
        "label",
        "replace-one",
    ): "one person's phenotypes (genotypes and covariates are known)",
    ("label", "add-remove"): (
        "one person's phenotypes replaced by nothing (genotypes and covariates are known)"
    ),
    (
        "feature",
        "replace-one",
    ): "one person's genotypes and covariates (phenotypes are known)",
    ("feature", "add-remove"): (
        "one person's genotypes and covariates replaced by nothing (phenotypes are known)"
    ),
}
_VARIANTS_AND_NAMES = (
    "the variants: IDs, positions, alleles and which allele is counted",
    "names, public bounds and codings of phenotypes and covariates",
)
_ACCOUNTANT = (
    "analytic Gaussian profile (Balle and Wang 2018); mu^2 adds up over statistics, joint "
    "sensitivities proved in docs/maths"
)
_SUBSAMPLED = (
    "; X'X of the subsample by amplification, log(1 + (s/n)(e^epsilon - 1)), and added to the rest "
    "as an (epsilon, delta) of its own"
)
_PEOPLE = ("the number of people", "the list of people: who is in the cohort")
_KNOWN = {
    "full": (),
    "label": ("every person's genotypes and covariates",),
    "feature": ("every person's phenotypes, and which of them are missing",),
}


def unit_in_words(privacy: str, adjacency: str) -> str:
    """What one neighbour of a cohort may differ in."""
    return _UNITS[privacy, adjacency]


def public_by_assumption(privacy: str, adjacency: str) -> tuple[str, ...]:
    """What the promise takes as known to everybody, and so does not protect."""
    hides_people = (privacy, adjacency) == ("full", "add-remove")
    return (*_KNOWN[privacy], *(() if hides_people else _PEOPLE), *_VARIANTS_AND_NAMES)


def accountant_in_words(*, subsampled: bool) -> str:
    """How noise was turned into (epsilon, delta)."""
    return _ACCOUNTANT + (_SUBSAMPLED if subsampled else "")


@dataclass(frozen=True)
class Software:
    """What computed the release."""

    name: str
    version: str


@dataclass(frozen=True)
class Cost:
    """What a release, or one of its charges, takes from its account.

    Attributes
    ----------
    mu_squared
        Of its Gaussian part.
    epsilon, delta
        Of what is known only as (epsilon, delta)-private: X'X of a secret subsample. Else 0.
    """

    mu_squared: float
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Accountant:
    """How noise was turned into (epsilon, delta), and by which versions of what."""

    method: str
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Guarantee:
    """The promise: (epsilon, delta) and what it is composed of.

    Attributes
    ----------
    epsilon, delta
        As asked for; what `cost` amounts to stays within them.
    cost
        Of all charges of the release together.
    mu
        Square root of the cost's mu^2: sensitivity over noise of all that is Gaussian.
    adjacency, privacy
        ``replace-one`` or ``add-remove``; ``full``, ``label`` or ``feature``.
    unit
        What both mean, in words (`unit_in_words`).
    accountant
        How the cost was turned into (epsilon, delta).
    """

    epsilon: float
    delta: float
    cost: Cost
    mu: float
    adjacency: str
    privacy: str
    unit: str
    accountant: Accountant


@dataclass(frozen=True)
class Cohort:
    """Public sizes.

    Attributes
    ----------
    n_samples
        Number of people; None where it is private (full privacy, add-remove).
    nominal_n
        The public number that stands for it there; else None.
    n_variants, n_phenotypes, n_covariates, block_sizes
        Columns, and variants of each LD block.
    """

    n_samples: int | None
    nominal_n: int | None
    n_variants: int
    n_phenotypes: int
    n_covariates: int
    block_sizes: tuple[int, ...]


@dataclass(frozen=True)
class Estimation:
    """How weights were computed from the noisy statistics (post-processing).

    Attributes
    ----------
    estimator
        Name of the rule, as ``--shrinkage`` has it.
    shrinkage
        The rule, for a reader.
    eigenvalue_floor
        What happens to eigenvalues that noise made small or negative, for a reader.
    parameters
        Numbers of the rule, in lattice units.
    penalties
        Of a ridge: by LD block, and for each noisy copy of X'X; else empty.
    attenuation
        Factor, for each phenotype, by which clipping rows shrinks effects; known and divided out.
    """

    estimator: str
    shrinkage: str
    eigenvalue_floor: str
    parameters: Mapping[str, float]
    penalties: tuple[float, ...]
    attenuation: tuple[float, ...]


@dataclass(frozen=True)
class Accuracy:
    """What accuracy to expect, from public sizes alone.

    Nothing here is computed from the cohort: how well weights fit the people they were learned
    from overstates how well they predict in others.

    Attributes
    ----------
    effective_sample_size
        Number of people in a cohort analysed without noise that would give the same accuracy.
    definition
        Formula of the effective sample size, in words.
    """

    effective_sample_size: float
    definition: str


@dataclass(frozen=True)
class LedgerCharge:
    """One charge of this release: its random name in the ledger and what it took."""

    id: str
    cost: Cost


@dataclass(frozen=True)
class LedgerBalance:
    """What an account has spent, and the epsilon that this amounts to at the account's delta."""

    cost: Cost
    epsilon: float


@dataclass(frozen=True)
class LedgerBudget:
    """The most the account may spend."""

    epsilon: float
    mu_squared: float


@dataclass(frozen=True)
class LedgerEntry:
    """The charges for this release and what its account had spent before and after them.

    Attributes
    ----------
    cohort
        The custodian's name for it, or ``unnamed``.
    unit, adjacency
        What the account protects; budgets of others are kept apart.
    delta
        The account's one delta, at which every epsilon here is stated.
    charges
        Of this release; the last one bought the statistics.
    before, after, budget
        Of the account.
    """

    cohort: str
    unit: str
    adjacency: str
    delta: float
    charges: tuple[LedgerCharge, ...]
    before: LedgerBalance
    after: LedgerBalance
    budget: LedgerBudget


@dataclass(frozen=True)
class Statement:
    """Everything release.json says but the list of files and the signature.

    A release without a guarantee (`private` False) has no `guarantee`, `mechanism` or `ledger`.

    Attributes
    ----------
    created
        UTC date, ``YYYY-MM-DD``; a time of day would say how long the computation took.
    public_by_assumption
        What the guarantee takes as public (`public_by_assumption`).
    unprotected
        Names of what is published without protection although it is nobody's but the cohort's;
        empty in a private release.
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
    public_by_assumption: tuple[str, ...]
    unprotected: tuple[str, ...]

    @property
    def stamp(self) -> str:
        """The line that every file of the release carries."""
        if not self.private or self.guarantee is None:
            return _not_private_stamp()
        promise = self.guarantee
        return _private_stamp(promise.epsilon, promise.delta, promise.adjacency, promise.unit)


def stamp_of(document: Mapping[str, Any]) -> str:
    """The stamp that goes with the guarantee in `document` (release.json as read)."""
    promise = document["guarantee"]
    if not document["private"] or promise is None:
        return _not_private_stamp()
    return _private_stamp(
        promise["epsilon"], promise["delta"], promise["adjacency"], promise["unit"]
    )


def stamp_column(document: Mapping[str, Any]) -> str:
    """Return the guarantee in `document` (release.json) as a column name, without blanks."""
    promise = document["guarantee"]
    if not document["private"] or promise is None:
        return NOT_PRIVATE.replace(" ", "_")
    return (
        f"epsilon={promise['epsilon']:.12g},delta={promise['delta']:.12g},"
        f"unit={promise['privacy']},adjacency={promise['adjacency']}"
    )


def _not_private_stamp() -> str:
    return f"{NOT_PRIVATE}: no noise protects the people in the cohort"


def _private_stamp(epsilon: float, delta: float, adjacency: str, unit: str) -> str:
    return f"({epsilon:.12g}, {delta:.12g})-differentially private, {adjacency}, {unit}"
