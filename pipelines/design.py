"""The design of a run: every public choice, made once, before anything private is summed.

`accumulate` makes the design and writes it beside the statistics; `finalize` reads it back. It
holds nothing computed from the cohort.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from primo_scale.accumulate.blocks import block_boundaries
from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.coding import (
    GenotypeCoding,
    default_row_norm,
    reference_coding,
    uninformative_coding,
)
from primo_scale.genotypes.frequencies import MatchedFrequencies, read_reference_frequencies
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.genotypes.tables import VariantTable
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import CovariateCoding, OutcomeCoding
from primo_scale.privacy.calibration import release_mu
from primo_scale.privacy.clip_response import (
    ClipResponse,
    Float64,
    Levels,
    clip_response,
    no_clipping,
)
from primo_scale.privacy.mechanism import COUNTS_SHARE
from primo_scale.privacy.planning import (
    PublicSizes,
    choose_phenotype_clip,
    phenotype_norm,
)
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.storage.files import (
    canonical_json,
    sha256_of_file,
    sha256_of_json,
    write_atomically,
)

# The constant and the covariates together weigh as much as a phenotype row clipped at a quarter
# of its standard deviation: N_c = l (s_y/4)^2, at most a quarter of N_y at the usual clip of 1/2,
# so noise on X'Y grows by at most sqrt(5/4).
_FIXED_WEIGHT = 0.25
# Without (epsilon, delta) there is nothing to trade off: rows are clipped where 1% exceed.
_NO_TRADE_OFF = math.inf


@dataclass(frozen=True)
class Budget:
    """What a release asks of the ledger."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class ModelChoices:
    """Options of the command line that shape the statistics; all public.

    Attributes
    ----------
    ref_freq
        Public allele frequencies, or None for the uninformative coding.
    ld_blocks
        As given: None, ``window:N`` or a path.
    row_norm
        Bound on the norm of a coded genotype row in units of the coding, or None for the default.
    budget
        What the phenotype clip is planned for; None: not known yet.
    non_private
        No clipping, and nothing that comes of the statistics can be private.
    """

    ref_freq: Path | None
    ld_blocks: str | None
    row_norm: float | None
    budget: Budget | None
    non_private: bool


@dataclass(frozen=True)
class Design:
    """All that `finalize` needs to know beyond the statistics themselves.

    Attributes
    ----------
    n_samples
        Public number of people n.
    boundaries
        Of the LD blocks.
    ld_blocks
        The rule they came from, for the report.
    genotypes, outcomes
        The public codings.
    reference
        Name and SHA-256 of the frequency file, or None.
    row_norm, phenotype_norm
        N_x and N_y.
    clipped
        False for statistics of unclipped rows, which can never be made private.
    genotype_store
        Where the genotypes are, for the variant list.
    """

    n_samples: int
    boundaries: tuple[int, ...]
    ld_blocks: str
    genotypes: GenotypeCoding
    outcomes: OutcomeCoding
    reference: dict[str, str] | None
    row_norm: int
    phenotype_norm: int
    clipped: bool
    genotype_store: str

    @property
    def clip(self) -> float:
        """b: phenotype rows are clipped at b sqrt(l) standard deviations."""
        return math.sqrt(self.phenotype_norm / len(self.outcomes.phenotypes)) / self.outcomes.unit

    def clip_response(self, observed_share: Float64) -> ClipResponse:
        """How clipping phenotype rows changes a linear model of them.

        Parameters
        ----------
        observed_share
            Share of people with each phenotype, shape (l,), from noisy counts.
        """
        if self.phenotype_norm >= self.outcomes.phenotype_norm_cap:
            return no_clipping(len(self.outcomes.phenotypes))
        levels = [_levels(p) for p in self.outcomes.phenotypes]
        return clip_response(self.clip, levels, observed_share)

    @property
    def layout(self) -> BlockLayout:
        """Shapes of the statistics."""
        n_fixed = 1 + len(self.outcomes.covariates)
        return BlockLayout(self.boundaries, n_fixed, len(self.outcomes.phenotypes))

    @property
    def outcome_norm(self) -> int:
        """N_z, bound on the squared norm of the constant, the covariates and the phenotypes."""
        return self.outcomes.constant_norm + self.phenotype_norm

    @property
    def sizes(self) -> PublicSizes:
        """What the planner may know."""
        return _public_sizes(
            self.n_samples, self.boundaries, self.genotypes, self.outcomes, self.row_norm
        )

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of every choice; the place of the genotype store is none."""
        return sha256_of_json({**self._as_json(), "genotype_store": None})

    def save(self, path: Path) -> None:
        """Write the design, atomically."""
        write_atomically(path, canonical_json(self._as_json()))

    def _as_json(self) -> dict[str, Any]:
        value = asdict(self)
        value["genotypes"]["multiplier"] = self.genotypes.multiplier.tolist()
        value["genotypes"]["centre"] = self.genotypes.centre.tolist()
        return value


def load_design(path: Path) -> Design:
    """Read a design back.

    Raises
    ------
    InputError
        There is none, which means that `accumulate` has not been run with this work directory.
    """
    if not path.is_file():
        raise InputError(
            "the work directory holds no statistics",
            where=path.parent,
            remedy="Run python -m pipelines.accumulate with this --work-dir first",
        )
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(
            "is damaged", where=path, remedy="Run accumulate again, which writes it anew"
        ) from error
    genotypes = value.pop("genotypes")
    outcomes = value.pop("outcomes")
    for name in ("multiplier", "centre"):
        genotypes[name] = np.array(genotypes[name], dtype=np.int16)
    covariates = tuple(CovariateCoding(**c) for c in outcomes.pop("covariates"))
    phenotypes = tuple(PhenotypeBounds(**p) for p in outcomes.pop("phenotypes"))
    value["boundaries"] = tuple(value["boundaries"])
    return Design(
        genotypes=GenotypeCoding(**genotypes),
        outcomes=OutcomeCoding(covariates=covariates, phenotypes=phenotypes, **outcomes),
        **value,
    )


def match_frequencies(choices: ModelChoices, variants: VariantTable) -> MatchedFrequencies | None:
    """Public frequencies of the variants, where a panel was given."""
    if choices.ref_freq is None:
        return None
    return read_reference_frequencies(choices.ref_freq, variants)


def make_design(
    store: GenotypeStore,
    choices: ModelChoices,
    *,
    matched: MatchedFrequencies | None,
    outcomes: OutcomeCoding,
) -> Design:
    """Settle every public choice of a run.

    Parameters
    ----------
    store
        For the variant list and the number of people, which are public.
    choices
        From the command line.
    matched
        Frequencies of the reference panel, or None.
    outcomes
        Public coding of phenotypes and covariates, from `outcome_coding`.
    """
    n_samples = store.n_samples
    boundaries = block_boundaries(choices.ld_blocks, store.variants)
    coding = (
        uninformative_coding(store.n_variants) if matched is None else reference_coding(matched)
    )
    row_norm = _row_norm(coding, choices)
    sizes = _public_sizes(n_samples, boundaries, coding, outcomes, row_norm)
    clip = _phenotype_clip(sizes, choices)
    largest = outcomes.phenotype_norm_cap / outcomes.unit**2
    norm = (
        outcomes.phenotype_norm_cap
        if choices.non_private
        else phenotype_norm(sizes, clip=clip, largest_norm=largest)
    )
    return Design(
        n_samples=n_samples,
        boundaries=boundaries,
        ld_blocks=_ld_blocks_rule(choices.ld_blocks),
        genotypes=coding,
        outcomes=outcomes,
        reference=None if matched is None else _reference(matched),
        row_norm=row_norm,
        phenotype_norm=norm,
        clipped=not choices.non_private,
        genotype_store=str(store.path.resolve()),
    )


def outcome_weight(n_phenotypes: int, n_covariates: int, choices: ModelChoices) -> float:
    """Public weight of the constant and of each covariate, beside a phenotype's 1.

    A heavier column gets relatively less noise but takes more of the common bound N_z.
    """
    if choices.non_private:
        return 1.0
    return min(1.0, _FIXED_WEIGHT * math.sqrt(n_phenotypes / (1 + n_covariates)))


def _ld_blocks_rule(specification: str | None) -> str:
    """The rule in words that may be published: a file by name and content, not by place."""
    if specification is None:
        return "one dense block"
    path = Path(specification)
    if specification.startswith("window:"):
        return specification
    return f"{path.name} (SHA-256 {sha256_of_file(path)})"


def _row_norm(coding: GenotypeCoding, choices: ModelChoices) -> int:
    if choices.non_private:
        return coding.max_squared_norm
    if choices.row_norm is None:
        return default_row_norm(coding)
    if coding.unit == 1:
        raise UsageError(
            "rows of -1, 0 and 1 cannot be scaled back without losing them",
            where="--row-norm",
            value=choices.row_norm,
            remedy="Give --ref-freq, whose coding is finer, or leave --row-norm out",
        )
    squared = math.floor(min(choices.row_norm * coding.unit, 2.0**31) ** 2)
    if squared < 1:
        raise UsageError(
            "the bound on the genotype rows leaves no room",
            where="--row-norm",
            value=choices.row_norm,
            remedy="A standardised row of d variants has a norm of about sqrt(d)",
        )
    return min(squared, coding.max_squared_norm)


def _phenotype_clip(sizes: PublicSizes, choices: ModelChoices) -> float:
    if choices.non_private or choices.budget is None:
        return _NO_TRADE_OFF
    mu = release_mu(choices.budget.epsilon, choices.budget.delta)
    return choose_phenotype_clip(sizes, mu=mu * math.sqrt(1 - COUNTS_SHARE))


def _public_sizes(
    n_samples: int,
    boundaries: tuple[int, ...],
    genotypes: GenotypeCoding,
    outcomes: OutcomeCoding,
    row_norm: int,
) -> PublicSizes:
    return PublicSizes(
        n_samples=n_samples,
        n_variants=boundaries[-1],
        n_phenotypes=len(outcomes.phenotypes),
        largest_block=max(np.diff(boundaries).tolist()),
        row_norm=row_norm,
        variant_variance=genotypes.variance / boundaries[-1],
        phenotype_scale=outcomes.unit,
        fixed_outcome_norm=outcomes.constant_norm,
    )


def _levels(phenotype: PhenotypeBounds) -> Levels | None:
    """The two values of a binary phenotype, in standard deviations."""
    if phenotype.kind != "binary":
        return None
    low, high = (phenotype.lower - phenotype.mean), (phenotype.upper - phenotype.mean)
    return low / phenotype.sd, high / phenotype.sd


def _reference(matched: MatchedFrequencies) -> dict[str, str]:
    return {"file": matched.path.name, "sha256": matched.sha256}
