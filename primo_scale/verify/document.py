"""release.json and party.json: the types of their members, which are their schema.

They may contain only public values: choices of the operator, sizes that the neighbouring relation
makes public, and results computed from noisy statistics. A digest of private data is allowed only
with a key. `make schema` writes the same types as JSON schemas, for other tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from primo_scale.verify.files import bounded_bytes, canonical_json, sha256_of
from primo_scale.verify.finding import Finding, finding_of

# Members of release.json or party.json.
Document = dict[str, Any]

# Pattern of a text without control characters, line separators and bidirectional controls.
ONE_LINE = r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+\Z"
_LARGEST_INTEGER, _LARGEST_NUMBER = 2**62, 1e100

Text = Annotated[str, Meta(pattern=ONE_LINE)]
FileName = Annotated[str, Meta(pattern=ONE_LINE.replace("[^", "[^/"))]
Software = Annotated[str, Meta(pattern=r"^primo_scale [0-9][0-9A-Za-z.!+_-]{0,39}\Z")]
Version = Annotated[str, Meta(pattern=r"^[0-9][0-9A-Za-z.!+_-]{0,39}\Z")]
Date = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Privacy = Annotated[str, Meta(pattern=r"^(full|label|feature)\Z")]
Adjacency = Annotated[str, Meta(pattern=r"^(replace-one|add-remove)\Z")]
Library = Annotated[str, Meta(pattern=r"^(primo_scale|scipy|cryptography)\Z")]
Build = Annotated[str, Meta(pattern=r"^(GRCh37|GRCh38|NCBI36|NR)\Z")]
Natural = Annotated[int, Meta(ge=0, le=_LARGEST_INTEGER)]
Positive = Annotated[int, Meta(ge=1, le=_LARGEST_INTEGER)]
NoisySum = Annotated[int, Meta(ge=-_LARGEST_INTEGER, le=_LARGEST_INTEGER)]
FineBits = Annotated[int, Meta(ge=0, le=62)]
Number = Annotated[float, Meta(ge=-_LARGEST_NUMBER, le=_LARGEST_NUMBER)]
Amount = Annotated[float, Meta(ge=0, le=_LARGEST_NUMBER)]
PositiveAmount = Annotated[float, Meta(gt=0, le=_LARGEST_NUMBER)]
Scale = Annotated[float, Meta(ge=1 / _LARGEST_NUMBER, le=_LARGEST_NUMBER)]
Share = Annotated[float, Meta(ge=0, lt=1)]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]
UpToOne = Annotated[float, Meta(ge=0, le=1)]
Delta = Annotated[float, Meta(gt=0, lt=1)]
AtLeastOne = Meta(min_length=1)
Scales = Annotated[tuple[Scale, ...], AtLeastOne]
Sizes = Annotated[tuple[Positive, ...], AtLeastOne]


# ---- The program and the promise -----------------------------------------------------------------


class StatedCost(Struct, frozen=True):
    """Cost of a release, or of one of its charges."""

    mu_squared: Amount  # squared ratio of sensitivity and noise of the Gaussian part
    # Cost of the part that is only known to be (epsilon, delta)-private: X'X of a secret subsample.
    # Otherwise 0.
    epsilon: Amount
    delta: Share


class Guarantee(Struct, frozen=True):
    """Privacy guarantee: (epsilon, delta) and its derivation."""

    # Requested values; the value of `cost` is within them.
    epsilon: Annotated[float, Meta(gt=0, le=1e6)]
    delta: Delta
    cost: StatedCost  # of all charges of the release
    # Square root of the cost's mu^2, the ratio of sensitivity and noise of all Gaussian parts.
    mu: PositiveAmount
    adjacency: Adjacency
    privacy: Privacy
    unit: Text  # description of both (`primo_scale.verify.words.unit_in_words`)
    versions: Mapping[Library, Version]  # of the programs that computed (epsilon, delta)


# ---- The noise -----------------------------------------------------------------------------------


class StatedQuery(Struct, frozen=True):
    """One noisy statistic of genotypes X and phenotypes Y."""

    name: Text  # name of the statistic, as report.html describes it
    # Shape of the statistic; of the dense d x d matrix for ``gram``.
    shape: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=2)]
    # Largest l2 distance between the values of this statistic on neighbouring cohorts, in lattice
    # units: one number, or one per LD block if blocks have their own bounds.
    sensitivity: Scales
    sigma: Scales  # standard deviations of the noise in lattice units, as many as sensitivities
    # Standard deviations of the noise outside the diagonal of a symmetric matrix; None for others,
    # all entries of which have equal noise.
    off_diagonal_sigma: Scales | None
    # The noise was drawn on multiples of 2^-fine_bits, and the sum rounded to integers.
    fine_bits: Annotated[tuple[FineBits, ...], AtLeastOne]


class StatedSecondRound(Struct, frozen=True):
    """Bounds of a second round: ``sum_k y_k^2 ||x_k||^2 <= N_x N_y`` of every person."""

    directions: Positive  # of all phenotypes together
    row_norm_squared: Positive  # N_x
    phenotypes_norm_squared: Positive  # N_y


class StatedMechanism(Struct, frozen=True):
    """Calibration of the noise (docs/maths)."""

    method: Text  # name in docs/methods.md
    summary: Text  # description of the method
    reason: Text  # reason of the choice: ``as given``, or the rule that chose the method
    calibration: Text  # theorem that composes the queries
    # Parameter t, the division of the shift between X'X and X'Y: D/A for one dense X'X, and 2
    # tau with tau^3 + 3 tau = D/Q for LD blocks (docs/maths/sensitivity.md); None if nothing is
    # divided.
    split: Annotated[float, Meta(ge=1e-12, le=1e12)] | None
    # N_x: every genotype row on the lattice satisfies ``||x||^2 <= N_x``; with label privacy
    # ``||x||^2 ||y||^2 <= N_x N_y`` instead.
    row_norm_squared: Positive
    # beta_b of every LD block, if the noise is also based on ``||x_b||^2 <= beta_b``; else None.
    block_norms_squared: Sizes | None
    phenotypes_norm_squared: Positive  # N_y
    counts_share: Share  # share of the statistics' mu^2 spent on ``observed``
    eigenvalue_share: Share  # share of the statistics' mu^2 spent on ``smallest_eigenvalue``
    # Share of the release's mu^2 that the adjustment of the phenotypes leaves for the statistics.
    share: PositiveShare
    # N: the rows v_j = (c, y_j) of a person satisfy ``sum_j |v_j|^4 <= N^2`` in the adjustment of
    # the phenotypes.
    adjustment_norm: Positive
    gram_copies: Positive  # noisy copies of X'X, with independent noise
    # Number of people in the secret subsample over which X'X is summed; None for everybody.
    subsample: Positive | None
    # Statistics that the guarantee assumes to be public and that have no noise.
    exact_parts: tuple[Text, ...]
    # All statistics that were measured on the cohort with noise.
    queries: Annotated[tuple[StatedQuery, ...], AtLeastOne]
    # Source of the noise, and its distance to the ideal distribution
    # (`primo_scale.verify.words.SAMPLER`).
    sampler: Text
    second_round: StatedSecondRound | None = None  # a second measurement, or None without one


# ---- Public inputs -------------------------------------------------------------------------------


class PublicFile(Struct, frozen=True):
    """Public file, or files of a common prefix: name without directories, and SHA-256 digest."""

    file: FileName
    sha256: Digest


class StatedLdPanel(PublicFile, frozen=True):
    """Fileset of public people for the linkage disequilibrium, and their number."""

    people: Positive


class StatedLoadings(PublicFile, frozen=True):
    """Public loadings of principal components, with their allele frequencies."""

    n_variants: Positive  # variants of the release that have loadings
    n_components: Positive  # components, the last covariates


class StatedPopulation(Struct, frozen=True):
    """Population of the LD panel's people."""

    name: Text
    people: Positive  # of the panel
    centroid: tuple[int, ...]  # codes of the mean components of the loadings, empty without these


class StatedPopulations(PublicFile, frozen=True):
    """Table of the populations of the LD panel's people."""

    populations: Annotated[tuple[StatedPopulation, ...], Meta(min_length=2)]


class Cohort(Struct, frozen=True):
    """Public sizes of the cohort."""

    # Number of people; None if it is private (full privacy with add-remove).
    n_samples: Positive | None
    # Public number used in place of a private number of people; otherwise None.
    nominal_n: Positive | None
    n_variants: Positive
    n_phenotypes: Positive
    n_covariates: Natural
    block_sizes: Sizes  # number of variants of each LD block
    # Number of LD components that take the place of the variants of each block, if they do.
    component_sizes: Sizes | None = None


class StatedPhenotype(Struct, frozen=True):
    """Public range and scale of one phenotype."""

    name: Text
    kind: Literal["quantitative", "binary"]
    lower: float
    upper: float
    mean: float
    sd: PositiveAmount


class StatedCovariate(Struct, frozen=True):
    """Public range, centre, and lattice units per raw unit of one covariate."""

    name: Text
    lower: float
    upper: float
    centre: float
    scale: PositiveAmount


class Source(Struct, frozen=True):
    """Origin of a public input."""

    input: Text  # description of the input
    value: Text  # value of the input, or the place where it is given in full
    source: Text  # option that gave the value, or rule that computed it from other public inputs


class MatchedScore(PublicFile, frozen=True):
    """Public score, as far as the release has its variants."""

    pgs_id: Text | None  # identifier in the header of a PGS Catalog file
    n_variants: Positive  # of the score
    n_matched: Positive  # of them, those that the release has


class StatedFeature(MatchedScore, frozen=True):
    """Public score that takes the place of variants, and that the weights stack."""

    name: Text  # in stack.tsv
    sd: PositiveAmount  # of the score in the LD panel


class PublicInputs(Struct, frozen=True):
    """Everything that shaped the release and did not come from the cohort."""

    # Allele frequencies for the genotype coding; ``uninformative`` codes every variant about 1.
    reference_frequencies: PublicFile | Literal["uninformative"]
    genotype_unit: Positive  # lattice units of one allele copy, 1 or 16
    phenotype_unit: Positive  # lattice units of one phenotype standard deviation, s_y
    constant: Natural  # the constant kappa, in lattice units
    # One entry per phenotype, in the order of weights.tsv.gz.
    phenotypes: Annotated[tuple[StatedPhenotype, ...], AtLeastOne]
    covariates: tuple[StatedCovariate, ...]  # in the order of covariates.tsv
    ld_blocks: Text  # rule that made the LD blocks
    # Genome build of the positions in the PGS Catalog's notation; ``NR`` for not reported.
    genome_build: Build
    # Origins of these inputs and of the bounds on which the noise is based.
    sources: Annotated[tuple[Source, ...], AtLeastOne]
    ld_panel: StatedLdPanel | None = None
    pc_loadings: StatedLoadings | None = None
    panel_populations: StatedPopulations | None = None
    # Scores that take the place of the variants, in the order of stack.tsv; empty if variants do.
    score_features: tuple[StatedFeature, ...] = ()


# ---- Results -------------------------------------------------------------------------------------


class StatedSlope(Struct, frozen=True):
    """Slope of a phenotype on a public score, estimated from the noisy statistics."""

    phenotype: Text
    slope: Number  # phenotype units per unit of the score, shrunk by its noise; 0 if it is useless
    standard_error: Amount  # of the slope before it was shrunk


class StatedScore(MatchedScore, frozen=True):
    """Public score that is the prior mean of the effects."""

    slopes: Annotated[tuple[StatedSlope, ...], AtLeastOne]  # for each phenotype it is a prior of


class Estimation(Struct, frozen=True):
    """Computation of weights from the noisy statistics (post-processing)."""

    estimator: Text  # name of the rule, as in `shrinkage`
    shrinkage: Text  # description of the rule
    eigenvalue_floor: Text  # description of what happens to small or negative eigenvalues
    parameters: Mapping[Text, Number]  # of the rule, in lattice units
    # Penalties of a ridge, by LD block and by noisy copy of X'X; otherwise empty.
    penalties: tuple[Number, ...]
    # Factor for each phenotype by which the clipping of rows shrinks effects. It is known, and the
    # weights are divided by it.
    attenuation: Annotated[tuple[PositiveShare, ...], AtLeastOne]
    public_scores: tuple[StatedScore, ...] = ()  # that the weights build on
    # Share of the variance of each phenotype's score in the LD panel that is between its
    # populations; empty without these.
    between_populations: tuple[UpToOne, ...] = ()


class Deployment(Struct, frozen=True):
    """What the custodian says of the release, which nothing in it can show."""

    curator: Text
    purpose: Text
    region: Text
    other_releases: Text


class Accuracy(Struct, frozen=True):
    """Forecast of the accuracy, from public sizes alone.

    No value is computed from the cohort, because the fit to the people from whom weights are
    learned overestimates the accuracy in others.
    """

    # Number of people in a cohort analysed without noise that gives the same accuracy.
    effective_sample_size: Amount
    definition: Text  # formula of the effective sample size, in words
    # R^2 expected of a trait of this heritability, and without noise; None for NOT PRIVATE.
    heritability: UpToOne | None = None
    r_squared: UpToOne | None = None
    without_noise: UpToOne | None = None


class HeldOutGroup(Struct, frozen=True):
    """Accuracy of one phenotype's score: in a group, within all groups, or over all people."""

    name: Text  # of the phenotype; of a group ``within groups``, or a population of the panel
    r2: UpToOne | None  # squared correlation of clipped score and residual; None if not measured
    r2_lower: UpToOne  # ends of the 95% interval, which counts sampling and noise
    r2_upper: UpToOne
    slope: Number | None  # of the residual on the score, 1 for calibrated weights
    slope_lower: Number | None
    slope_upper: Number | None


class HeldOutPhenotype(HeldOutGroup, frozen=True):
    """Accuracy of one phenotype's score, and the noisy statistics that it follows from.

    The score is that of the weights of the variants, less its regression on the components of
    public loadings, and the residual is the phenotype less its mean and its regression on the
    covariates.
    """

    residual_bound: PositiveAmount  # R, in units of the phenotype
    # Middle of the range of scores, and its half width U, in units of the phenotype. They follow
    # from `counts`.
    score_centre: Number
    score_bound: PositiveAmount
    # People between the public edges -4 R, ..., -4 R 2^(-k/2), ..., 4 R 2^(-k/2), ..., 4 R, and
    # last those whose residual is beyond three public sds, if the phenotype is quantitative.
    counts: Annotated[tuple[NoisySum, ...], AtLeastOne]
    # Sums of kappa^2, u^2, r^2, kappa u, kappa r and u r, for each group.
    sums: Annotated[tuple[NoisySum, ...], Meta(min_length=6)]
    calibration: Amount  # factor that the weights were multiplied by afterwards; 1 if they were not
    # Of a binary phenotype, for a score and a liability that are jointly normal: area under the ROC
    # curve, and R^2 of the liability, by the public prevalence.
    auc: UpToOne | None
    auc_lower: UpToOne | None
    auc_upper: UpToOne | None
    liability_r2: UpToOne | None
    liability_r2_lower: UpToOne | None
    liability_r2_upper: UpToOne | None
    # Within the groups together, and in each. A person's group is the population of the panel whose
    # centroid is nearest. Empty without populations; the other numbers are of all people together.
    groups: tuple[HeldOutGroup, ...] = ()


class HeldOut(Struct, frozen=True):
    """Measurement of the weights in people who count in no other statistic."""

    people: Positive  # number of people held out
    unit: Positive  # code of a score or a residual at its bound
    constant: Positive  # code kappa of a person with the phenotype
    phenotypes: Annotated[tuple[HeldOutPhenotype, ...], AtLeastOne]  # in the order of the weights


# ---- The ledger ----------------------------------------------------------------------------------


class LedgerEntry(Struct, frozen=True):
    """Charge of this release, of the guarantee's cost, and the account that paid for it.

    The account has the privacy unit, the adjacency and the delta of the guarantee.
    """

    cohort: Text  # the custodian's name of the cohort, or ``unnamed``
    charge: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]  # random identifier in the ledger
    before: StatedCost  # spent by the account before this charge
    epsilon_before: Amount  # of `before`, at the guarantee's delta
    epsilon_after: Amount  # with the cost of this release
    budget_epsilon: PositiveAmount  # limit of the account's spending
    budget_mu_squared: PositiveAmount


# ---- Whole documents -----------------------------------------------------------------------------


class PublishedFile(Struct, frozen=True):
    """Name, digest and size of a file of the release."""

    name: Text
    sha256: Digest
    bytes: Natural


class Signature(Struct, frozen=True):
    """The custodian's signature of everything else in the document."""

    algorithm: Literal["Ed25519"]
    public_key: Digest
    value: Annotated[str, Meta(pattern=r"^[0-9a-f]{128}\Z")]


class ReleaseDocument(Struct, frozen=True, kw_only=True):
    """Statement, chromosomes, files and signature of a release.

    Without a guarantee (`private` is False), `guarantee`, `mechanism`, `ledger` and `signature` are
    None. A statement has neither the stamp nor the members after `hold_out`, which the publication
    fills in.
    """

    name: ClassVar[str] = "release.json"
    version: ClassVar[int] = 4

    schema_version: Literal[4] = 4
    stamp: Text = ""
    software: Software  # name and version of the program
    created: Date  # UTC; a time of day would reveal the duration of the computation
    private: bool
    guarantee: Guarantee | None
    mechanism: StatedMechanism | None  # noise from which the guarantee follows
    cohort: Cohort
    public_inputs: PublicInputs
    estimation: Estimation
    accuracy: Accuracy
    ledger: LedgerEntry | None
    public_by_assumption: tuple[Text, ...]  # as `primo_scale.verify.words` lists them
    # Names of data of the cohort that are published without protection; empty in a private release.
    unprotected: tuple[Text, ...]
    summary_statistics: bool = False  # whether the release has them
    hold_out: HeldOut | None = None  # measurement of the weights in people held out
    deployment: Deployment | None = None  # the custodian's words, if any were given
    # Chromosomes of the weights; on X men count as 0 or 2.
    chromosomes: Annotated[tuple[Text, ...], AtLeastOne] = ()
    files: Annotated[tuple[PublishedFile, ...], AtLeastOne] = ()
    signature: Signature | None = None


class PartyColumn(Struct, frozen=True):
    """Released column: its name and public bounds; values beyond them were clamped."""

    name: Text
    lower: Number
    upper: Number


class Mixtures(Struct, frozen=True):
    """Random mixtures of the people (Wu et al., Algorithm 2)."""

    count: Positive  # number of mixtures k
    seed: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]  # public, of the signs


class PartyMechanism(Struct, frozen=True):
    """Noise of the released values."""

    unit: Positive  # lattice units of half the range of a column
    # Largest l2 distance, in lattice units, between the values of this party on neighbouring
    # cohorts.
    sensitivity: Scale
    sigma: Scale  # standard deviation of the noise on every value, in lattice units
    fine_bits: FineBits  # the noise was drawn on multiples of 2^-fine_bits, and the sum rounded
    sampler: Text


class PartyDocument(Struct, frozen=True, kw_only=True):
    """Statement, files and signature of the release of one party.

    A statement has neither the stamp nor the last two members.
    """

    name: ClassVar[str] = "party.json"
    version: ClassVar[int] = 2

    schema_version: Literal[2] = 2
    stamp: Text = ""
    private: Literal[True] = True
    software: Software  # name and version of the program
    created: Date
    party: Text  # public name of the party
    guarantee: Guarantee  # requested epsilon and delta, and the cost of this party's release
    # Number of columns that epsilon and delta cover: those of this release, or those of all
    # parties.
    person_columns: Positive
    n_people: Positive  # of the roster
    alignment: Digest  # keyed digest of the roster, equal for all parties that use the same one
    columns: Annotated[tuple[PartyColumn, ...], AtLeastOne]
    mixtures: Mixtures | None  # None where the rows of the people are released
    mechanism: PartyMechanism
    ledger: LedgerEntry
    public_by_assumption: tuple[Text, ...]  # assumptions of the guarantee
    files: Annotated[tuple[PublishedFile, ...], AtLeastOne] = ()
    signature: Signature | UnsetType = UNSET


# ---- Reading and writing -------------------------------------------------------------------------


# Kind of signed document, which has its file name.
DocumentKind = type[ReleaseDocument] | type[PartyDocument]
RELEASE, PARTY = ReleaseDocument, PartyDocument
_PRIVATE_MEMBERS = ("guarantee", "mechanism", "ledger", "signature")
_MOST_CONTAINERS = 1 << 20


def statement_members(statement: Struct) -> Document:
    """Return the members of a statement, or of a part of it, as they are read back from JSON."""

    def plain(value: Any) -> Any:
        return None if value is UNSET else msgspec.structs.asdict(value)

    members: Document = json.loads(json.dumps(statement, default=plain, allow_nan=False))
    return members


def serialise(document: Document) -> bytes:
    """Return the bytes of a document, which has one canonical form."""
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def statement_digest(document: Document) -> str:
    """Return the SHA-256 of a document without `files` and `signature`.

    report.html contains this digest, and `files` contains that of report.html.
    """
    stated = {k: value for k, value in document.items() if k not in ("files", "signature")}
    return sha256_of(canonical_json(stated))


def kind_of(directory: Path) -> DocumentKind:
    """Return the kind of release that a directory holds; without a party.json, a whole release."""
    return PARTY if (directory / PARTY.name).is_file() else RELEASE


def read_document(directory: Path, kind: DocumentKind = RELEASE) -> tuple[Document | None, Finding]:
    """Return the contents of a signed document, or None if invalid, and the result of the check."""
    try:
        document = parse(bounded_bytes(directory / kind.name), kind)
    except ValueError as error:
        return None, finding_of(kind.name, [str(error)], "")
    return document, Finding(True, kind.name, "follows its schema")


def parse(content: bytes, kind: DocumentKind = RELEASE) -> Document:
    """Return the members of a document; a ValueError tells what is wrong with it."""
    if content.count(b"{") + content.count(b"[") > _MOST_CONTAINERS:
        raise ValueError(f"holds more than {_MOST_CONTAINERS} objects and lists")
    try:
        document: Document = json.loads(content)
        version = document.get("schema_version") if isinstance(document, dict) else None
        if version not in (None, kind.version):
            raise msgspec.ValidationError(
                f"schema version {version!r}: this program reads version {kind.version}"
            )
        known: object = msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"violates its schema: {error}") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply to be read") from error
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from error
    if json.loads(msgspec.json.encode(known)) != document:
        raise ValueError("violates its schema: a member is unknown or missing")
    if any((document.get(name) is not None) != document["private"] for name in _PRIVATE_MEMBERS):
        expected = (
            f"has {'all' if document['private'] else 'none'} of {', '.join(_PRIVATE_MEMBERS)}"
        )
        raise ValueError(f"violates its schema: this release {expected}")
    if serialise(document) != content:
        raise ValueError("is not in the canonical form")
    return document


def schema_text(kind: DocumentKind) -> str:
    """Return the JSON schema (draft 2020-12) of a kind of document."""
    (schema,), types = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for each in types.values():
        each |= {"additionalProperties": False, "required": list(each["properties"])}
        each["description"] = each["description"].splitlines()[0]
        for member in each["properties"].values():
            member.pop("default", None)
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    text = json.dumps(draft | schema | {"$defs": types}, indent=1).replace(r"\\Z", "$")
    return re.sub(r"\n {4,}|\n {3}(?=[]}])", "", text) + "\n"  # a line for each member of a type


if __name__ == "__main__":
    for written in (RELEASE, PARTY):
        path = Path(__file__).with_name(written.name.replace(".json", ".schema.json"))
        path.write_text(schema_text(written), encoding="utf-8")
