"""Statement of a release, made from its design, its noise and its payment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from primo_scale.gaussian.calibration import Cost, composed_epsilon
from primo_scale.genotypes.coding import default_row_norm
from primo_scale.genotypes.genome_build import GenomeBuild
from primo_scale.genotypes.packings import DOSAGES
from primo_scale.ledger.accounts import Balance, Charge, total_cost
from primo_scale.methods.dosage_scale import PRIVATE_DIGITS, phenotype_unit, round_in_place
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.privacy.held_out_accuracy import accuracy_of, corrects_weights, decisive
from primo_scale.privacy.held_out_sums import UNIT, NoisyHoldOut, code_of_people, residual_bounds
from primo_scale.privacy.mechanism import HoldOut, Mechanism
from primo_scale.privacy.planning import PRIOR_HERITABILITY, Floats
from primo_scale.publication import statement
from primo_scale.publication.statement import (
    HeldOut,
    HeldOutGroup,
    HeldOutPhenotype,
    StatedLdPanel,
    StatedScore,
    StatedSlope,
)
from primo_scale.publication.weights import ScoringWeights
from primo_scale.publication.wording import (
    CHOICE_BY_SCORE,
    ONE_BLOCK,
    PANEL_RULE,
    UNNAMED,
    effective_size_in_words,
    public_by_assumption,
)
from primo_scale.run.describe_mechanism import state_cost, state_guarantee, state_mechanism
from primo_scale.run.design import Design, PaidAdjustment
from primo_scale.run.estimation import Solved
from primo_scale.version import __version__

_UNPROTECTED = (
    "X'X by LD block",
    "X'Y and X'C, genotypes by phenotypes, constant and covariates",
    "C'C, C'Y and Y'Y of constant, covariates and phenotypes",
    "people with each phenotype",
)
_CHOSEN_VARIANTS = statement.Source(
    "Choice of variants", "those that explain most in a public score", CHOICE_BY_SCORE
)
_LOADINGS_SOURCE = "--pc-loadings, a public panel, or --covar-bounds where it has a component"


@dataclass(frozen=True)
class Payment:
    """Payment for a private release, and the noise that it bought."""

    mechanism: Mechanism
    charge: Charge  # of the release
    adjustment: PaidAdjustment  # of the phenotypes, which the same charge paid for
    balance: Balance  # of the paying account, this charge included
    # Forecast of the release (`primo_scale.privacy.planning.Forecast.stated_size`).
    effective_sample_size: float
    heritability: float = PRIOR_HERITABILITY  # that the forecast ascribes to the variants
    chosen_by_score: bool = False  # whether a public score chose the variants


def make_statement(
    design: Design, solved: Solved, payment: Payment | None, genome_build: GenomeBuild
) -> statement.Statement:
    """Return the statement of a release, which is NOT PRIVATE without a payment."""
    guarantee, mechanism = None, None
    inputs = _public_inputs(design, genome_build)
    if payment is not None:
        if payment.chosen_by_score:
            inputs = replace(inputs, sources=(_CHOSEN_VARIANTS, *inputs.sources))
        guarantee = state_guarantee(payment.mechanism.promise, payment.charge.cost)
        mechanism = state_mechanism(
            payment.mechanism,
            solved.chosen,
            payment.adjustment,
            n_fixed=1 + len(design.outcomes.covariates),
        )
    return statement.Statement(
        software=statement.Software("primo_scale", __version__),
        created=datetime.now(UTC).date().isoformat(),
        private=payment is not None,
        guarantee=guarantee,
        mechanism=mechanism,
        cohort=_cohort(design, payment),
        public_inputs=inputs,
        estimation=_estimation(design, solved),
        accuracy=_accuracy(design, solved, payment),
        ledger=None if payment is None else state_ledger_entry(payment.balance, payment.charge),
        public_by_assumption=(
            () if payment is None else public_by_assumption(str(design.unit), str(design.adjacency))
        ),
        unprotected=() if payment is not None else _UNPROTECTED,
        summary_statistics=solved.weights.summary is not None,
        hold_out=solved.hold_out,
    )


def states_inputs(document: Mapping[str, Any], design: Design, genome_build: GenomeBuild) -> bool:
    """Return whether a release.json states the public inputs of a design."""
    inputs = json.loads(json.dumps(asdict(_public_inputs(design, genome_build))))
    return bool(document.get("public_inputs") == inputs)


def _cohort(design: Design, payment: Payment | None) -> statement.Cohort:
    layout = design.layout
    hidden = payment is not None and payment.mechanism.promise.n_is_private
    return statement.Cohort(
        n_samples=None if hidden else design.n_samples,
        nominal_n=design.public_n if hidden else None,
        n_variants=design.n_variants,
        n_phenotypes=layout.n_phenotypes,
        n_covariates=len(design.outcomes.covariates),
        block_sizes=design.block_sizes,
        component_sizes=None if design.components is None else layout.sizes,
    )


def _public_inputs(design: Design, genome_build: GenomeBuild) -> statement.PublicInputs:
    outcomes = design.outcomes
    return statement.PublicInputs(
        reference_frequencies=design.reference or "uninformative",
        genotype_unit=design.genotypes.unit,
        phenotype_unit=outcomes.unit,
        constant=outcomes.constant,
        phenotypes=tuple(statement.StatedPhenotype(**asdict(p)) for p in outcomes.phenotypes),
        covariates=tuple(statement.StatedCovariate(**asdict(c)) for c in outcomes.covariates),
        ld_blocks=design.ld_blocks,
        genome_build=genome_build.name,
        sources=(*_data_sources(design, genome_build), *_bound_sources(design)),
        ld_panel=(
            None
            if design.panel is None
            else StatedLdPanel(design.panel.file, design.panel.sha256, design.panel.n_people)
        ),
        pc_loadings=design.loadings,
        panel_populations=None if design.populations is None else design.populations.source,
    )


def _data_sources(design: Design, genome_build: GenomeBuild) -> Iterator[statement.Source]:
    """Yield the sources of the genotypes, their coding, the LD blocks and the planned size."""
    if design.dosages:
        yield statement.Source("Genotypes", f"dosages in steps of 1/{DOSAGES.steps}", "--dosages")
    panel = "Reference allele frequencies"
    if design.reference is None:
        yield statement.Source(panel, "none: every genotype is coded about one copy", "default")
    else:
        yield statement.Source(panel, design.reference.file, "--ref-freq, a public panel")
    yield statement.Source("LD blocks", design.ld_blocks, _blocks_source(design))
    if design.panel is not None:
        value = f"{design.panel.file} (SHA-256 {design.panel.sha256})"
        yield statement.Source("LD panel", value, "--ld-panel, public people")
    if design.genetic_factors is not None:
        factors = str(design.genetic_factors)
        yield statement.Source("Genetic factors of the phenotypes", factors, "--genetic-factors")
    yield statement.Source("Genome build", genome_build.name, genome_build.source)
    if design.nominal_n is not None:
        yield statement.Source("Number of people planned for", str(design.nominal_n), "--nominal-n")
    if design.subsample is not None:
        yield statement.Source("Subsample", f"{design.subsample} people", "--subsample")


def _blocks_source(design: Design) -> str:
    if design.ld_blocks == ONE_BLOCK:
        return "default"
    of_panel = design.ld_blocks.startswith(PANEL_RULE)
    return "least LD across the cuts, --ld-panel" if of_panel else "--ld-blocks"


def _bound_sources(design: Design) -> Iterator[statement.Source]:
    """Yield the sources of the bounds that noise rests on."""
    listed, by_default = "listed in full", "default rule, from the reference frequencies"
    if design.components is not None:
        by_default = "default rule, from the LD panel"
    yield statement.Source("Bounds of phenotypes", listed, "--pheno-bounds")
    if design.adjustment is not None:
        measured = "noisy regression on the covariates, before anything else"
        yield statement.Source("Sds of adjusted phenotypes", listed, measured)
    if design.phenotype_step > 1:
        value = f"multiples of {design.phenotype_step / design.outcomes.unit:.4f} sds"
        yield statement.Source(
            "Rounding of phenotypes", value, "default for 100 phenotypes or more"
        )
    n_projected = 0 if design.loadings is None else design.loadings.n_components
    if len(design.outcomes.covariates) > n_projected:
        yield statement.Source("Bounds of covariates", listed, "--covar-bounds")
    if design.loadings is not None:
        value = f"{design.loadings.file} (SHA-256 {design.loadings.sha256})"
        yield statement.Source("Principal components and their bounds", value, _LOADINGS_SOURCE)
    if not design.clipped:
        return
    is_default = design.components is not None or design.row_norm == default_row_norm(
        design.genotypes
    )
    source = by_default if is_default else "--row-norm"
    yield statement.Source("Bound N_x on genotype rows", str(design.row_norm), source)
    source = "planner, from public sizes and the noise"
    yield statement.Source("Bound N_y on phenotype rows", str(design.phenotype_norm), source)
    if design.block_norms is not None:
        value = f"{len(design.block_norms)} bounds, listed in release.json"
        yield statement.Source("Bounds beta_b on rows in LD blocks", value, by_default)


def _estimation(design: Design, solved: Solved) -> statement.Estimation:
    solution = solved.solution
    return statement.Estimation(
        estimator=str(solved.chosen.estimator),
        shrinkage=solution.rule,
        eigenvalue_floor=solution.floor,
        parameters=solution.parameters,
        penalties=solution.penalties,
        attenuation=tuple(min(slope, 1.0) for slope in solved.response.slope.tolist()),
        public_scores=tuple(_public_scores(design, solved)),
        between_populations=solved.between_populations,
    )


def _public_scores(design: Design, solved: Solved) -> Iterator[StatedScore]:
    """Yield the public scores that the weights build on, with their slopes in phenotype units."""
    priors, fitted = solved.chosen.priors, solved.solution.scores
    if priors is None or fitted is None:
        return
    unit = phenotype_unit(design.outcomes, solved.response)
    names = [p.name for p in design.outcomes.phenotypes]
    for row, source in enumerate(priors.sources):
        slopes, errors = fitted.slopes[row] * unit, fitted.standard_errors[row] * unit
        used = np.flatnonzero(priors.scores.used[row]).tolist()
        stated = tuple(StatedSlope(names[j], float(slopes[j]), float(errors[j])) for j in used)
        yield replace(source, slopes=stated)


def _accuracy(design: Design, solved: Solved, payment: Payment | None) -> statement.Accuracy:
    size = float(design.n_samples) if payment is None else payment.effective_sample_size
    heritability = None if payment is None else payment.heritability
    on_scores = solved.chosen.priors is not None
    definition = effective_size_in_words(heritability, on_scores=on_scores)
    return statement.Accuracy(size, definition)


def state_ledger_entry(balance: Balance, charge: Charge) -> statement.LedgerEntry:
    """State what a charge costs, and its account, whose `balance` includes it."""
    account, budget = balance.account, balance.budget
    others = [each.cost for each in balance.charges if each.id != charge.id]
    return statement.LedgerEntry(
        # Not the ledger's identifier: equal ones would show that nobody joined or left.
        cohort=account.given_name or UNNAMED,
        unit=str(account.unit),
        adjacency=str(account.adjacency),
        delta=budget.delta,
        charges=(statement.LedgerCharge(charge.id, state_cost(charge.cost)),),
        before=_balance(total_cost(others), budget.delta),
        after=_balance(total_cost([*others, charge.cost]), budget.delta),
        budget=statement.LedgerBudget(budget.epsilon, budget.mu_squared),
    )


def _balance(cost: Cost, delta: float) -> statement.LedgerBalance:
    return statement.LedgerBalance(state_cost(cost), composed_epsilon(cost, delta))


def state_hold_out(
    noisy: NoisyHoldOut, noise: HoldOut, coding: OutcomeCoding, calibrate: bool, *groups: str
) -> HeldOut:
    """Return the statement of the noisy sums over the people held out, and of the accuracy."""
    public = {"people": noise.people, "unit": UNIT, "constant": code_of_people(noise.groups)}
    sigma = noise.scale_sigma, noise.gram_sigma
    bounds = residual_bounds(coding.phenotypes).tolist()
    phenotypes = []
    measured = zip(coding.phenotypes, bounds, noisy.counts, noisy.sums, strict=True)
    for phenotype, residual_bound, counts, sums in measured:
        statistics = {"residual_bound": residual_bound, "counts": counts, "sums": sums}
        found = accuracy_of(asdict(phenotype), statistics, public, sigma, groups)
        slope, *ends = (decisive(found)[k] for k in ("slope", "slope_lower", "slope_upper"))
        factor = slope if calibrate and corrects_weights(slope, *ends) else 1.0
        found["groups"] = tuple(HeldOutGroup(**group) for group in found["groups"])
        found |= {**statistics, "calibration": factor}
        phenotypes.append(HeldOutPhenotype(phenotype.name, **found))
    return HeldOut(**public, phenotypes=tuple(phenotypes))


def calibrated(
    weights: ScoringWeights, explained: Floats, hold_out: HeldOut, coding: OutcomeCoding
) -> ScoringWeights:
    """Return the weights of the variants multiplied by the stated factors, and rounded again.

    What the covariates explain of the score, `explained`, is multiplied too. The intercept changes
    so that a person at the covariates' centres whose prediction was the phenotype's mean keeps it
    (docs/maths/hold-out.md, "Calibration").
    """
    factor = np.array([phenotype.calibration for phenotype in hold_out.phenotypes])
    centre = np.array([c.centre for c in coding.covariates], dtype=np.float64)
    at_centre = coding.means - centre @ weights.covariate_weights
    per_allele = weights.per_allele * factor
    explained = (1 - factor) * explained
    intercept = factor * weights.intercept + (1 - factor) * at_centre - centre @ explained
    intercept += weights.centre_dosage @ per_allele
    round_in_place(per_allele, PRIVATE_DIGITS)
    intercept -= weights.centre_dosage @ per_allele
    beside = weights.covariate_weights + explained
    return replace(weights, per_allele=per_allele, intercept=intercept, covariate_weights=beside)
