"""Requests beside those of a release: forecasts, evaluations, parties, simulations and audits."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from primo_scale.errors import Field, UsageError
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.run import fields
from primo_scale.run.fields import NEEDED, Checked, Kind, option, read_fields
from primo_scale.run.request import (
    FILES,
    OUTCOMES,
    PRIVACY,
    RELEASE,
    GenotypeInputs,
    OutcomeTables,
    Payment,
    beside_release,
)
from primo_scale.storage.locations import Location

if TYPE_CHECKING:
    from primo_scale.parties.columns import RandomSigns
    from primo_scale.parties.fit import PartyMethod
    from primo_scale.privacy.mechanism import Promise

# ---- Forecast ------------------------------------------------------------------------------------


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class ForecastRequest(Checked):
    """Releases to forecast: every combination of people, phenotypes and epsilons.

    Attributes
    ----------
    ld_panel
        PLINK 1 filesets of public people, with the variants of the release.
    ref_freq
        Their allele frequencies (plink2 --freq).
    people
        Sizes of cohorts.
    phenotypes
        Numbers of phenotypes of a release.
    epsilon
        Values of epsilon.
    delta
        Delta of every release (default: 1 / people^2).
    extract
        List of the variants that take part.
    ld_components
        Sum LD components of the panel in place of variants.
    """

    HEADING = "Forecast without a cohort"

    ld_panel: tuple[Path, ...] = option(fields.PATHS, default=NEEDED)
    ref_freq: Path = option(fields.FILE, default=NEEDED)
    people: tuple[int, ...] = option(
        fields.several(fields.count(), metavar="N[,N...]"), default=NEEDED
    )
    phenotypes: tuple[int, ...] = option(
        fields.several(fields.count(), metavar="L[,L...]"), default=(1, 10, 100)
    )
    epsilon: tuple[float, ...] = option(
        fields.several(fields.number(), metavar="E[,E...]"), default=(1.0, 5.0)
    )
    delta: float | None = option(fields.number())
    extract: Path | None = option(fields.FILE)
    ld_components: bool = option(fields.FLAG, default=True)

    def check(self) -> None:
        """Refuse numbers out of range."""
        from primo_scale.gaussian.calibration import DELTA_RANGE, release_mu  # loads NumPy

        for name in ("people", "phenotypes"):
            sizes = getattr(self, name)
            if min(sizes, default=0) < 1:
                raise UsageError("is not a positive number", where=Field(name), value=sizes)
        fewest = min(self.people)
        if self.delta is None and self.delta_of(fewest) > DELTA_RANGE[1]:
            raise UsageError(
                "are too few for a delta of 1/people^2",
                where=Field("people"),
                value=fewest,
                limit=f"at least {math.ceil(DELTA_RANGE[1] ** -0.5)}",
                remedy="Give more people, or `delta`",
            )
        for people, epsilon in itertools.product(self.people, self.epsilon):
            release_mu(epsilon, self.delta_of(people))

    def delta_of(self, people: int) -> float:
        """Return the delta of a release of so many people."""
        return float(people) ** -2 if self.delta is None else self.delta


# ---- Evaluation ----------------------------------------------------------------------------------


def _prevalences(value: Any, _: str) -> dict[str, float]:
    if not isinstance(value, Mapping):
        value = dict(map(_name_and_number, (value,) if isinstance(value, str) else value))
    for name, prevalence in value.items():
        if not 0 < prevalence < 1:
            raise UsageError("is no prevalence", value=f"{name}={prevalence}", limit="(0, 1)")
    return dict(value)


def _name_and_number(text: str) -> tuple[str, float]:
    name, _, share = text.rpartition("=")
    try:
        return name, float(share)
    except ValueError as error:
        remedy = "Give NAME=NUMBER"
        raise UsageError("is no prevalence", value=text, remedy=remedy) from error


SCORES = fields.several(fields.PATH, metavar="DIR|FILE", repeats=True)
PREVALENCES = Kind("mapping of str to float", _prevalences, "NAME=K", several=True, repeats=True)


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class EvaluationRequest(GenotypeInputs):
    """Evaluation of scores in people who consented, are public, or are simulated.

    The cohort that a private release was made from must not be evaluated: the results have no
    noise.

    Attributes
    ----------
    weights
        Release, its weights.tsv.gz, or PGS Catalog file (format 2.0). Repeatable.
    genotypes
        Store written by ingest, in place of files.
    pheno
        Phenotypes. A score is compared with the phenotype of its name.
    covar
        Covariates.
    pheno_name
        Only these phenotypes.
    covar_name
        Only these covariates.
    pc_loadings
        Loadings of a public panel, as for release: the principal components of each person are
        covariates.
    groups
        Table of IID and group, for results within the groups together, and by group.
    prevalence
        Share of cases in the population, for the liability scale. Repeatable.
    out
        Directory to create.
    """

    HEADING = OUTCOMES

    weights: tuple[Path, ...] = option(SCORES, default=NEEDED, heading="Scores")
    genotypes: Location | None = option(fields.LOCATION, heading="Genotypes")
    pheno: Path = option(fields.FILE, default=NEEDED)
    covar: Path | None = option(fields.FILE)
    pheno_name: tuple[str, ...] | None = option(fields.NAMES)
    covar_name: tuple[str, ...] | None = option(fields.NAMES, needs="covar")
    pc_loadings: Path | None = option(fields.FILE, metavar="PREFIX.eigenvec.allele")
    groups: Path | None = option(fields.FILE)
    prevalence: Mapping[str, float] = option(PREVALENCES, default=())
    out: Path = option(fields.PATH, default=NEEDED, heading=FILES)

    def check(self) -> None:
        """Refuse a request without weights or people, or names of columns without a table."""
        if (self.source_files is None) == (self.genotypes is None):
            raise UsageError("people come from files or from `genotypes`", remedy="Give one")


# ---- Parties -------------------------------------------------------------------------------------

_SEED_DIGITS = 32


def _seed(value: Any, _: str) -> str:
    if not re.fullmatch(f"[0-9a-f]{{{_SEED_DIGITS}}}", value.lower()):
        raise UsageError(
            "is no seed",
            value=value,
            limit=f"{_SEED_DIGITS} hexadecimal digits",
            remedy="Take the SHA-256 of a text that all parties agree on, and its first digits",
        )
    return str(value.lower())


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class RosterRequest(Checked):
    """Roster of a party's people, or of the people whom all parties have.

    Attributes
    ----------
    people
        Phenotype table or genotype store of this party, for the IIDs.
    party_key
        The key that the parties share (primo-scale key new makes one).
    others
        Roster of another party: only people of all rosters are kept. Repeatable.
    out
        Roster to write. PRIVATE.
    """

    people: Location = option(fields.LOCATION, default=NEEDED)
    party_key: Path = option(fields.FILE, default=NEEDED)
    others: tuple[Path, ...] = option(fields.several(fields.FILE, repeats=True), default=())
    out: Path = option(fields.FILE, default=NEEDED)


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class PartyReleaseRequest(Payment):
    """Release of the columns that one party holds of the people of all parties.

    Attributes
    ----------
    party
        Public name of this party.
    roster
        The parties' roster (party roster).
    party_key
        The key that the parties share.
    pheno
        Table of the columns to release.
    pheno_bounds
        Public bounds: name, lower, upper.
    pheno_name
        Only these columns.
    genotypes
        Genotype store whose variants are the columns, in place of `pheno`.
    epsilon
        Privacy parameter epsilon.
    delta
        Privacy parameter delta.
    person_columns
        Columns of all parties together: epsilon and delta then hold for a person and all parties
        (default: for this release alone).
    mixtures
        Release K random mixtures of the people in place of their rows.
    seed
        Public seed of the mixtures, the same for all parties.
    out
        The release directory to publish.
    work_dir
        Private directory for intermediate files (OUT.work).
    """

    HEADING = "Columns and people"

    party: str = option(fields.TEXT, default=NEEDED)
    roster: Path = option(fields.FILE, default=NEEDED)
    party_key: Path = option(fields.FILE, default=NEEDED)
    pheno: Path | None = option(fields.FILE)
    pheno_bounds: Path | None = option(fields.FILE)
    pheno_name: tuple[str, ...] | None = option(fields.NAMES)
    genotypes: Location | None = option(fields.LOCATION)
    epsilon: float = option(fields.number(), default=NEEDED, heading=PRIVACY)
    delta: float = option(fields.number(), default=NEEDED, heading=PRIVACY)
    person_columns: int | None = option(fields.count(), heading=PRIVACY)
    mixtures: int | None = option(fields.count(metavar="K"), heading=PRIVACY, needs="seed")
    seed: str | None = option(
        Kind("hexadecimal digits", _seed, "HEX"), heading=PRIVACY, needs="mixtures"
    )
    out: Path = option(RELEASE, default=NEEDED, heading=FILES)
    _work_dir: Path | None = option(fields.PATH, heading=FILES)

    def check(self) -> None:
        """Refuse choices that exclude each other, or that lack a part."""
        from primo_scale.gaussian.calibration import release_mu  # loads NumPy

        if not self.party.strip() or not self.party.isprintable():
            raise UsageError(
                "is no name of a party",
                where=Field("party"),
                value=repr(self.party),
                remedy="Give printable text on one line",
            )
        release_mu(self.epsilon, self.delta)
        if (self.tables is None) == (self.genotypes is None):
            what = "a release has the columns of `pheno` or of `genotypes`"
            raise UsageError(what, remedy="Give one of them")

    @property
    def work_dir(self) -> Path:
        """Private directory of the run."""
        return self._work_dir or beside_release(self.out)

    @property
    def tables(self) -> OutcomeTables | None:
        """Table of the columns with its public bounds, or None where genotypes are released."""
        if self.pheno is None:
            return None
        return OutcomeTables(self.pheno, self.pheno_bounds, pheno_name=self.pheno_name)

    @property
    def promise(self) -> Promise:
        """Promise about a person's whole row, which a neighbouring cohort replaces by any other."""
        from primo_scale.privacy.mechanism import Promise  # loads NumPy

        return Promise(self.epsilon, self.delta)

    @property
    def signs(self) -> RandomSigns | None:
        """Signs of the mixtures, or None where rows are released."""
        from primo_scale.parties.columns import RandomSigns  # loads NumPy

        if self.mixtures is None or self.seed is None:
            return None
        return RandomSigns(self.seed, self.mixtures)


def _party_method(value: Any, _: str) -> PartyMethod:
    from primo_scale.parties.fit import PartyMethod  # loads NumPy

    return PartyMethod(value)


PARTY_METHOD = Kind("method", _party_method, "bgm|dgm|rmgm|rmgm-debiased")


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class PartyFitRequest(Checked):
    """Linear model from the releases of several parties. It costs no privacy.

    Attributes
    ----------
    releases
        Release of one party. Repeatable.
    outcome
        Column to predict, or PARTY:COLUMN.
    predictors
        Columns to predict with (default: all others).
    method
        Of rows, bgm, or dgm with the correction for the noise; of mixtures, rmgm or rmgm-debiased.
    ridge
        Penalty, as a sum over people (default: small eigenvalues are raised).
    out
        Directory to create, with weights.tsv and model.json.
    """

    releases: tuple[Path, ...] = option(
        fields.several(fields.PATH, repeats=True), default=NEEDED, metavar="DIR"
    )
    outcome: str = option(fields.TEXT, default=NEEDED)
    predictors: tuple[str, ...] | None = option(fields.NAMES)
    method: PartyMethod = option(PARTY_METHOD, default=NEEDED)
    ridge: float | None = option(fields.number("[0, inf)"))
    out: Path = option(fields.PATH, default=NEEDED)


# ---- Budgets, simulation and audit --------------------------------------------------------------


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class BudgetRequest(Checked):
    """Total budget of a cohort.

    Attributes
    ----------
    epsilon
        Total epsilon the cohort may spend.
    delta
        Needed for a new budget; an existing one keeps its own.
    unit
        What is protected, as for a release.
    adjacency
        Against which neighbours: a row replaced by any other, or by nothing.
    """

    epsilon: float = option(fields.number(), default=NEEDED)
    delta: float | None = option(fields.number())
    unit: str = option(fields.choice(PrivacyUnit), default="full")
    adjacency: str = option(fields.choice(Adjacency), default="replace-one")


LARGEST_HERITABILITY = 0.95  # age explains the other 0.05
_SEED = fields.count("[0, 9223372036854775807]")


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class SimulationRequest(Checked):
    """Parameters of a simulated cohort, whose genotypes are mosaics of a public panel's.

    Attributes
    ----------
    bfile
        PLINK 1 fileset of the panel.
    out
        Files to write: PREFIX.bed, ...
    samples
        People to simulate.
    seed
        Seed of the people.
    variants
        Number of variants; a larger one tiles the panel under new IDs (default: the panel's).
    mean_segment
        Mean number of neighbouring variants copied from one member of the panel. Give fewer for
        variants thinned by LD, which are far apart: their LD is far too large otherwise.
    missing
        Share of genotype calls to make missing.
    phenotypes
        Quantitative traits QT1, QT2, ... of mean 0 and variance 1.
    prevalence
        Add a 0/1 trait CASE with this share of cases.
    heritability
        Heritability of every trait in the simulated population (CASE: on the liability scale).
    causal_fraction
        Share of polymorphic variants that have an effect.
    effects_seed
        Seed of the effects; cohorts with equal seeds and trait options have equal effects.
    """

    bfile: str = option(fields.TEXT, default=NEEDED, metavar="PREFIX")
    out: str = option(fields.TEXT, default=NEEDED, metavar="PREFIX")
    samples: int = option(fields.count(), default=NEEDED)
    seed: int = option(_SEED, default=NEEDED)
    variants: int | None = option(fields.count())
    mean_segment: float = option(fields.number("[1, inf)"), default=200.0)
    missing: float = option(fields.number("[0, 1)"), default=0.0)
    phenotypes: int = option(fields.count("[0, inf)"), default=0)
    prevalence: float | None = option(fields.number("(0, 1)"))
    heritability: float = option(fields.number(f"[0, {LARGEST_HERITABILITY}]"), default=0.3)
    causal_fraction: float = option(fields.number("(0, 1]"), default=0.01)
    effects_seed: int = option(_SEED, default=0)


_ALL = "all"


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class AuditRequest(Checked):
    """Mechanisms to attack, and with how many draws.

    Attributes
    ----------
    method
        Method whose mechanisms are audited; docs/methods.md has the table.
    unit
        What is protected.
    adjacency
        Against which neighbours: a row replaced by any other, or by nothing.
    epsilon
        Claimed epsilon; 1 to 3 is best.
    delta
        Claimed delta, 1e-30 to 1e-3.
    runs
        Number of releases drawn over each cohort of each pair of neighbours.
    confidence
        Probability that no sound mechanism is accused, over all lines together.
    """

    method: str = option(fields.TEXT, default=_ALL, metavar="all|NAME")
    unit: str = option(fields.choice([*PrivacyUnit, _ALL]), default="full")
    adjacency: str = option(
        fields.choice(("replace-one", "add-remove", _ALL)), default="replace-one"
    )
    epsilon: float = option(fields.number(), default=NEEDED)
    delta: float = option(fields.number(), default=NEEDED)
    runs: int = option(fields.count("[1000, inf)"), default=10_000)
    confidence: float = option(fields.number("(0, 1)"), default=0.99)
