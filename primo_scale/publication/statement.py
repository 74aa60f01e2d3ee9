"""Statement of a release: the dataclasses of which release.json consists.

They may contain only public values: choices of the operator, sizes that the neighbouring relation
makes public, and results computed from noisy statistics. A digest of private data is allowed only
with a key. The annotations define release.schema.json (`primo_scale.publication.release_schema`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from primo_scale.genotypes.coding import REFERENCE_UNIT
from primo_scale.genotypes.genome_build import BUILD_NAMES
from primo_scale.publication.document import RELEASE, Document
from primo_scale.publication.recompute_method import PARAMETERS
from primo_scale.publication.schema_types import (
    ONE_LINE,
    Adjacency,
    Amount,
    AtLeastOne,
    Delta,
    Digest,
    Natural,
    Number,
    Positive,
    PositiveAmount,
    PositiveShare,
    Privacy,
    Share,
    Text,
    Version,
    one_of,
)
from primo_scale.publication.statement_mechanism import StatedMechanism
from primo_scale.publication.wording import stamp_of

_VERSIONED = Meta(
    extra_json_schema={
        "propertyNames": {"enum": ["primo_scale", "scipy", "cryptography"]},
        "required": ["primo_scale", "scipy"],
    }
)
_NoisySum = Annotated[int, Meta(ge=-(2**62), le=2**62)]
_UpToOne = Annotated[float, Meta(ge=0, le=1)]
_NAMED_NUMBERS = Meta(
    extra_json_schema={
        "propertyNames": {"enum": sorted({name for names in PARAMETERS.values() for name in names})}
    }
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
class StatedPopulation:
    """Population of the LD panel's people."""

    name: Text
    people: Positive  # of the panel
    centroid: tuple[int, ...]  # codes of the mean components of the loadings, empty without these


@dataclass(frozen=True)
class StatedPopulations:
    """Table of the populations of the LD panel's people."""

    file: _FileName
    sha256: Digest
    populations: Annotated[tuple[StatedPopulation, ...], Meta(min_length=2)]


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


@dataclass(frozen=True)
class Software:
    """Program that computed the release."""

    name: Literal["primo_scale"]
    version: Version


@dataclass(frozen=True)
class StatedCost:
    """Cost of a release, or of one of its charges."""

    mu_squared: Amount  # squared ratio of sensitivity and noise of the Gaussian part
    # Cost of the part that is only known to be (epsilon, delta)-private: X'X of a secret subsample.
    # Otherwise 0.
    epsilon: Amount
    delta: Share


@dataclass(frozen=True)
class Accountant:
    """Computation of (epsilon, delta) from the noise, and versions of the programs involved."""

    method: Text
    versions: Annotated[Mapping[str, Version], _VERSIONED]


@dataclass(frozen=True)
class Guarantee:
    """Privacy guarantee: (epsilon, delta) and its derivation."""

    # Requested values; the value of `cost` is within them.
    epsilon: Annotated[float, Meta(gt=0, le=1e6)]
    delta: Delta
    cost: StatedCost  # of all charges of the release
    # Square root of the cost's mu^2, the ratio of sensitivity and noise of all Gaussian parts.
    mu: PositiveAmount
    adjacency: Adjacency
    privacy: Privacy
    unit: Text  # description of both (`primo_scale.publication.wording.unit_in_words`)
    accountant: Accountant


@dataclass(frozen=True)
class Cohort:
    """Public sizes of the cohort."""

    # Number of people; None if it is private (full privacy with add-remove).
    n_samples: Positive | None
    # Public number used in place of a private number of people; otherwise None.
    nominal_n: Positive | None
    n_variants: Positive
    n_phenotypes: Positive
    n_covariates: Natural
    block_sizes: Annotated[tuple[Positive, ...], AtLeastOne]  # number of variants of each LD block
    # Number of LD components that take the place of the variants of each block; None without them,
    # and absent in releases of earlier versions.
    component_sizes: Annotated[tuple[Positive, ...], AtLeastOne] | None = None


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
    # Populations of the LD panel's people, if any; absent in releases of earlier versions.
    panel_populations: StatedPopulations | None = None


@dataclass(frozen=True)
class Estimation:
    """Computation of weights from the noisy statistics (post-processing)."""

    estimator: Annotated[str, one_of(PARAMETERS)]  # name of the rule, as in ``--shrinkage``
    shrinkage: Text  # description of the rule
    # Description of the treatment of eigenvalues that noise made small or negative.
    eigenvalue_floor: Text
    parameters: Annotated[Mapping[str, Number], _NAMED_NUMBERS]  # of the rule, in lattice units
    # Penalties of a ridge, by LD block and by noisy copy of X'X; otherwise empty.
    penalties: tuple[Number, ...]
    # Factor for each phenotype by which the clipping of rows shrinks effects. It is known, and the
    # weights are divided by it.
    attenuation: Annotated[tuple[PositiveShare, ...], AtLeastOne]
    # Public scores that the weights build on; absent in releases of earlier versions.
    public_scores: tuple[StatedScore, ...] = ()
    # Share of the variance of each phenotype's score in the LD panel that is between its
    # populations; empty without these.
    between_populations: tuple[_UpToOne, ...] = ()


@dataclass(frozen=True)
class Accuracy:
    """Forecast of the accuracy, from public sizes alone.

    No value is computed from the cohort, because the fit to the people from whom weights are
    learned overestimates the accuracy in others.
    """

    # Number of people in a cohort analysed without noise that gives the same accuracy.
    effective_sample_size: Amount
    definition: Text  # formula of the effective sample size, in words


@dataclass(frozen=True)
class HeldOutGroup:
    """Accuracy of one phenotype's score: in a group, within all groups, or over all people."""

    name: Text  # of the phenotype; of a group ``within groups``, or a population of the panel
    r2: _UpToOne | None  # squared correlation of clipped score and residual; None if not measured
    r2_lower: _UpToOne  # ends of the 95% interval, which counts sampling and noise
    r2_upper: _UpToOne
    slope: Number | None  # of the residual on the score, 1 for calibrated weights
    slope_lower: Number | None
    slope_upper: Number | None


@dataclass(frozen=True)
class HeldOutPhenotype(HeldOutGroup):
    """Accuracy of one phenotype's score, and the noisy statistics that it follows from.

    The score is that of the weights of the variants, less its regression on the components of
    public loadings, and the residual is the phenotype less its mean and its regression on the
    covariates. Versions before 0.5 subtracted nothing from the score.
    """

    residual_bound: PositiveAmount  # R, in units of the phenotype
    # Middle of the range of scores, and its half width U, in units of the phenotype. They follow
    # from `counts`.
    score_centre: Number
    score_bound: PositiveAmount
    # People between the public edges -4 R, ..., -4 R 2^(-k/2), ..., 4 R 2^(-k/2), ..., 4 R, and
    # last those whose residual is beyond three public sds, if the phenotype is quantitative.
    counts: Annotated[tuple[_NoisySum, ...], AtLeastOne]
    # Sums of kappa^2, u^2, r^2, kappa u, kappa r and u r, for each group.
    sums: Annotated[tuple[_NoisySum, ...], Meta(min_length=6)]
    calibration: Amount  # factor that the weights were multiplied by afterwards; 1 if they were not
    # Of a binary phenotype, for a score and a liability that are jointly normal: area under the ROC
    # curve, and R^2 of the liability, by the public prevalence.
    auc: _UpToOne | None
    auc_lower: _UpToOne | None
    auc_upper: _UpToOne | None
    liability_r2: _UpToOne | None
    liability_r2_lower: _UpToOne | None
    liability_r2_upper: _UpToOne | None
    # Within the groups together, and in each. A person's group is the population of the panel whose
    # centroid is nearest. Empty without populations; the other numbers are of all people together.
    groups: tuple[HeldOutGroup, ...] = ()


@dataclass(frozen=True)
class HeldOut:
    """Measurement of the weights in people who count in no other statistic."""

    people: Positive  # number of people held out
    unit: Positive  # code of a score or a residual at its bound
    constant: Positive  # code kappa of a person with the phenotype
    phenotypes: Annotated[tuple[HeldOutPhenotype, ...], AtLeastOne]  # in the order of the weights


@dataclass(frozen=True)
class LedgerCharge:
    """One charge of this release: its random identifier in the ledger, and its cost."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    cost: StatedCost


@dataclass(frozen=True)
class LedgerBalance:
    """Total spent by an account, and the corresponding epsilon at the account's delta."""

    cost: StatedCost
    epsilon: Amount


@dataclass(frozen=True)
class LedgerBudget:
    """Upper limit of an account's spending."""

    epsilon: PositiveAmount
    mu_squared: PositiveAmount


@dataclass(frozen=True)
class LedgerEntry:
    """Charges for this release, and the spending of its account before and after them."""

    cohort: Text  # the custodian's name of the cohort, or ``unnamed``
    # Privacy unit and neighbouring relation of the account, which has its own budget.
    unit: Privacy
    adjacency: Adjacency
    delta: Delta  # the account's delta, at which every epsilon of the entry is stated
    # Charges of this release; the last one paid for the statistics.
    charges: Annotated[tuple[LedgerCharge, ...], Meta(min_length=1, max_length=1)]
    before: LedgerBalance  # of the account, before these charges
    after: LedgerBalance
    budget: LedgerBudget


@dataclass(frozen=True)
class Statement:
    """All of release.json except the stamp, scoring, the list of files and the signature.

    Without a guarantee (`private` is False), `guarantee`, `mechanism` and `ledger` are None.
    """

    software: Software
    # UTC date, ``YYYY-MM-DD``. A time of day would reveal the duration of the computation.
    created: Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    private: bool
    guarantee: Guarantee | None
    mechanism: StatedMechanism | None  # noise from which the guarantee follows
    cohort: Cohort
    public_inputs: PublicInputs
    estimation: Estimation
    accuracy: Accuracy
    ledger: LedgerEntry | None
    public_by_assumption: tuple[Text, ...]  # as `primo_scale.publication.wording` lists them
    # Names of data of the cohort that are published without protection; empty in a private release.
    unprotected: tuple[Text, ...]
    # Whether the release has summary statistics; absent in releases of earlier versions.
    summary_statistics: bool = False
    # Measurement of the weights in people held out; None without, absent in earlier versions.
    hold_out: HeldOut | None = None

    @property
    def stamp(self) -> str:
        """Line with the guarantee that every file of the release carries."""
        return stamp_of(dataclasses.asdict(self))


def statement_document(statement: Statement) -> Document:
    """Return the contents of release.json without `scoring`, `files` and `signature`."""
    fields = json.loads(json.dumps(dataclasses.asdict(statement), allow_nan=False))
    return {"schema_version": RELEASE.version, "stamp": statement.stamp, **fields}
