"""Design of a run: every public choice, made once, before anything private is summed.

`accumulate` makes the design and writes it beside the statistics; `finalize` reads it. It holds
nothing that was computed from the cohort.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.clipping_rules import ClippingRule, LongRecords
from primo_scale.accumulation.plan import COARSE_STEP
from primo_scale.errors import InputError, UsageError
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.privacy.accuracy import degrees_of_rows
from primo_scale.privacy.clip_response import (
    ClipResponse,
    Levels,
    RowLengths,
    clip_response,
    no_clipping,
    response_of_contributions,
    response_of_scaled_records,
)
from primo_scale.privacy.held_out_accuracy import share_of_codes
from primo_scale.privacy.mechanism import (
    FIRST_ROUND_SHARE,
    Mechanism,
    Promise,
    PublicBounds,
    Recipe,
    calibrate,
)
from primo_scale.privacy.phenotype_adjustment import ADJUSTMENT_SHARE
from primo_scale.privacy.planning import Floats, PublicSizes, split_for
from primo_scale.publication.statement import (
    ReferenceFrequencies,
    StatedLoadings,
    StatedPopulations,
)
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.storage.documents import read_fields
from primo_scale.storage.files import canonical_json, sha256_of_json, write_atomically

MANY_PHENOTYPES = 100
"""Number of phenotypes from which one byte of each is multiplied."""
_COARSE_STEPS_PER_SD = 8  # at least
_LEAST_EXCESS = 0.01  # of the mean squared eigenvalue of a correlation matrix over 1

_Choices = TypeVar("_Choices", "Design", "PanelDesign")


@dataclass(frozen=True)
class Budget:
    """Privacy parameters of a release."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class PaidAdjustment:
    """Adjustment of the phenotypes, whose charge pays for the whole release."""

    charge: str
    budget: Budget  # of the release
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
        Source: docs/maths/ld-components.md, below Theorem 3.
        """
        mean_size = self.boundaries[-1] / (len(self.boundaries) - 1)
        excess = float((self.eigenvalues**2).mean()) - 1
        return self.n_people + (mean_size - 1) / max(excess, _LEAST_EXCESS)


@dataclass(frozen=True)
class PanelPopulations:
    """Populations of the people of the LD panel, which is public."""

    source: StatedPopulations
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
    privacy: PrivacyUnit
    adjacency: Adjacency
    subsample: int | None  # number of people that X'X is summed over; None stands for everybody
    boundaries: tuple[int, ...]  # of the LD blocks, as indices of variants
    ld_blocks: str  # rule that gave the LD blocks, for the report
    genotypes: GenotypeCoding
    outcomes: OutcomeCoding
    reference: ReferenceFrequencies | None  # public allele frequencies
    row_norm: int  # N_x in squared lattice units, as the other norms
    block_norms: tuple[int, ...] | None  # beta_b; None without bounds on single blocks
    phenotype_norm: int  # N_y
    # Whether rows are clipped, and phenotypes adjusted for the covariates before they are summed.
    # False for statistics that can never be made private.
    clipped: bool
    genotype_store: str  # location of the genotypes, for the variant list
    # Prefix of a bucket that holds the statistics; None stands for the work directory.
    object_store: str | None = None
    held_out: int = 0  # number of people who count in no sum, and with whom weights are measured
    panel: PanelDesign | None = None  # public LD panel, and the components that it gives
    loadings: StatedLoadings | None = None  # of principal components that are covariates
    populations: PanelPopulations | None = None  # of the LD panel's people
    dosages: bool = False  # whether genotypes are dosages, and not hard calls
    # Public guess of the number of factors, for which LD components are chosen; None without it.
    genetic_factors: int | None = None
    adjustment: PaidAdjustment | None = None  # None before it was paid for
    rounds: int = 1  # measurements of X'Y, of which the second has directions chosen by the first

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
        means = self.outcomes.means.tolist()
        pairs = zip(self.outcomes.phenotypes, means, strict=True)
        levels = [_levels(p, mean) for p, mean in pairs]

        def respond(factor: float) -> ClipResponse:
            if self.phenotype_norm >= self.outcomes.phenotype_norm_cap:
                return no_clipping(len(levels))
            return clip_response(factor * self.clip, levels, observed_share)

        columns = self.components
        never_long = columns is None and self.genotypes.max_squared_norm <= self.row_norm
        if never_long or not self.clipped:
            return respond(1.0)
        spectrum = eigenvalues if columns is None else columns.variances
        degrees = degrees_of_rows(spectrum, self.layout.n_variants)
        rows = RowLengths(degrees, self.row_norm / self.column_variance)
        return response_of_scaled_records(respond, rows, self.privacy)

    def second_response(self, observed_share: Floats, left: Floats, degrees: float) -> ClipResponse:
        """Return how clipping changes a linear model of the residuals of the first round.

        `left` is the share of each phenotype's variance in its residuals, shape (l,), and `degrees`
        are those of the squared norms of the directions of a phenotype.
        """
        levels: list[Levels | None] = []
        columns = zip(self.outcomes.phenotypes, self.outcomes.means.tolist(), left, strict=True)
        for phenotype, mean, share in columns:
            pair, root = _levels(phenotype, mean), math.sqrt(share)
            levels.append(None if pair is None else (pair[0] / root, pair[1] / root))
        return response_of_contributions(
            lambda factor: clip_response(factor * self.clip, levels, observed_share), degrees
        )

    @property
    def shares_of_liability(self) -> Floats:
        """Heritability of each phenotype over that of the liability, by its public prevalence.

        It is 1 for a phenotype that is not binary, and shape (l,).
        """
        prevalences = [
            p.mean - p.lower if p.kind == "binary" and p.lower < p.mean < p.upper else None
            for p in self.outcomes.phenotypes
        ]
        return np.array([1.0 if p is None else share_of_codes(p) for p in prevalences])

    @property
    def phenotype_step(self) -> int:
        """Step of the lattice of phenotypes in the sums, in units of their codes.

        Only the high bytes of many phenotypes are multiplied, which halves the multiplications.
        Steps of at most an eighth of a standard deviation add at most 1/768 to the variance.
        """
        phenotypes = self.outcomes.phenotypes
        many = len(phenotypes) >= MANY_PHENOTYPES
        fine = self.outcomes.unit >= _COARSE_STEPS_PER_SD * COARSE_STEP
        wide = all(p.upper - p.lower >= p.sd for p in phenotypes)  # or values could become equal
        return COARSE_STEP if self.clipped and many and fine and wide else 1

    @cached_property
    def layout(self) -> BlockLayout:
        """Shapes of the statistics, whose columns are variants or components."""
        # Covariates are private with the genotypes, and then in no sum.
        sums_fixed = not self.clipped or self.privacy is PrivacyUnit.LABEL
        n_fixed = 1 + len(self.outcomes.covariates) if sums_fixed else 0
        columns = self.components
        boundaries = self.boundaries if columns is None else columns.boundaries
        return BlockLayout(boundaries, n_fixed, len(self.outcomes.phenotypes))

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
    def clipping_rule(self) -> ClippingRule | None:
        """Rule that records are clipped by, or None if they are not clipped."""
        if not self.clipped:
            return None
        label = self.privacy is PrivacyUnit.LABEL
        long_records = LongRecords.PHENOTYPES if label else LongRecords.RECORD
        return ClippingRule(long_records, self.row_norm, self.block_norms, self.phenotype_norm)

    @property
    def bounds(self) -> PublicBounds:
        """Public bounds that noise is calibrated to."""
        return PublicBounds(
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

    def promise(self, budget: Budget) -> Promise:
        """Return the guarantee of a release with `budget`, a share of which pays the adjustment."""
        paid = self.adjustment
        if paid is not None and paid.budget != budget:
            raise UsageError(
                "the phenotypes were adjusted for a release with another epsilon and delta",
                where="--epsilon",
                value=f"{budget.epsilon:g}, {budget.delta:g}",
                limit=f"{paid.budget.epsilon:g}, {paid.budget.delta:g}",
            )
        share = 1 - ADJUSTMENT_SHARE
        if self.rounds == 2:
            share *= FIRST_ROUND_SHARE
        return Promise(budget.epsilon, budget.delta, self.privacy, self.adjacency, share)

    def mechanism(self, budget: Budget, recipe: Recipe) -> Mechanism:
        """Return the least noise that keeps the promise."""
        split = split_for(
            self.sizes,
            phenotype_norm=self.phenotype_norm,
            adjacency=self.adjacency,
            block_norm=None if self.block_norms is None else max(self.block_norms),
        )
        return calibrate(self.bounds, self.promise(budget), recipe, split=split)

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of every choice; locations are not choices.

        Genetic factors only choose the components, which count.
        """
        choices = {**_to_json(self), "genotype_store": None, "object_store": None}
        if self.populations is not None:
            choices["populations"] = self.populations.source.sha256, self.populations.panel
        choices.pop("genetic_factors", None)  # absent in a design of an earlier version
        return sha256_of_json(choices)


def write_choices(path: Path, choices: Design | PanelDesign) -> None:
    """Write public choices, atomically, for `finalize` or for runs that continue this one."""
    write_atomically(path, canonical_json(_to_json(choices)))


def read_choices(path: Path, kind: type[_Choices], *, remedy: str) -> _Choices:
    """Read public choices, unless the file is damaged."""
    return read_fields(path, kind, remedy=remedy, dec_hook=_to_array)


def _to_json(choices: Design | PanelDesign) -> dict[str, Any]:
    """Return public choices as a JSON object, with a list for every array."""
    document: dict[str, Any] = msgspec.to_builtins(choices, enc_hook=np.ndarray.tolist)
    return document


def _to_array(kind: Any, values: list[float]) -> npt.NDArray[Any]:
    """Return an array that `_to_json` wrote; `kind` is ``ndarray[shape, dtype[scalar type]]``."""
    (scalar,) = get_args(get_args(kind)[1])
    return np.array(values, dtype=scalar)


def load_design(path: Path) -> Design:
    """Read a design, unless it is damaged or `accumulate` has not run in this work directory."""
    if not path.is_file():
        raise InputError(
            "the work directory holds no statistics",
            where=path.parent,
            remedy="Run primo-scale accumulate with this --work-dir first",
        )
    design = read_choices(path, Design, remedy="Run accumulate again, which writes it anew")
    if design.clipped and design.adjustment is None:
        raise InputError(
            "the statistics are of phenotypes as given, as of version 0.4, which alone can release "
            "them",
            where=path,
            remedy="Run accumulate again with another --work-dir",
        )
    return design


def _levels(phenotype: PhenotypeBounds, mean: float) -> Levels | None:
    """Return the two values of a binary phenotype in standard deviations; None for another."""
    if phenotype.kind != "binary":
        return None
    low, high = phenotype.lower - mean, phenotype.upper - mean
    return low / phenotype.sd, high / phenotype.sd
