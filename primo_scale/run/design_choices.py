"""From the options of the command line to a design: every public choice, with its reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from primo_scale.accumulation.blocks import block_boundaries
from primo_scale.errors import UsageError
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.genotypes.coding import (
    GenotypeCoding,
    block_row_norms,
    default_row_norm,
    reference_coding,
    uninformative_coding,
)
from primo_scale.genotypes.frequencies import MatchedFrequencies, read_reference_frequencies
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.genotypes.tables import VariantTable
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.privacy.mechanism import Promise, Recipe
from primo_scale.privacy.planning import (
    choose_phenotype_clip,
    phenotype_norm,
)
from primo_scale.privacy.scales import check_recipe
from primo_scale.run.design import Budget, Design, PaidMoments
from primo_scale.storage.files import (
    sha256_of_file,
)

# The constant and the covariates together weigh as much as a phenotype row clipped at a quarter
# of its standard deviation: N_c = l (s_y/4)^2, at most a quarter of N_y at the usual clip of 1/2,
# so noise on X'Y grows by at most sqrt(5/4).
_FIXED_WEIGHT = 0.25
# Without (epsilon, delta) there is nothing to trade off: rows are clipped where 1% exceed.
_NO_TRADE_OFF = math.inf


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
    privacy, adjacency
        What is protected, and against which neighbours.
    nominal_n
        Public size to plan with, where the number of people is private.
    subsample
        People that X'X is summed over, or None for everybody.
    budget
        What the phenotype clip is planned for; None: not known yet.
    non_private
        No clipping, and nothing that comes of the statistics can be private.
    """

    ref_freq: Path | None
    ld_blocks: str | None
    row_norm: float | None
    privacy: PrivacyUnit
    adjacency: Adjacency
    nominal_n: int | None
    subsample: int | None
    budget: Budget | None
    non_private: bool


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
    moments: PaidMoments | None,
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
    moments
        What was paid for the phenotypes' means and sds, or None.

    Raises
    ------
    UsageError
        A subsample that no release could use, or a bound on rows that leaves no room.
    """
    boundaries = block_boundaries(choices.ld_blocks, store.variants)
    coding = (
        uninformative_coding(store.n_variants) if matched is None else reference_coding(matched)
    )
    unplanned = Design(
        n_samples=store.n_samples,
        nominal_n=choices.nominal_n,
        privacy=choices.privacy,
        adjacency=choices.adjacency,
        subsample=choices.subsample,
        boundaries=boundaries,
        ld_blocks=_ld_blocks_rule(choices.ld_blocks),
        genotypes=coding,
        outcomes=outcomes,
        reference=None if matched is None else _reference(matched),
        row_norm=_row_norm(coding, choices),
        block_norms=None,
        phenotype_norm=outcomes.phenotype_norm_cap,
        moments=moments,
        clipped=not choices.non_private,
        genotype_store=str(store.path.resolve()),
    )
    if choices.non_private:
        return unplanned
    if choices.subsample is not None:  # whatever the budget, which may not be known yet
        promise = Promise(1.0, 1e-6, choices.privacy, choices.adjacency)
        check_recipe(promise, Recipe(subsample=choices.subsample), unplanned.bounds)
    return _planned(_with_block_norms(unplanned), choices.budget)


def _planned(design: Design, budget: Budget | None) -> Design:
    """Choose N_y: where noise and clipping together cost least, or where 1% of rows exceed it."""
    clip = _NO_TRADE_OFF if budget is None else _best_clip(design, budget)
    outcomes = design.outcomes
    largest = outcomes.phenotype_norm_cap / outcomes.unit**2
    norm = phenotype_norm(design.sizes, clip=clip, largest_norm=largest)
    return replace(design, phenotype_norm=norm)


def _best_clip(design: Design, budget: Budget) -> float:
    recipe = Recipe(subsample=design.subsample)

    def cross_sigma_at(norm: int) -> float:
        planned = replace(design, phenotype_norm=norm)
        return planned.mechanism(budget, recipe).scales.phenotype_cross

    return choose_phenotype_clip(design.sizes, cross_sigma_at)


def _with_block_norms(design: Design) -> Design:
    """Bound rows in every LD block too, where that needs less noise on X'X; a public choice."""
    if design.layout.n_blocks == 1 or design.privacy is PrivacyUnit.LABEL or design.subsample:
        return design
    norms = block_row_norms(design.genotypes, design.boundaries)
    by_block = replace(design, block_norms=norms)
    unit = Budget(epsilon=1.0, delta=1e-6)  # every scale is in proportion to 1/mu
    dense, blocks = (
        max(replace(d, moments=None).mechanism(unit, Recipe()).scales.gram)
        for d in (design, by_block)
    )
    return by_block if blocks < dense else design


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


def _reference(matched: MatchedFrequencies) -> dict[str, str]:
    return {"file": matched.path.name, "sha256": matched.sha256}
