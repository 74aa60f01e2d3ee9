"""Design of a run: every public choice, made once, before anything private is summed.

It is the text of ``design.json`` in the work directory, which later stages and later runs read. It
holds nothing that was computed from the cohort.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from primo_scale.accumulation import clipping_rules, plan
from primo_scale.errors import Field, InputError, UsageError
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.genotypes import coding as genotype_coding
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.genotypes.tables import VariantTable
from primo_scale.kernels.products import LARGEST_OUTPUT
from primo_scale.methods import catalogue, effects, solve
from primo_scale.outcomes.coding import CovariateBounds, OutcomeCoding
from primo_scale.outcomes.store import LEAST_HELD_OUT
from primo_scale.panel import components as ld_components
from primo_scale.panel.ld import LdPanel, panel_boundaries
from primo_scale.privacy import mechanism as noise_plan
from primo_scale.privacy import planning, shares
from primo_scale.privacy.planning import ClipResponse, Floats, Measurement, PublicSizes
from primo_scale.publication.texts import ONE_BLOCK, PANEL_RULE
from primo_scale.run.options import FinalizeRequest, Model, Privacy
from primo_scale.storage import block_matrices, files
from primo_scale.storage.locations import Location
from primo_scale.verify import document as stated
from primo_scale.verify.held_out_accuracy import share_of_codes

if TYPE_CHECKING:
    from primo_scale.evaluation.score_features import ScoreFeatures
    from primo_scale.evaluation.scores import MatchedWeights

MANY_PHENOTYPES = 100
"""Number of phenotypes from which one byte of each is multiplied."""
LARGEST_BLOCK = 2048
"""Largest number of variants of a block that components can replace: one tile of X'X."""
_COARSE_STEPS_PER_SD = 8  # at least
_LEAST_EXCESS = 0.01  # of the mean squared eigenvalue of a correlation matrix over 1
# Phenotypes up to which a release has two rounds by default. With more, the directions of all
# phenotypes make the second round take a multiple of the first.
_MOST_OF_TWO_ROUNDS = 100
_LEAST_VARIANCE = 0.01  # of a component, relative to the mean of a variant
_VERSION = 2  # of the components and their order, for work directories of an earlier one
_EIGENVALUES = 4096  # values that describe the spectrum
_FIRST_ROUND_SIGNAL = 4.0

# ---- Facts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PaidAdjustment:
    """Adjustment of the phenotypes, whose charge pays for the whole release."""

    charge: str
    sigma: float  # standard deviation of the noise on the diagonals of the Gram matrices
    norm: int  # bound N on the root of ``sum_j |(c, y_j)|^4`` of a person
    planned: str  # digest of the design before the adjustment
    # Covariance of the codes of the covariates in the cohort, by the noisy Gram matrices.
    covariance: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, eq=False)
class ComponentDesign:
    """LD components that take the place of the variants in rows, sums and noise."""

    sizes: tuple[int, ...]  # number of components of each LD block
    # Positions of the m components in their blocks, by descending variance in the panel.
    chosen: npt.NDArray[np.int32]
    variances: Floats  # of each component, in squared lattice units, shape (m,)
    squared_norms: Floats  # of the row of the map that makes each component from codes, shape (m,)

    @cached_property
    def boundaries(self) -> tuple[int, ...]:
        """Boundaries of the LD blocks among the components: 0, ..., m."""
        return (0, *np.cumsum(self.sizes).tolist())


@dataclass(frozen=True, eq=False)
class PanelDesign:
    """Public panel of genotypes, and the linkage disequilibrium that it shows."""

    file: str  # names of the prefixes of the panel's files, without directories
    sha256: str  # digest of its .bed and .bim files
    request: str  # SHA-256 of everything that determines the other fields
    n_people: int
    boundaries: tuple[int, ...]  # of the LD blocks among the variants
    # Eigenvalues of the genotypes' correlation matrix in people outside the panel, of mean 1: at
    # most 4,096 values, each the mean of equally many neighbours.
    eigenvalues: Floats
    components: ComponentDesign | None  # None if the variants themselves are summed

    @property
    def known_people(self) -> float:
        """Size of a sample whose covariances would be as precise as those known of components.

        It exceeds the number of people in the panel most where variants have little LD.
        Source: docs/maths/weights.md, below Theorem 3.
        """
        mean_size = self.boundaries[-1] / (len(self.boundaries) - 1)
        excess = float((self.eigenvalues**2).mean()) - 1
        return self.n_people + (mean_size - 1) / max(excess, _LEAST_EXCESS)


@dataclass(frozen=True)
class PanelPopulations:
    """Populations of the people of the LD panel, which is public."""

    source: stated.StatedPopulations
    panel: str  # digest of the panel's files
    prefixes: tuple[str, ...]  # of these files
    # Population of each person of the panel; empty if the loadings are of these people, in whom no
    # score shows the ancestry that it has in others.
    members: tuple[int, ...]


@dataclass(frozen=True)
class Design:
    """Public choices of a run, which `finalize` needs beside the statistics."""

    n_samples: int  # n; private if there is a `nominal_n`
    nominal_n: int | None  # public size that everything is planned for; None if n is public
    # Of the release; None for statistics that are never made private.
    guarantee: noise_plan.Guarantee | None
    subsample: int | None  # number of people that X'X is summed over; None stands for everybody
    boundaries: tuple[int, ...]  # of the LD blocks, as indices of variants
    ld_blocks: str  # rule that gave the LD blocks, for the report
    genotypes: genotype_coding.GenotypeCoding
    outcomes: OutcomeCoding
    reference: stated.PublicFile | None  # public allele frequencies
    row_norm: int  # N_x in squared lattice units, as the other norms
    block_norms: tuple[int, ...] | None  # beta_b; None without bounds on single blocks
    phenotype_norm: int  # N_y
    genotype_store: str  # location of the genotypes, for the variant list
    # Prefix of a bucket that holds the statistics; None stands for the work directory.
    object_store: str | None = None
    held_out: int = 0  # number of people who count in no sum, and with whom weights are measured
    panel: PanelDesign | None = None  # public LD panel, and the components that it gives
    loadings: stated.StatedLoadings | None = None  # of principal components that are covariates
    populations: PanelPopulations | None = None  # of the LD panel's people
    dosages: bool = False  # whether genotypes are dosages, and not hard calls
    # Public guess of the number of factors, for which LD components are chosen; None without it.
    genetic_factors: int | None = None
    adjustment: PaidAdjustment | None = None  # None before it was paid for
    rounds: int = 1  # measurements of X'Y, of which the second has directions chosen by the first
    features: tuple[stated.StatedFeature, ...] = ()  # public scores that are the variants

    @property
    def clipped(self) -> bool:
        """Whether rows are clipped, and phenotypes adjusted before they are summed."""
        return self.guarantee is not None

    @property
    def unit(self) -> PrivacyUnit:
        """What is protected."""
        return PrivacyUnit.FULL if self.guarantee is None else self.guarantee.unit

    @property
    def adjacency(self) -> Adjacency:
        """Neighbouring relation between cohorts."""
        return Adjacency.REPLACE_ONE if self.guarantee is None else self.guarantee.adjacency

    @property
    def paid_adjustment(self) -> PaidAdjustment:
        """Adjustment of the phenotypes, after it was paid for."""
        if self.adjustment is None:
            raise ValueError("the statistics of a private release are of adjusted phenotypes")
        return self.adjustment

    @property
    def clip(self) -> float:
        """Clip b: phenotype rows are clipped at b sqrt(l) standard deviations."""
        return math.sqrt(self.phenotype_norm / len(self.outcomes.phenotypes)) / self.outcomes.unit

    def clip_response(self, observed_share: Floats, eigenvalues: Floats) -> ClipResponse:
        """Return how clipping changes a linear model of the phenotypes.

        `observed_share` is the share of people with each phenotype, shape (l,), from noisy counts,
        and `eigenvalues` are public ones of the genotypes' correlation matrix.
        """

        def respond(factor: float) -> ClipResponse:
            if self.phenotype_norm >= self.outcomes.phenotype_norm_cap:
                none = np.ones(len(self._levels))
                return ClipResponse(slope=none, offset=0 * none, variance=none)
            return planning.clip_response(factor * self.clip, self._levels, observed_share)

        columns = self.components
        never_long = columns is None and self.genotypes.max_squared_norm <= self.row_norm
        if never_long or not self.clipped:
            return respond(1.0)
        spectrum = eigenvalues if columns is None else columns.variances
        degrees = planning.degrees_of_rows(spectrum, self.layout.n_variants)
        bound = self.row_norm / self.column_variance
        return planning.response_of_scaled_records(respond, degrees, bound, self.unit)

    def second_response(self, observed_share: Floats, left: Floats, degrees: float) -> ClipResponse:
        """Return how clipping changes a linear model of the residuals of the first round.

        `left` is the share of each phenotype's variance in its residuals, shape (l,), and `degrees`
        are those of the squared norms of the directions of a phenotype.
        """
        levels = [
            None if pair is None else (pair[0] / root, pair[1] / root)
            for pair, root in zip(self._levels, np.sqrt(left).tolist(), strict=True)
        ]
        return planning.response_of_contributions(
            lambda factor: planning.clip_response(factor * self.clip, levels, observed_share),
            degrees,
        )

    @property
    def _levels(self) -> list[planning.Levels | None]:
        """Both values of each binary phenotype in standard deviations; None for another."""
        columns = zip(self.outcomes.phenotypes, self.outcomes.means.tolist(), strict=True)
        return [
            ((p.lower - mean) / p.sd, (p.upper - mean) / p.sd) if p.kind == "binary" else None
            for p, mean in columns
        ]

    @property
    def shares_of_liability(self) -> Floats:
        """Heritability of each phenotype over that of the liability, by its public prevalence.

        It is 1 for a phenotype that is not binary, and shape (l,).
        """
        shares = [
            share_of_codes(p.mean - p.lower)
            if p.kind == "binary" and p.lower < p.mean < p.upper
            else 1.0
            for p in self.outcomes.phenotypes
        ]
        return np.array(shares)

    @property
    def phenotype_step(self) -> int:
        """Step of the lattice of phenotypes in the sums, in units of their codes.

        Only the high bytes of many phenotypes are multiplied, which halves the multiplications.
        Steps of at most an eighth of a standard deviation add at most 1/768 to the variance.
        """
        phenotypes = self.outcomes.phenotypes
        many = len(phenotypes) >= MANY_PHENOTYPES
        fine = self.outcomes.unit >= _COARSE_STEPS_PER_SD * plan.COARSE_STEP
        wide = all(p.upper - p.lower >= p.sd for p in phenotypes)  # or values could become equal
        return plan.COARSE_STEP if self.clipped and many and fine and wide else 1

    @cached_property
    def layout(self) -> block_matrices.BlockLayout:
        """Shapes of the statistics, whose columns are variants or components."""
        # Covariates are private with the genotypes, and then in no sum.
        sums_fixed = not self.clipped or self.unit is PrivacyUnit.LABEL
        n_fixed = 1 + len(self.outcomes.covariates) if sums_fixed else 0
        columns = self.components
        boundaries = self.boundaries if columns is None else columns.boundaries
        return block_matrices.BlockLayout(boundaries, n_fixed, len(self.outcomes.phenotypes))

    @property
    def components(self) -> ComponentDesign | None:
        """LD components that take the place of the variants, or None."""
        return None if self.panel is None else self.panel.components

    @property
    def column_variance(self) -> float:
        """Expected squared norm of a row of coded variants, or of components."""
        columns = self.components
        return self.genotypes.variance if columns is None else float(columns.variances.sum())

    @property
    def n_variants(self) -> int:
        """Number of variants d."""
        return self.boundaries[-1]

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Number of variants in each LD block."""
        return tuple(stop - start for start, stop in pairwise(self.boundaries))

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of the people held out: populations that components tell apart."""
        if not self.held_out or self.loadings is None or self.populations is None:
            return ()
        return tuple(each.name for each in self.populations.source.populations)

    @property
    def public_n(self) -> int:
        """Number of people in the sums that may be published and planned with."""
        return self.n_samples - self.held_out if self.nominal_n is None else self.nominal_n

    @property
    def clipping_rule(self) -> clipping_rules.ClippingRule | None:
        """Rule that records are clipped by, or None if they are not clipped."""
        if not self.clipped:
            return None
        bounds = self.row_norm, self.block_norms, self.phenotype_norm
        label = self.unit is PrivacyUnit.LABEL
        clipped: Literal["phenotypes", "record"] = "phenotypes" if label else "record"
        exact = self.promise.phenotypes_are_public
        return clipping_rules.ClippingRule(clipped, *bounds, exact_phenotype_gram=exact)

    @property
    def bounds(self) -> noise_plan.PublicBounds:
        """Public bounds that noise is calibrated to."""
        return noise_plan.PublicBounds(
            row_norm=self.row_norm,
            block_norms=self.block_norms,
            phenotype_norm=self.phenotype_norm,
            block_sizes=self.layout.sizes,
            n_samples=self.public_n,
            n_phenotypes=self.layout.n_phenotypes,
        )

    @property
    def sizes(self) -> PublicSizes:
        """Public sizes that the planner uses."""
        return PublicSizes(
            n_samples=self.public_n,
            n_variants=self.layout.n_variants,
            n_phenotypes=self.layout.n_phenotypes,
            largest_block=max(self.layout.sizes),
            row_norm=self.row_norm,
            variant_variance=self.column_variance / self.layout.n_variants,
            phenotype_scale=self.outcomes.unit,
        )

    def eigenvalues(self, variants: VariantTable) -> Floats:
        """Return eigenvalues of the genotypes' correlation matrix: the panel's, or expected."""
        if self.panel is not None:
            return self.panel.eigenvalues
        total = planning.expected_r2_sum(variants.chromosome, variants.position, self.boundaries)
        return planning.spectrum_shape(total, self.n_variants)

    @property
    def promise(self) -> noise_plan.Promise:
        """Guarantee of the statistics, and the share of mu^2 that the adjustment leaves."""
        if self.guarantee is None:
            raise ValueError("statistics of unclipped rows can never be private")
        share = 1 - shares.SHARES.adjustment
        if self.rounds == 2:
            share *= shares.SHARES.first_round
        given = self.guarantee
        public = given.unit is PrivacyUnit.FEATURE and not self.outcomes.covariates
        public = public and given.adjacency is Adjacency.REPLACE_ONE
        return noise_plan.Promise(
            given.epsilon, given.delta, given.unit, given.adjacency, share, public
        )

    def mechanism(self, recipe: noise_plan.Recipe) -> noise_plan.Mechanism:
        """Return the least noise that keeps the promise."""
        promise = self.promise
        split = planning.split_for(
            self.sizes,
            phenotype_norm=self.phenotype_norm,
            adjacency=promise.adjacency,
            block_norm=None if self.block_norms is None else max(self.block_norms),
        )
        return noise_plan.calibrate(self.bounds, promise, recipe, split=split)

    @property
    def planned_digest(self) -> str:
        """Digest of the design before the phenotypes were adjusted."""
        return self.digest if self.adjustment is None else self.adjustment.planned

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of every choice; locations are not choices.

        Genetic factors only choose the components, which count.
        """
        choices = {**_to_json(self), "genotype_store": None, "object_store": None}
        if self.populations is not None:
            choices["populations"] = self.populations.source.sha256, self.populations.panel
        choices.pop("genetic_factors", None)  # absent in a design of an earlier version
        return files.sha256_of_json(choices)


def write_design(path: Path, design: Design) -> None:
    """Write a design, atomically, for `finalize` or for runs that continue this one."""
    files.write_atomically(path, files.canonical_json(_to_json(design)))


def find_design(path: Path) -> Design | None:
    """Return the design of earlier runs of a work directory, or None; refuse a damaged one."""
    if not path.is_file():
        return None
    remedy = "Finish with the version that began it, or use another --work-dir, which pays again"
    return files.read_fields(path, Design, remedy=remedy, dec_hook=_to_array)


def load_design(path: Path) -> Design:
    """Return the design of statistics; refuse a directory in which `accumulate` has not run."""
    design = find_design(path)
    if design is None or (design.clipped and design.adjustment is None):
        raise InputError(
            "the work directory holds no statistics",
            where=path.parent,
            remedy="Run primo-scale accumulate with this --work-dir first",
        )
    return design


def _to_json(design: Design) -> dict[str, Any]:
    """Return a design as a JSON object, with a list for every array."""
    document: dict[str, Any] = msgspec.to_builtins(design, enc_hook=np.ndarray.tolist)
    return document


def _to_array(kind: Any, values: list[float]) -> npt.NDArray[Any]:
    """Return an array that `_to_json` wrote; `kind` is ``ndarray[shape, dtype[scalar type]]``."""
    (scalar,) = get_args(get_args(kind)[1])
    return np.array(values, dtype=scalar)


# ---- Choices -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Loadings:
    """Loadings of a public panel, matched to the variants of a cohort."""

    source: stated.StatedLoadings
    bounds: tuple[CovariateBounds, ...]  # of each component, in the unit of ``plink2 --score``
    weights: MatchedWeights  # of the standardised genotypes, in units of `step`
    step: Floats  # of each component
    people: frozenset[str] = frozenset()  # of the panel, as far as the bounds are its range


@dataclass(frozen=True)
class PublicPanels:
    """Reference panels of a run, matched to its variants."""

    frequencies: genotype_coding.MatchedFrequencies | None
    ld: LdPanel | None = None  # genotypes for the linkage disequilibrium
    settled: PanelDesign | None = None  # choices that an earlier run made from `ld`
    loadings: Loadings | None = None  # of principal components
    populations: PanelPopulations | None = None  # of the people of `ld`
    features: ScoreFeatures | None = None  # public scores in place of variants, and of `ld`


@dataclass(frozen=True)
class ChosenMethod:
    """Method of the catalogue, its rule of shrinkage, and the reason for them in words."""

    method: catalogue.Method
    reason: str
    estimator: catalogue.Estimator
    scores: effects.PublicScores | None = field(default=None, repr=False)  # to build on
    sources: tuple[stated.StatedScore, ...] = ()  # of the scores, without slopes yet


@dataclass(frozen=True)
class PlannedRelease:
    """Release to be made of statistics."""

    design: Design
    request: FinalizeRequest
    store: GenotypeStore  # of the people in the statistics
    chosen: ChosenMethod
    build: str  # that the release states
    panel: LdPanel | None = None  # where its people have populations
    deployment: stated.Deployment | None = None  # the custodian's words, if any were given
    features: ScoreFeatures | None = None  # public scores that are the variants


def make_design(
    n_samples: int,
    variants: VariantTable,
    model: Model,
    privacy: Privacy,
    *,
    panels: PublicPanels,
    outcomes: OutcomeCoding,
    dosages: bool = False,
) -> Design:
    """Make every public choice; of the genotypes it uses the variants and the number of people."""
    held_out = int((privacy.hold_out or 0) * n_samples)  # public if the number of people is
    if privacy.hold_out is not None and held_out < LEAST_HELD_OUT:
        raise UsageError(
            "too few people are held out to measure anything",
            where="--hold-out",
            value=f"{held_out} of {n_samples} people",
            limit=f"at least {LEAST_HELD_OUT}",
        )
    coding, reference = genotype_coding.uninformative_coding(len(variants)), None
    if (matched := panels.frequencies) is not None:
        features = panels.features
        coding = genotype_coding.reference_coding(matched) if features is None else features.coding
        reference = stated.PublicFile(matched.path.name, matched.sha256)
    design = Design(
        n_samples=n_samples,
        nominal_n=privacy.nominal_n,
        guarantee=privacy.guarantee,
        subsample=privacy.subsample,
        boundaries=(
            plan.block_boundaries(model.ld_blocks, variants)
            if model.ld_blocks is not None or panels.ld is None or panels.features is not None
            else panel_boundaries(panels.ld)
        ),
        ld_blocks=_ld_blocks_rule(model, None if panels.features is not None else panels.ld),
        genotypes=coding,
        outcomes=outcomes,
        reference=reference,
        row_norm=coding.max_squared_norm if privacy.non_private else _row_norm(coding, model),
        block_norms=None,
        phenotype_norm=outcomes.phenotype_norm_cap,
        genotype_store="",
        held_out=held_out,
        loadings=None if panels.loadings is None else panels.loadings.source,
        populations=panels.populations,
        dosages=dosages,
        genetic_factors=model.genetic_factors,
        rounds=_rounds(model, privacy, panels, len(variants), len(outcomes.phenotypes)),
        features=() if panels.features is None else panels.features.stated,
    )
    if design.guarantee is None:
        return design
    design = _planned(_with_block_norms(design))
    if panels.ld is None:
        return design
    components = _uses_components(model, design)
    if not components:
        if model.genetic_factors is not None:
            what = "chooses LD components, in whose place variants or scores are summed here"
            raise UsageError(what, where=Field("genetic_factors"), remedy="Leave it out")
        design = replace(design, rounds=1)
    chosen = design_panel(
        panels.ld, design, panels.settled, components=components, n_factors=model.genetic_factors
    )
    return _planned(with_panel(design, chosen))


def _rounds(
    model: Model, privacy: Privacy, panels: PublicPanels, n_variants: int, n_phenotypes: int
) -> int:
    """Return the number of rounds: as asked, or two where they gain (docs/maths/rounds.md)."""
    estimator = catalogue.ESTIMATORS[catalogue.COMPONENTS_ESTIMATOR]
    possible = (
        privacy.guarantee is not None
        and privacy.subsample is None
        and model.ld_panel is not None
        and model.sums_components
        and estimator.samples_effects_of(n_variants, n_phenotypes)
    )
    if model.rounds == 2 and not possible:
        raise UsageError(
            "a second round needs LD components, a budget, no subsample, and effects that can be "
            "sampled",
            where="--rounds",
            value=f"{n_variants} variants, {n_phenotypes} phenotypes",
            limit=f"{catalogue.MOST_SAMPLED_EFFECTS} effects",
            remedy="Leave it out, or give --ld-panel, fewer phenotypes, or no --method or --ridge",
        )
    # Most public scores matter to most phenotypes, which leaves nothing to look for.
    few = n_phenotypes <= _MOST_OF_TWO_ROUNDS and panels.features is None
    default = 2 if possible and few and model.genetic_factors is None else 1
    return model.rounds or default


def _planned(design: Design) -> Design:
    """Choose N_y with the least cost of noise and clipping, by the spectrum of a panel if any."""
    sizes, recipe = design.sizes, noise_plan.Recipe(subsample=design.subsample)

    def cross_sigma_at(norm: int) -> float:
        return replace(design, phenotype_norm=norm).mechanism(recipe).scales.phenotype_cross

    if design.panel is None:
        best = planning.choose_phenotype_clip(sizes, cross_sigma_at)
    else:
        # Large clips have the same bound, and the smallest of them stands for all.
        smallest_last: list[float] = planning.CLIPS[::-1].tolist()
        clips = {planning.phenotype_norm(sizes, clip=clip): clip for clip in smallest_last}
        spectrum, columns = design.panel.eigenvalues, component_shares(design)
        accuracies = {
            clip: Measurement(sizes, spectrum, clip, cross_sigma_at(norm), columns).explained()
            for norm, clip in sorted(clips.items())
        }
        best = max(accuracies, key=accuracies.__getitem__)
    largest = design.outcomes.phenotype_norm_cap / design.outcomes.unit**2
    return replace(
        design, phenotype_norm=planning.phenotype_norm(sizes, clip=best, largest_norm=largest)
    )


def _with_block_norms(design: Design) -> Design:
    """Add bounds on rows in every LD block, if X'X and X'Z then need less noise."""
    if design.layout.n_blocks == 1 or design.unit is PrivacyUnit.LABEL or design.subsample:
        return design
    norms = genotype_coding.block_row_norms(design.genotypes, design.boundaries)
    by_block = replace(design, block_norms=norms)
    scales = [each.mechanism(noise_plan.Recipe()).scales for each in (design, by_block)]
    # Either way of clipping divides the noise between the two, so that their product decides.
    dense, blocks = (max(each.gram) * each.phenotype_cross for each in scales)
    return by_block if blocks < dense else design


def _ld_blocks_rule(model: Model, panel: LdPanel | None) -> str:
    """Return the rule in words that may be published: a file by name and digest, without path."""
    specification = model.ld_blocks
    if specification is None:
        if panel is None:
            return ONE_BLOCK
        return f"{PANEL_RULE}{panel.name} (SHA-256 {panel.sha256})"
    if specification.startswith("window:"):
        return specification
    path = Path(specification)
    return f"{path.name} (SHA-256 {files.sha256_of_file(path)})"


def _row_norm(coding: genotype_coding.GenotypeCoding, model: Model) -> int:
    if model.row_norm is None:
        return genotype_coding.default_row_norm(coding)
    if coding.unit == 1:
        raise UsageError(
            "rows of -1, 0 and 1 cannot be scaled back without losing them",
            where=Field("row_norm"),
            value=model.row_norm,
            remedy="Give --ref-freq, whose coding is finer, or leave row_norm out",
        )
    squared = math.floor(min(model.row_norm * coding.unit, 2.0**31) ** 2)
    return min(max(squared, 1), coding.max_squared_norm)


# ---- LD components -------------------------------------------------------------------------------


def design_panel(
    panel: LdPanel,
    design: Design,
    settled: PanelDesign | None,
    *,
    components: bool,
    n_factors: int | None,
) -> PanelDesign:
    """Return the LD of a design by a panel, and its components if the sums are of them.

    Choices that are `settled` are used if they belong to the same request, because the last bits of
    an eigenvalue may differ between machines. Components are chosen twice: errors of X'X with those
    of the first choice count as noise on X'Y in the second one.
    """
    choices = {"panel": panel.sha256, "components": components, "factors": n_factors}
    request = files.sha256_of_json({"version": _VERSION, **choices, "design": design.digest})
    if settled is not None and settled.request == request:
        return settled
    measured = ld_components.variances_outside(panel, design.genotypes, design.boundaries)
    # At most 4,096 means of neighbouring eigenvalues, in descending order.
    ordered = np.sort(np.concatenate(measured))[::-1]
    width = math.ceil(len(ordered) / _EIGENVALUES)
    padded = np.resize(ordered, width * math.ceil(len(ordered) / width))
    padded[len(ordered) :] = ordered[-1]
    means = padded.reshape(-1, width).mean(axis=1)
    found = PanelDesign(
        file=panel.name,
        sha256=panel.sha256,
        request=request,
        n_people=panel.n_people,
        boundaries=design.boundaries,
        eigenvalues=np.asarray(means / means.mean()),
        components=None,
    )
    if not components:
        return found
    # Public numbers of the same release without components, by which their norm is divided.
    sigma = design.mechanism(noise_plan.Recipe()).scales.phenotype_cross
    noise = sigma**2 / (design.public_n * design.genotypes.variance * design.outcomes.unit**2)
    n_phenotypes = design.layout.n_phenotypes
    slope, residual = planning.clipped_phenotype(design.clip, n_phenotypes)
    shared = n_phenotypes / min(n_factors or n_phenotypes, n_phenotypes)
    # The first of two rounds looks for effects of which many are zero, and some large.
    wider = _FIRST_ROUND_SIGNAL if design.rounds == 2 else 1.0
    signal = design.public_n * planning.PRIOR_HERITABILITY * slope**2 * shared * wider

    def with_noise(noise: float) -> PanelDesign:
        columns = _component_design(measured, design, signal, residual, noise)
        return replace(found, components=columns)

    first = with_panel(design, with_noise(noise))
    mechanism = first.mechanism(noise_plan.Recipe())
    errors = errors_of_gram(first, mechanism, planning.PRIOR_HERITABILITY)
    return with_noise(
        noise * (1 + shared * float(errors.mean()) / mechanism.scales.phenotype_cross**2)
    )


def _uses_components(model: Model, design: Design) -> bool:
    """Return whether LD components take the place of the variants of a design."""
    if not model.sums_components or design.subsample is not None:
        return False
    if design.features and model.rounds != 2:
        method, _ = catalogue.choose_method(design.promise, design.sizes)
        if method.projects_phenotypes:  # which needs the scores themselves
            return False
    remedy = "Leave it out, or give --no-ld-components"
    if model.row_norm is not None:
        raise UsageError("is a bound on rows of variants", where=Field("row_norm"), remedy=remedy)
    if max(design.block_sizes) > LARGEST_BLOCK:
        raise UsageError(
            "LD components need smaller LD blocks",
            where="--ld-blocks",
            value=f"{max(design.block_sizes)} variants",
            limit=f"{LARGEST_BLOCK} variants",
            remedy="Leave it out, which gives the blocks of --ld-panel, or add --no-ld-components",
        )
    return True


def write_maps(path: Location, panel: LdPanel, design: Design) -> ld_components.LdComponents:
    """Compute and write the maps of the components of a design, unless they are there."""
    chosen = design.components
    if design.panel is None or chosen is None:
        raise ValueError("the design has no components")
    cuts = chosen.boundaries[1:-1]
    rows = np.split(chosen.chosen.astype(np.intp), cuts)
    vectors = ld_components.components(panel, design.genotypes, design.boundaries, rows)
    maps = map(ld_components.component_map, vectors, np.split(np.sqrt(chosen.squared_norms), cuts))
    return ld_components.write_components(path, design.panel.request, maps)


def component_shares(design: Design) -> tuple[Floats, Floats] | None:
    """Return shares and variances of LD components, as `Measurement` needs them, or None.

    The variance in the panel can exceed that by public
    frequencies; shares then still sum to 1.
    """
    columns = design.components
    if columns is None:
        return None
    shares = columns.variances / (columns.squared_norms * design.genotypes.variance)
    shares /= max(1.0, float(shares.sum()))
    return shares, columns.variances


def errors_of_gram(design: Design, mechanism: noise_plan.Mechanism, heritability: float) -> Floats:
    """Return the variance that errors of X'X add to the noise on X'Y in each component, shape (m,).

    A design without components has a single 0: `primo_scale.methods.forecast` has the cost of the
    noise on X'X to scores of variants.
    Source: docs/maths/weights.md, Theorem 3.
    """
    columns = design.components
    if columns is None or design.panel is None:
        return np.zeros(1)
    slope, _ = planning.clipped_phenotype(design.clip, design.layout.n_phenotypes)
    effect_variance = heritability * (slope * design.outcomes.unit) ** 2 / design.genotypes.variance
    variances = []
    for block, sigma in enumerate(mechanism.scales.gram):
        here = design.layout.variants(block)
        expected = design.public_n * columns.variances[here]
        blend = solve.blended(np.diag(expected), sigma, expected, design.panel.known_people)
        squares = effect_variance / columns.squared_norms[here, None]
        variances.append(blend.product_variances(squares)[:, 0])
    return np.concatenate(variances)


def _component_design(
    blocks: tuple[Floats, ...], design: Design, signal: float, residual: float, noise: float
) -> ComponentDesign:
    """Divide the norm of a row among the components with the given variances in each block.

    A component with all of the variance has `signal`, n h2 c^2 of the phenotypes that share its
    effects; a clipped phenotype has the variance `residual`, and `noise` is added to it.
    """
    variances = np.concatenate(blocks)
    shares = np.maximum(variances, 0) / design.genotypes.variance
    useful = shares > 0
    energies = np.zeros(len(shares))
    energies[useful] = planning.fill(shares[useful], signal * shares[useful], residual, noise)
    least = energies[energies > 0].min()
    starts = np.cumsum([0, *map(len, blocks)])
    for start, stop in pairwise(starts):  # every block keeps its largest component
        if not energies[start:stop].any():
            energies[start + np.argmax(shares[start:stop])] = least
    kept = np.flatnonzero(energies)
    # A block whose variants hardly vary in the panel has a component of no measured variance.
    variances = np.maximum(variances, _LEAST_VARIANCE * design.genotypes.variance / len(variances))
    block_of = np.searchsorted(starts, kept, side="right") - 1
    scale = ld_components.LARGEST_STANDARD_DEVIATION**2 / energies.max()
    return ComponentDesign(
        sizes=tuple(np.bincount(block_of, minlength=len(blocks)).tolist()),
        chosen=(kept - starts[block_of]).astype(np.int32),
        variances=energies[kept] * scale,
        squared_norms=energies[kept] * scale / variances[kept],
    )


def with_panel(design: Design, panel: PanelDesign) -> Design:
    """Return the design with a panel, whose components bring their own bounds on rows."""
    if panel.components is None:
        return replace(design, panel=panel)
    columns = panel.components
    total = float(columns.variances.sum())
    by_block = np.add.reduceat(columns.variances, columns.boundaries[:-1])
    sizes = np.array(columns.sizes)
    most = LARGEST_OUTPUT**2 * sizes
    norms = np.ceil((1.3 + 8 / np.sqrt(sizes)) * by_block).astype(np.int64)
    return replace(
        design,
        panel=panel,
        row_norm=min(math.ceil(total), int(most.sum())),
        block_norms=tuple(np.minimum(norms, most).tolist()),
    )
