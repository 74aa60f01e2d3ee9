"""Public choices of a design, made from a request."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from primo_scale.accumulation.blocks import block_boundaries
from primo_scale.errors import UsageError
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.genotypes.coding import (
    GenotypeCoding,
    block_row_norms,
    default_row_norm,
    reference_coding,
    uninformative_coding,
)
from primo_scale.genotypes.frequencies import MatchedFrequencies
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.outcomes.bounds import (
    CovariateBounds,
    PhenotypeBounds,
    read_covariate_bounds,
    read_phenotype_bounds,
)
from primo_scale.outcomes.coding import OutcomeCoding, code_outcomes
from primo_scale.outcomes.tables import open_outcome_table
from primo_scale.privacy.mechanism import Promise, Recipe
from primo_scale.privacy.phenotype_moments import with_moments
from primo_scale.privacy.planning import choose_phenotype_clip, phenotype_norm
from primo_scale.privacy.scales import check_recipe
from primo_scale.run.design import Budget, Design, PaidMoments
from primo_scale.run.request_parts import Model, OutcomeTables, Privacy
from primo_scale.storage.files import sha256_of_file

# The constant and the covariates together weigh as much as a phenotype row clipped at a tenth of
# its standard deviation: N_c = l (s_y/10)^2, or 4% of N_y at the usual clip of 1/2, so that noise
# on X'Y grows by 2%. docs/maths/planner.md has what other weights are worth.
_FIXED_WEIGHT = 0.1
# Without (epsilon, delta) there is nothing to trade off: rows are clipped where 1% exceed it.
_NO_TRADE_OFF = math.inf


def phenotype_bounds(tables: OutcomeTables) -> tuple[PhenotypeBounds, ...]:
    """Return the public bounds of the requested phenotypes; reads only headers and bounds."""
    header = open_outcome_table(tables.pheno)
    names = tables.pheno_name or header.names
    header.check_names(names)  # before the bounds, which lack a mistyped name too
    return read_phenotype_bounds(_bounds(tables.pheno_bounds), names)


def outcome_coding(
    tables: OutcomeTables, privacy: Privacy, moments: PaidMoments | None
) -> OutcomeCoding:
    """Return the public coding of phenotypes, with their paid moments if any, and covariates."""
    phenotypes = phenotype_bounds(tables)
    if moments is not None:
        phenotypes = with_moments(phenotypes, moments.bought)
    covariates: tuple[CovariateBounds, ...] = ()
    if tables.covar is not None:
        columns = open_outcome_table(tables.covar).names
        covariates = read_covariate_bounds(_bounds(tables.covar_bounds), columns)
    weight = outcome_weight(len(phenotypes), len(covariates), clipped=not privacy.non_private)
    return code_outcomes(phenotypes, covariates, weight=weight)


def make_design(
    store: GenotypeStore,
    model: Model,
    privacy: Privacy,
    *,
    matched: MatchedFrequencies | None,
    outcomes: OutcomeCoding,
    moments: PaidMoments | None,
) -> Design:
    """Make every public choice of a run.

    Of the genotypes it uses the variants and the number of people. `matched` are the frequencies
    of the reference panel, `outcomes` comes from `outcome_coding`, and `moments` are paid for.

    Raises
    ------
    UsageError
        No release could use the subsample, or the bound on rows is too small.
    """
    boundaries = block_boundaries(model.ld_blocks, store.variants)
    coding = (
        uninformative_coding(store.n_variants) if matched is None else reference_coding(matched)
    )
    unplanned = Design(
        n_samples=store.n_samples,
        nominal_n=privacy.nominal_n,
        privacy=privacy.unit,
        adjacency=privacy.adjacency,
        subsample=privacy.subsample,
        boundaries=boundaries,
        ld_blocks=_ld_blocks_rule(model.ld_blocks),
        genotypes=coding,
        outcomes=outcomes,
        reference=None if matched is None else _reference(matched),
        row_norm=_row_norm(coding, model, clipped=not privacy.non_private),
        block_norms=None,
        phenotype_norm=outcomes.phenotype_norm_cap,
        moments=moments,
        clipped=not privacy.non_private,
        genotype_store=str(store.path.resolve()),
    )
    if privacy.non_private:
        return unplanned
    if privacy.subsample is not None:  # whatever the budget, which may not be known yet
        promise = Promise(1.0, 1e-6, privacy.unit, privacy.adjacency)
        check_recipe(promise, Recipe(subsample=privacy.subsample), unplanned.bounds)
    return _planned(_with_block_norms(unplanned), privacy.budget)


def _planned(design: Design, budget: Budget | None) -> Design:
    """Choose N_y with the least cost of noise and clipping, or such that 1% of rows exceed it."""
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
    """Add bounds on rows in every LD block, if they need less noise on X'X; a public choice."""
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


def outcome_weight(n_phenotypes: int, n_covariates: int, *, clipped: bool) -> float:
    """Return the public weight of the constant and of each covariate; a phenotype has 1.

    A heavier column gets relatively less noise but takes more of the common bound N_z.
    """
    if not clipped:
        return 1.0
    return min(1.0, _FIXED_WEIGHT * math.sqrt(n_phenotypes / (1 + n_covariates)))


def _ld_blocks_rule(specification: str | None) -> str:
    """Return the rule in words that may be published: a file by name and digest, without path."""
    if specification is None:
        return "one dense block"
    if specification.startswith("window:"):
        return specification
    path = Path(specification)
    return f"{path.name} (SHA-256 {sha256_of_file(path)})"


def _bounds(path: Path | None) -> Path:
    if path is None:
        raise ValueError("OutcomeTables refuses a table without bounds")
    return path


def _row_norm(coding: GenotypeCoding, model: Model, *, clipped: bool) -> int:
    if not clipped:
        return coding.max_squared_norm
    if model.row_norm is None:
        return default_row_norm(coding)
    if coding.unit == 1:
        raise UsageError(
            "rows of -1, 0 and 1 cannot be scaled back without losing them",
            where="--row-norm",
            value=model.row_norm,
            remedy="Give --ref-freq, whose coding is finer, or leave --row-norm out",
        )
    squared = math.floor(min(model.row_norm * coding.unit, 2.0**31) ** 2)
    if squared < 1:
        raise UsageError(
            "the bound on the genotype rows leaves no room",
            where="--row-norm",
            value=model.row_norm,
            remedy="A standardised row of d variants has a norm of about sqrt(d)",
        )
    return min(squared, coding.max_squared_norm)


def _reference(matched: MatchedFrequencies) -> dict[str, str]:
    return {"file": matched.path.name, "sha256": matched.sha256}
