"""Statement of a release in release.json, made from its design, its noise and its payment.

The stated sensitivity is that of a statistic alone. Noise is calibrated jointly, which
`primo_scale.verify.guarantee` checks without this code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from msgspec import structs

from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import Cost, composed_epsilon
from primo_scale.gaussian.noise import fine_bits, off_diagonal_sigma
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.genotypes.coding import default_row_norm
from primo_scale.genotypes.store import DOSAGES
from primo_scale.genotypes.tables import NOT_REPORTED
from primo_scale.ledger.accounts import Balance, Charge, total_cost
from primo_scale.methods.solve import PRIVATE_DIGITS, phenotype_unit, round_in_place
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.privacy.mechanism import (
    HoldOut,
    Mechanism,
    Promise,
    SecondRound,
    calibration_of,
    counts_share,
    eigenvalue_sensitivity,
)
from primo_scale.privacy.planning import PRIOR_HERITABILITY, Floats
from primo_scale.privacy.private_statistics import (
    UNIT,
    NoisyHoldOut,
    code_of_people,
    residual_bounds,
    row_norm,
)
from primo_scale.publication.texts import (
    CHOICE_BY_SCORE,
    ONE_BLOCK,
    PANEL_RULE,
    effective_size_in_words,
)
from primo_scale.publication.weights import ScoringWeights
from primo_scale.run.design import Design, PaidAdjustment
from primo_scale.run.estimation import Solved
from primo_scale.run.forecast import ChosenMethod
from primo_scale.verify import document as stated
from primo_scale.verify.document import HeldOut, HeldOutGroup, HeldOutPhenotype, Source, StatedQuery
from primo_scale.verify.held_out_accuracy import N_COUNTS, accuracy_of, corrects_weights, decisive
from primo_scale.verify.theorems import PARTS, SYMMETRIC
from primo_scale.verify.words import SAMPLER, UNNAMED, public_by_assumption, unit_in_words
from primo_scale.version import __version__

_LIBRARIES = ("scipy", "cryptography")
_UNPROTECTED = (
    "X'X by LD block",
    "X'Y and X'C, genotypes by phenotypes, constant and covariates",
    "C'C, C'Y and Y'Y of constant, covariates and phenotypes",
    "people with each phenotype",
)
_CHOSEN_VARIANTS = Source(
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
    design: Design, solved: Solved, payment: Payment | None, genome_build: str
) -> stated.Statement:
    """Return the statement of a release, which is NOT PRIVATE without a payment."""
    inputs = _public_inputs(design, genome_build)
    on_scores = solved.chosen.priors is not None
    common: dict[str, Any] = {
        "software": f"primo_scale {__version__}",
        "created": datetime.now(UTC).date().isoformat(),
        "cohort": _cohort(design, payment),
        "estimation": _estimation(design, solved),
        "summary_statistics": solved.weights.summary is not None,
        "hold_out": solved.hold_out,
    }
    if payment is None:
        definition = effective_size_in_words(None, on_scores=on_scores)
        return stated.Statement(
            **common,
            private=False,
            guarantee=None,
            mechanism=None,
            public_inputs=inputs,
            accuracy=stated.Accuracy(float(design.n_samples), definition),
            ledger=None,
            public_by_assumption=(),
            unprotected=_UNPROTECTED,
        )
    if payment.chosen_by_score:
        inputs = structs.replace(inputs, sources=(_CHOSEN_VARIANTS, *inputs.sources))
    definition = effective_size_in_words(payment.heritability, on_scores=on_scores)
    n_fixed = 1 + len(design.outcomes.covariates)
    return stated.Statement(
        **common,
        private=True,
        guarantee=state_guarantee(payment.mechanism.promise, payment.charge.cost),
        mechanism=state_mechanism(
            payment.mechanism, solved.chosen, payment.adjustment, n_fixed=n_fixed
        ),
        public_inputs=inputs,
        accuracy=stated.Accuracy(payment.effective_sample_size, definition),
        ledger=state_ledger_entry(payment.balance, payment.charge),
        public_by_assumption=public_by_assumption(str(design.unit), str(design.adjacency)),
        unprotected=(),
    )


def states_inputs(document: Mapping[str, Any], design: Design, genome_build: str) -> bool:
    """Return whether a release.json states the public inputs of a design."""
    inputs = stated.statement_members(_public_inputs(design, genome_build))
    return bool(document.get("public_inputs") == inputs)


# ---- The promise and its noise -------------------------------------------------------------------


def state_guarantee(promise: Promise, cost: Cost) -> stated.Guarantee:
    """Return the statement of a promise, given the cost of all charges of the release together."""
    versions = {"primo_scale": __version__, **{name: version(name) for name in _LIBRARIES}}
    return stated.Guarantee(
        epsilon=promise.epsilon,
        delta=promise.delta,
        cost=stated.StatedCost(*astuple(cost)),
        mu=math.sqrt(cost.mu_squared),
        adjacency=str(promise.adjacency),
        privacy=str(promise.unit),
        unit=unit_in_words(promise.unit, promise.adjacency),
        versions=versions,
    )


def state_mechanism(
    mechanism: Mechanism, chosen: ChosenMethod, adjustment: PaidAdjustment, *, n_fixed: int
) -> stated.StatedMechanism:
    """Return the statement of every noisy statistic and of the bounds that its noise rests on.

    `n_fixed` is the number of columns of C, the constant and the covariates.
    """
    promise, bounds, recipe = mechanism.promise, mechanism.bounds, mechanism.recipe
    block_norms = None if mechanism.split is None else bounds.block_norms
    queries = _queries(mechanism, block_norms, n_fixed, adjustment)
    own = mechanism.second_round
    return stated.StatedMechanism(
        method=chosen.method.name,
        summary=chosen.method.summary,
        reason=chosen.reason,
        calibration=calibration_of(bounds, promise, recipe),
        split=mechanism.split,
        row_norm_squared=bounds.row_norm,
        block_norms_squared=block_norms,
        phenotypes_norm_squared=bounds.phenotype_norm,
        counts_share=counts_share(promise),
        eigenvalue_share=recipe.eigenvalue_share,
        share=promise.share,
        adjustment_norm=adjustment.norm,
        gram_copies=recipe.gram_copies,
        subsample=recipe.subsample,
        exact_parts=tuple(name for name in PARTS if name not in {each.name for each in queries}),
        queries=queries,
        second_round=(
            None
            if own is None
            else stated.StatedSecondRound(own.directions, own.row_norm, own.phenotype_norm)
        ),
        sampler=SAMPLER,
    )


def _queries(
    mechanism: Mechanism,
    block_norms: tuple[int, ...] | None,
    n_fixed: int,
    adjustment: PaidAdjustment,
) -> tuple[StatedQuery, ...]:
    """Return every statistic with noise; X'X has a part for each of the `block_norms`."""
    bounds, promise, scales = mechanism.bounds, mechanism.promise, mechanism.scales
    apart = mechanism.hold_out or HoldOut(0, 0.0, 0.0, "")
    own = mechanism.second_round or SecondRound(1, 1, 1, 0.0)
    d, l, adjacency = sum(bounds.block_sizes), bounds.n_phenotypes, promise.adjacency  # noqa: E741
    row, phenotype = bounds.row_norm, bounds.phenotype_norm
    product = sensitivity.cross(row, phenotype, adjacency)
    if promise.unit is PrivacyUnit.LABEL:
        product = sensitivity.cross_of_clipped_products(row * phenotype, adjacency)
    columns, counts, scored = l * (n_fixed + 1), l + promise.n_is_private, 3 * l * apart.groups
    of_blocks = tuple(sensitivity.gram(min(n, row), adjacency) for n in block_norms or (row,))
    wholes: dict[str, tuple[float, tuple[int, ...], float]] = {
        "phenotype_cross": (scales.phenotype_cross, (d, l), product),
        "phenotype_gram": (
            scales.phenotype_gram, (l, l), sensitivity.gram(phenotype, adjacency)
        ),
        "observed": (scales.observed, (counts,), sensitivity.observed_counts(counts)),
        "smallest_eigenvalue": (
            scales.smallest_eigenvalue, (1,), eigenvalue_sensitivity(bounds, promise)
        ),
        "adjustment": (
            adjustment.sigma, (columns, columns), sensitivity.adjustment(adjustment.norm, adjacency)
        ),
        "second_round": (
            own.sigma, (own.directions,),
            sensitivity.cross(own.row_norm, own.phenotype_norm, adjacency),
        ),
        "held_out_counts": (apart.scale_sigma, (l, N_COUNTS), sensitivity.held_out_counts(l)),
        "held_out_gram": (
            apart.gram_sigma, (scored, scored),
            sensitivity.held_out_gram(l, row_norm(apart.groups)),
        ),
    }  # fmt: skip
    gram_sigmas = scales.gram[:1] if block_norms is None else scales.gram
    every = [
        _query("gram", gram_sigmas, (d, d), of_blocks),
        *(
            _query(name, (sigma,), shape, (change,))
            for name, (sigma, shape, change) in wholes.items()
        ),
    ]
    return tuple(query for query in every if any(query.sigma))


def _query(
    name: str, sigmas: tuple[float, ...], shape: tuple[int, ...], changes: tuple[float, ...]
) -> StatedQuery:
    """Return a statistic by its sigmas, one for each part, and the changes by one person."""
    beside = tuple(map(off_diagonal_sigma, sigmas)) if name in SYMMETRIC else None
    return StatedQuery(
        name=name,
        shape=shape,
        sensitivity=changes,
        sigma=sigmas,
        off_diagonal_sigma=beside,
        fine_bits=tuple(map(fine_bits, beside or sigmas)),
    )


def state_ledger_entry(balance: Balance, charge: Charge) -> stated.LedgerEntry:
    """State what a charge costs, and its account, whose `balance` includes it."""
    account, budget = balance.account, balance.budget
    others = [each.cost for each in balance.charges if each.id != charge.id]

    before = total_cost(others)
    return stated.LedgerEntry(
        # Not the ledger's identifier: equal ones would show that nobody joined or left.
        cohort=account.given_name or UNNAMED,
        charge=charge.id,
        before=stated.StatedCost(*astuple(before)),
        epsilon_before=composed_epsilon(before, budget.delta),
        epsilon_after=composed_epsilon(total_cost([*others, charge.cost]), budget.delta),
        budget_epsilon=budget.epsilon,
        budget_mu_squared=budget.mu_squared,
    )


# ---- Public inputs -------------------------------------------------------------------------------


def _cohort(design: Design, payment: Payment | None) -> stated.Cohort:
    layout = design.layout
    hidden = payment is not None and payment.mechanism.promise.n_is_private
    return stated.Cohort(
        n_samples=None if hidden else design.n_samples,
        nominal_n=design.public_n if hidden else None,
        n_variants=design.n_variants,
        n_phenotypes=layout.n_phenotypes,
        n_covariates=len(design.outcomes.covariates),
        block_sizes=design.block_sizes,
        component_sizes=None if design.components is None else layout.sizes,
    )


def _public_inputs(design: Design, genome_build: str) -> stated.PublicInputs:
    outcomes, panel = design.outcomes, design.panel
    return stated.PublicInputs(
        reference_frequencies=design.reference or "uninformative",
        genotype_unit=design.genotypes.unit,
        phenotype_unit=outcomes.unit,
        constant=outcomes.constant,
        phenotypes=tuple(stated.StatedPhenotype(**asdict(p)) for p in outcomes.phenotypes),
        covariates=tuple(stated.StatedCovariate(**asdict(c)) for c in outcomes.covariates),
        ld_blocks=design.ld_blocks,
        genome_build=genome_build,
        sources=tuple(_sources(design, genome_build)),
        ld_panel=(
            None
            if panel is None
            else stated.StatedLdPanel(panel.file, panel.sha256, panel.n_people)
        ),
        pc_loadings=design.loadings,
        panel_populations=None if design.populations is None else design.populations.source,
    )


def _sources(design: Design, build: str) -> Iterator[Source]:
    """Yield the origin of each public input, and of each bound that the noise rests on."""
    panel, loadings, reference = design.panel, design.loadings, design.reference
    frequencies, listed = "Reference allele frequencies", "listed in full"
    if design.dosages:
        yield Source("Genotypes", f"dosages in steps of 1/{DOSAGES.steps}", "--dosages")
    if reference is None:
        yield Source(frequencies, "none: every genotype is coded about one copy", "default")
    else:
        yield Source(frequencies, reference.file, "--ref-freq, a public panel")
    cuts = "least LD across the cuts, --ld-panel"
    by_rule = cuts if design.ld_blocks.startswith(PANEL_RULE) else "--ld-blocks"
    is_one = design.ld_blocks == ONE_BLOCK
    yield Source("LD blocks", design.ld_blocks, "default" if is_one else by_rule)
    if panel is not None:
        value = f"{panel.file} (SHA-256 {panel.sha256})"
        yield Source("LD panel", value, "--ld-panel, public people")
    if design.genetic_factors is not None:
        value = str(design.genetic_factors)
        yield Source("Genetic factors of the phenotypes", value, "--genetic-factors")
    given = "not given" if build == NOT_REPORTED else "--genome-build"
    yield Source("Genome build", build, given)
    if design.nominal_n is not None:
        yield Source("Number of people planned for", str(design.nominal_n), "--nominal-n")
    if design.subsample is not None:
        yield Source("Subsample", f"{design.subsample} people", "--subsample")
    yield Source("Bounds of phenotypes", listed, "--pheno-bounds")
    if design.adjustment is not None:
        measured = "noisy regression on the covariates, before anything else"
        yield Source("Sds of adjusted phenotypes", listed, measured)
    if design.phenotype_step > 1:
        value = f"multiples of {design.phenotype_step / design.outcomes.unit:.4f} sds"
        yield Source("Rounding of phenotypes", value, "default for 100 phenotypes or more")
    if len(design.outcomes.covariates) > (0 if loadings is None else loadings.n_components):
        yield Source("Bounds of covariates", listed, "--covar-bounds")
    if loadings is not None:
        value = f"{loadings.file} (SHA-256 {loadings.sha256})"
        yield Source("Principal components and their bounds", value, _LOADINGS_SOURCE)
    if not design.clipped:
        return
    by_default = "default rule, from the reference frequencies"
    is_default = design.row_norm == default_row_norm(design.genotypes)
    if design.components is not None:
        by_default, is_default = "default rule, from the LD panel", True
    bound = str(design.row_norm)
    yield Source("Bound N_x on genotype rows", bound, by_default if is_default else "--row-norm")
    planned = "planner, from public sizes and the noise"
    yield Source("Bound N_y on phenotype rows", str(design.phenotype_norm), planned)
    if design.block_norms is not None:
        value = f"{len(design.block_norms)} bounds, listed in release.json"
        yield Source("Bounds beta_b on rows in LD blocks", value, by_default)


# ---- Results -------------------------------------------------------------------------------------


def _estimation(design: Design, solved: Solved) -> stated.Estimation:
    solution = solved.solution
    return stated.Estimation(
        estimator=str(solved.chosen.estimator),
        shrinkage=solved.chosen.estimator.description,
        eigenvalue_floor=solved.chosen.estimator.floor,
        parameters=solution.parameters,
        penalties=solution.penalties,
        attenuation=tuple(min(slope, 1.0) for slope in solved.response.slope.tolist()),
        public_scores=tuple(_public_scores(design, solved)),
        between_populations=solved.between_populations,
    )


def _public_scores(design: Design, solved: Solved) -> Iterator[stated.StatedScore]:
    """Yield the public scores that the weights build on, with their slopes in phenotype units."""
    priors, fitted = solved.chosen.priors, solved.solution.scores
    if priors is None or fitted is None:
        return
    unit = phenotype_unit(design.outcomes, solved.response)
    names = [p.name for p in design.outcomes.phenotypes]
    for row, source in enumerate(priors.sources):
        slopes, errors = fitted.slopes[row] * unit, fitted.standard_errors[row] * unit
        used = np.flatnonzero(priors.scores.used[row]).tolist()
        numbers = ((names[j], float(slopes[j]), float(errors[j])) for j in used)
        yield structs.replace(source, slopes=tuple(stated.StatedSlope(*each) for each in numbers))


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
