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
from primo_scale.run.fields import (
    FILE,
    FLAG,
    LOCATION,
    NAMES,
    NEEDED,
    PATH,
    PATHS,
    TEXT,
    Checked,
    Kind,
    choice,
    count,
    number,
    option,
    read_fields,
    several,
)
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
    from primo_scale.parties.fit import PartyMethod
    from primo_scale.parties.mixtures import RandomSigns
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

    ld_panel: tuple[Path, ...] = option(PATHS, default=NEEDED)
    ref_freq: Path = option(FILE, default=NEEDED)
    people: tuple[int, ...] = option(several(count(), metavar="N[,N...]"), default=NEEDED)
    phenotypes: tuple[int, ...] = option(several(count(), metavar="L[,L...]"), default=(1, 10, 100))
    epsilon: tuple[float, ...] = option(several(number(), metavar="E[,E...]"), default=(1.0, 5.0))
    delta: float | None = option(number())
    extract: Path | None = option(FILE)
    ld_components: bool = option(FLAG, default=True)

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


SCORES = several(PATH, metavar="DIR|FILE", repeats=True)
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
    genotypes: Location | None = option(LOCATION, heading="Genotypes")
    pheno: Path = option(FILE, default=NEEDED)
    covar: Path | None = option(FILE)
    pheno_name: tuple[str, ...] | None = option(NAMES)
    covar_name: tuple[str, ...] | None = option(NAMES)
    pc_loadings: Path | None = option(FILE, metavar="PREFIX.eigenvec.allele")
    groups: Path | None = option(FILE)
    prevalence: Mapping[str, float] = option(PREVALENCES, default=())
    out: Path = option(PATH, default=NEEDED, heading=FILES)

    def check(self) -> None:
        """Refuse a request without weights or people, or names of columns without a table."""
        if not self.weights:
            raise UsageError("no weights are given", where=Field("weights"))
        if (self.source_files is None) == (self.genotypes is None):
            raise UsageError("people come from files or from `genotypes`", remedy="Give one")
        if self.covar_name is not None and self.covar is None:
            raise UsageError("names columns of `covar`", where=Field("covar_name"))


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

    people: Location = option(LOCATION, default=NEEDED)
    party_key: Path = option(FILE, default=NEEDED)
    others: tuple[Path, ...] = option(several(FILE, repeats=True), default=())
    out: Path = option(FILE, default=NEEDED)


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

    party: str = option(TEXT, default=NEEDED)
    roster: Path = option(FILE, default=NEEDED)
    party_key: Path = option(FILE, default=NEEDED)
    pheno: Path | None = option(FILE)
    pheno_bounds: Path | None = option(FILE)
    pheno_name: tuple[str, ...] | None = option(NAMES)
    genotypes: Location | None = option(LOCATION)
    epsilon: float = option(number(), default=NEEDED, heading=PRIVACY)
    delta: float = option(number(), default=NEEDED, heading=PRIVACY)
    person_columns: int | None = option(count(), heading=PRIVACY)
    mixtures: int | None = option(count(metavar="K"), heading=PRIVACY)
    seed: str | None = option(Kind("hexadecimal digits", _seed, "HEX"), heading=PRIVACY)
    out: Path = option(RELEASE, default=NEEDED, heading=FILES)
    _work_dir: Path | None = option(PATH, heading=FILES)

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
        if (self.mixtures is None) != (self.seed is None):
            raise UsageError("`mixtures` and `seed` go together", remedy="Give both")

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
        from primo_scale.parties.mixtures import RandomSigns  # loads NumPy

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

    releases: tuple[Path, ...] = option(several(PATH, repeats=True), default=NEEDED, metavar="DIR")
    outcome: str = option(TEXT, default=NEEDED)
    predictors: tuple[str, ...] | None = option(NAMES)
    method: PartyMethod = option(PARTY_METHOD, default=NEEDED)
    ridge: float | None = option(number("[0, inf)"))
    out: Path = option(PATH, default=NEEDED)


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

    epsilon: float = option(number(), default=NEEDED)
    delta: float | None = option(number())
    unit: str = option(choice(PrivacyUnit), default="full")
    adjacency: str = option(choice(Adjacency), default="replace-one")


LARGEST_HERITABILITY = 0.95  # age explains the other 0.05
_SEED = count("[0, 9223372036854775807]")


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

    bfile: str = option(TEXT, default=NEEDED, metavar="PREFIX")
    out: str = option(TEXT, default=NEEDED, metavar="PREFIX")
    samples: int = option(count(), default=NEEDED)
    seed: int = option(_SEED, default=NEEDED)
    variants: int | None = option(count())
    mean_segment: float = option(number("[1, inf)"), default=200.0)
    missing: float = option(number("[0, 1)"), default=0.0)
    phenotypes: int = option(count("[0, inf)"), default=0)
    prevalence: float | None = option(number("(0, 1)"))
    heritability: float = option(number(f"[0, {LARGEST_HERITABILITY}]"), default=0.3)
    causal_fraction: float = option(number("(0, 1]"), default=0.01)
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

    method: str = option(TEXT, default=_ALL, metavar="all|NAME")
    unit: str = option(choice(("full", "label", "feature", _ALL)), default="full")
    adjacency: str = option(choice(("replace-one", "add-remove", _ALL)), default="replace-one")
    epsilon: float = option(number(), default=NEEDED)
    delta: float = option(number(), default=NEEDED)
    runs: int = option(count("[1000, inf)"), default=10_000)
    confidence: float = option(number("(0, 1)"), default=0.99)
