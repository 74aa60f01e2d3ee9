"""Public choices of a design, made from a request."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
from primo_scale.genotypes.ld_cuts import BlockSizes, panel_boundaries
from primo_scale.genotypes.ld_panel import LdPanel
from primo_scale.genotypes.packings import DOSAGES, HARD_CALLS, Packing
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.genotypes.tables import VariantTable
from primo_scale.methods.estimators import ESTIMATORS, MOST_SAMPLED_EFFECTS
from primo_scale.outcomes.bounds import (
    CovariateBounds,
    PhenotypeBounds,
    read_covariate_bounds,
    read_phenotype_bounds,
)
from primo_scale.outcomes.coding import (
    ADJUSTED_UNIT,
    LARGEST_UNIT,
    OutcomeCoding,
    code_outcomes,
)
from primo_scale.outcomes.store import LEAST_HELD_OUT
from primo_scale.outcomes.tables import open_outcome_table
from primo_scale.privacy.accuracy import expected_r2
from primo_scale.privacy.mechanism import Recipe
from primo_scale.privacy.planning import CLIPS, choose_phenotype_clip, phenotype_norm
from primo_scale.publication.statement import ReferenceFrequencies
from primo_scale.publication.wording import ONE_BLOCK, PANEL_RULE
from primo_scale.run.design import Budget, Design, PanelDesign, PanelPopulations
from primo_scale.run.panel_choices import component_shares, design_panel, with_panel
from primo_scale.run.principal_components import Loadings
from primo_scale.run.request import Model, OutcomeTables, Privacy
from primo_scale.storage.files import sha256_of_file

# Phenotypes up to which a release has two rounds by default. With more, the directions of all
# phenotypes make the second round take a multiple of the first.
_MOST_OF_TWO_ROUNDS = 100


@dataclass(frozen=True)
class NoGenotypes:
    """Size and variants of a cohort that is still to be read."""

    n_samples: int
    variants: VariantTable
    packing: Packing = HARD_CALLS
    path: Path = Path()


@dataclass(frozen=True)
class PublicPanels:
    """Reference panels of a run, matched to its variants."""

    frequencies: MatchedFrequencies | None
    ld: LdPanel | None = None  # genotypes for the linkage disequilibrium
    document: Path | None = None  # choices that an earlier run of the work directory made from `ld`
    settled: PanelDesign | None = None  # the choices, if this command has made them
    loadings: Loadings | None = None  # of principal components
    populations: PanelPopulations | None = None  # of the people of `ld`


def phenotype_bounds(tables: OutcomeTables) -> tuple[PhenotypeBounds, ...]:
    """Return the public bounds of the requested phenotypes; reads only headers and bounds."""
    # Names are checked before the bounds, which lack a mistyped name too.
    names = open_outcome_table(tables.pheno).matching(tables.pheno_name)
    return read_phenotype_bounds(given_bounds(tables.pheno_bounds), names)


def outcome_coding(
    tables: OutcomeTables,
    privacy: Privacy,
    loadings: Loadings | None = None,
) -> OutcomeCoding:
    """Return the public coding of phenotypes and covariates."""
    phenotypes = phenotype_bounds(tables)
    covariates: tuple[CovariateBounds, ...] = ()
    if tables.covar is not None:
        columns = open_outcome_table(tables.covar).matching(tables.covar_name)
        covariates = read_covariate_bounds(given_bounds(tables.covar_bounds), columns)
    if loadings is not None:
        covariates += loadings.bounds
    largest_unit = LARGEST_UNIT if privacy.non_private else ADJUSTED_UNIT
    return code_outcomes(phenotypes, covariates, largest_unit=largest_unit)


def make_design(
    store: GenotypeStore | NoGenotypes,
    model: Model,
    privacy: Privacy,
    *,
    panels: PublicPanels,
    outcomes: OutcomeCoding,
) -> Design:
    """Make every public choice; of the genotypes it uses the variants and the number of people."""
    unplanned, budget = _unplanned(store, model, privacy, panels, outcomes), privacy.budget
    if budget is None:
        return unplanned
    planned = _planned(_with_block_norms(unplanned), budget)
    if panels.ld is None:
        return planned
    settled = panels.settled
    if settled is None:
        settled = design_panel(panels.ld, planned, budget, model, settled=panels.document)
    return _planned(with_panel(planned, settled), budget)


def _unplanned(
    store: GenotypeStore | NoGenotypes,
    model: Model,
    privacy: Privacy,
    panels: PublicPanels,
    outcomes: OutcomeCoding,
) -> Design:
    """Return the choices that depend on no budget."""
    matched, variants = panels.frequencies, store.variants
    coding = uninformative_coding(len(variants)) if matched is None else reference_coding(matched)
    return Design(
        n_samples=store.n_samples,
        nominal_n=privacy.nominal_n,
        privacy=privacy.unit,
        adjacency=privacy.adjacency,
        subsample=privacy.subsample,
        boundaries=_boundaries(model, variants, panels),
        ld_blocks=_ld_blocks_rule(model, panels.ld),
        genotypes=coding,
        outcomes=outcomes,
        reference=(
            None if matched is None else ReferenceFrequencies(matched.path.name, matched.sha256)
        ),
        row_norm=_row_norm(coding, model, clipped=not privacy.non_private),
        block_norms=None,
        phenotype_norm=outcomes.phenotype_norm_cap,
        clipped=not privacy.non_private,
        genotype_store=str(store.path.resolve()),
        held_out=_held_out(store.n_samples, privacy.hold_out),
        loadings=None if panels.loadings is None else panels.loadings.source,
        populations=panels.populations,
        dosages=store.packing is DOSAGES,
        genetic_factors=model.genetic_factors,
        rounds=_rounds(model, privacy, len(variants), len(outcomes.phenotypes)),
    )


def _rounds(model: Model, privacy: Privacy, n_variants: int, n_phenotypes: int) -> int:
    """Return the number of rounds: as asked, or two where they gain (docs/maths/rounds.md)."""
    estimator = ESTIMATORS["point-normal"]
    possible = (
        privacy.budget is not None
        and privacy.subsample is None
        and model.ld_panel is not None
        and model.ld_components
        and estimator.samples_effects_of(n_variants, n_phenotypes)
    )
    if model.rounds == 2 and not possible:
        raise UsageError(
            "a second round needs LD components, a budget, no subsample, and effects that can be "
            "sampled",
            where="--rounds",
            value=f"{n_variants} variants, {n_phenotypes} phenotypes",
            limit=f"{MOST_SAMPLED_EFFECTS} effects",
            remedy="Leave it out, or give --ld-panel or fewer phenotypes",
        )
    few = n_phenotypes <= _MOST_OF_TWO_ROUNDS
    default = 2 if possible and few and model.genetic_factors is None else 1
    return model.rounds or default


def _boundaries(model: Model, variants: VariantTable, panels: PublicPanels) -> tuple[int, ...]:
    """Return the boundaries of the LD blocks: those of the table or the panel, or one block."""
    if model.ld_blocks is not None or panels.ld is None:
        return block_boundaries(model.ld_blocks, variants)
    if panels.settled is not None:
        return panels.settled.boundaries
    return panel_boundaries(panels.ld, BlockSizes())


def _held_out(n_samples: int, share: float | None) -> int:
    """Return the number of people to hold out, which is public if `n_samples` is."""
    people = int((share or 0) * n_samples)
    if share is not None and people < LEAST_HELD_OUT:
        raise UsageError(
            "too few people are held out to measure anything",
            where="--hold-out",
            value=f"{people} of {n_samples} people",
            limit=f"at least {LEAST_HELD_OUT}",
        )
    return people


def _planned(design: Design, budget: Budget) -> Design:
    """Choose N_y with the least cost of noise and clipping."""
    outcomes = design.outcomes
    largest = outcomes.phenotype_norm_cap / outcomes.unit**2
    norm = phenotype_norm(design.sizes, clip=_best_clip(design, budget), largest_norm=largest)
    return replace(design, phenotype_norm=norm)


def _best_clip(design: Design, budget: Budget) -> float:
    """Return the most accurate clip of phenotype rows, by the spectrum of the panel if any."""
    recipe = Recipe(subsample=design.subsample)

    def cross_sigma_at(norm: int) -> float:
        planned = replace(design, phenotype_norm=norm)
        return planned.mechanism(budget, recipe).scales.phenotype_cross

    if design.panel is None:
        return choose_phenotype_clip(design.sizes, cross_sigma_at)
    # Large clips have the same bound, and the smallest of them stands for all.
    smallest_last: list[float] = CLIPS[::-1].tolist()
    clips = {phenotype_norm(design.sizes, clip=clip): clip for clip in smallest_last}
    spectrum, columns = design.panel.eigenvalues, component_shares(design)
    accuracies = {
        clip: expected_r2(
            design.sizes, spectrum, clip=clip, cross_sigma=cross_sigma_at(norm), components=columns
        )
        for norm, clip in sorted(clips.items())
    }
    return max(accuracies, key=accuracies.__getitem__)


def _with_block_norms(design: Design) -> Design:
    """Add bounds on rows in every LD block, if X'X and X'Z then need less noise."""
    if design.layout.n_blocks == 1 or design.privacy is PrivacyUnit.LABEL or design.subsample:
        return design
    norms = block_row_norms(design.genotypes, design.boundaries)
    by_block = replace(design, block_norms=norms)
    unit = Budget(epsilon=1.0, delta=1e-6)  # every scale is in proportion to 1/mu
    scales = [d.mechanism(unit, Recipe()).scales for d in (design, by_block)]
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
    return f"{path.name} (SHA-256 {sha256_of_file(path)})"


def given_bounds(path: Path | None) -> Path:
    """Return the table of bounds of a table that is given."""
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
