"""Publication of a release: what may lie at ``--out``, the weights, and what release.json states.

The statement is made from the design, the noise and the payment. The stated sensitivity is that of
a statistic alone. Noise is calibrated jointly, which `primo_scale.verify.guarantee` checks without
this code.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
from msgspec import structs

from primo_scale.errors import CHECK_PERMISSIONS, Field, InputError, UsageError
from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import Cost, composed_epsilon
from primo_scale.gaussian.noise import fine_bits, off_diagonal_sigma
from primo_scale.genotypes.coding import default_row_norm
from primo_scale.genotypes.store import DOSAGES
from primo_scale.humanize import examples, spent_in_words
from primo_scale.ledger.accounts import Balance, Charge, total_cost
from primo_scale.methods.solve import PRIVATE_DIGITS, phenotype_unit, round_in_place
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.privacy import mechanism as noise_plan
from primo_scale.privacy import private_statistics as held_out_sums
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.payment import NoiseStore
from primo_scale.privacy.planning import PRIOR_HERITABILITY, Floats, Forecast
from primo_scale.publication import texts as wording
from primo_scale.publication.weights import ScoringWeights, scoring_command
from primo_scale.run import estimation, options, work_directory
from primo_scale.run.design import ChosenMethod, Design, PaidAdjustment, PanelDesign, PlannedRelease
from primo_scale.run.run_log import LOGGER, about
from primo_scale.storage.files import sha256_of_file
from primo_scale.storage.resuming import NEVER_OVERWRITTEN, of_other_request
from primo_scale.verify import document as stated
from primo_scale.verify import files, finding, words
from primo_scale.verify.held_out_accuracy import N_COUNTS, accuracy_of, corrects_weights, decisive
from primo_scale.verify.theorems import PARTS, SYMMETRIC
from primo_scale.version import __version__

_LONGEST_NAME = 200
"""Bytes of a name beside which files are written, in file systems whose names have up to 255."""
_LIBRARIES = ("scipy", "cryptography")
_UNPROTECTED = (
    "X'X by LD block",
    "X'Y and X'C, genotypes by phenotypes, constant and covariates",
    "C'C, C'Y and Y'Y of constant, covariates and phenotypes",
    "people with each phenotype",
)
_CHOSEN_VARIANTS = stated.Source(
    "Choice of variants", "those that explain most in a public score", wording.CHOICE_BY_SCORE
)
_LOADINGS_SOURCE = "--pc-loadings, a public panel, or --covar-bounds where it has a component"


@dataclass(frozen=True)
class Payment:
    """Payment for a private release, and the noise that it bought."""

    mechanism: Mechanism
    charge: Charge  # of the release, with the adjustment of its phenotypes
    balance: Balance  # of the paying account, this charge included
    expected: Forecast  # accuracy, from public numbers
    heritability: float = PRIOR_HERITABILITY  # that the forecast ascribes to the variants
    chosen_by_score: bool = False  # whether a public score chose the variants


def make_statement(
    design: Design, solved: estimation.Solved, payment: Payment | None, genome_build: str
) -> stated.ReleaseDocument:
    """Return the statement of a release, which is NOT PRIVATE without a payment."""
    definition = wording.effective_size_in_words(
        None if payment is None else payment.heritability,
        on_scores=solved.chosen.scores is not None,
        stacked=bool(design.features),
    )
    chosen, solution = solved.chosen, solved.solution
    hidden = payment is not None and payment.mechanism.promise.n_is_private
    statement = stated.ReleaseDocument(
        software=f"primo_scale {__version__}",
        created=datetime.now(UTC).date().isoformat(),
        private=False,
        guarantee=None,
        mechanism=None,
        cohort=stated.Cohort(
            n_samples=None if hidden else design.n_samples,
            nominal_n=design.public_n if hidden else None,
            n_variants=design.n_variants,
            n_phenotypes=design.layout.n_phenotypes,
            n_covariates=len(design.outcomes.covariates),
            block_sizes=design.block_sizes,
            component_sizes=None if design.components is None else design.layout.sizes,
        ),
        public_inputs=_public_inputs(design, genome_build),
        estimation=stated.Estimation(
            estimator=str(chosen.estimator),
            shrinkage=chosen.estimator.description,
            eigenvalue_floor=chosen.estimator.floor,
            parameters=solution.parameters,
            penalties=solution.penalties,
            attenuation=tuple(min(slope, 1.0) for slope in solved.response.slope.tolist()),
            public_scores=tuple(_public_scores(design, solved)),
            between_populations=solved.between_populations,
        ),
        accuracy=stated.Accuracy(float(design.n_samples), definition),
        ledger=None,
        public_by_assumption=(),
        unprotected=_UNPROTECTED,
        summary_statistics=solved.weights.summary is not None,
        hold_out=solved.hold_out,
    )
    if payment is None:
        return statement
    inputs, mechanism = statement.public_inputs, payment.mechanism
    if payment.chosen_by_score:
        inputs = structs.replace(inputs, sources=(_CHOSEN_VARIANTS, *inputs.sources))
    n_fixed = 1 + len(design.outcomes.covariates)
    return structs.replace(
        statement,
        private=True,
        guarantee=state_guarantee(mechanism.promise, payment.charge.cost),
        mechanism=state_mechanism(mechanism, chosen, design.paid_adjustment, n_fixed=n_fixed),
        public_inputs=inputs,
        accuracy=stated.Accuracy(
            payment.expected.stated_size,
            definition,
            payment.heritability,
            *(
                float(f"{r2:.3g}")
                for r2 in (payment.expected.r_squared, payment.expected.without_noise)
            ),
        ),
        ledger=state_ledger_entry(payment.balance, payment.charge),
        public_by_assumption=words.public_by_assumption(str(design.unit), str(design.adjacency)),
        unprotected=(),
    )


# ---- The promise and its noise -------------------------------------------------------------------


def state_guarantee(promise: noise_plan.Promise, cost: Cost) -> stated.Guarantee:
    """Return the statement of a promise, given the cost of all charges of the release together."""
    versions = {"primo_scale": __version__, **{name: version(name) for name in _LIBRARIES}}
    return stated.Guarantee(
        epsilon=promise.epsilon,
        delta=promise.delta,
        cost=stated.StatedCost(*astuple(cost)),
        mu=math.sqrt(cost.mu_squared),
        adjacency=str(promise.adjacency),
        privacy=str(promise.unit),
        unit=words.unit_in_words(promise.unit, promise.adjacency),
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
    queries = _queries(mechanism, adjustment, n_fixed)
    own, second_round = mechanism.second_round, None
    if own is not None:
        second_round = stated.StatedSecondRound(own.directions, own.row_norm, own.phenotype_norm)
    return stated.StatedMechanism(
        method=chosen.method.name,
        summary=chosen.method.summary,
        reason=chosen.reason,
        calibration=noise_plan.calibration_of(bounds, promise, recipe),
        split=mechanism.split,
        row_norm_squared=bounds.row_norm,
        block_norms_squared=block_norms,
        phenotypes_norm_squared=bounds.phenotype_norm,
        counts_share=noise_plan.counts_share(promise),
        eigenvalue_share=recipe.eigenvalue_share,
        share=promise.share,
        adjustment_norm=adjustment.norm,
        gram_copies=recipe.gram_copies,
        subsample=recipe.subsample,
        exact_parts=tuple(name for name in PARTS if name not in {each.name for each in queries}),
        queries=queries,
        second_round=second_round,
        sampler=words.SAMPLER,
    )


def _queries(
    mechanism: Mechanism, adjustment: PaidAdjustment, n_fixed: int
) -> tuple[stated.StatedQuery, ...]:
    """Return every statistic with noise; X'X has a part for each bound that splits the shift."""
    bounds, promise, scales = mechanism.bounds, mechanism.promise, mechanism.scales
    block_norms = None if mechanism.split is None else bounds.block_norms
    apart = mechanism.hold_out or noise_plan.HoldOut(0, 0.0, 0.0, "")
    own = mechanism.second_round or noise_plan.SecondRound(1, 1, 1, 0.0)
    d, l, adjacency = sum(bounds.block_sizes), bounds.n_phenotypes, promise.adjacency  # noqa: E741
    row, phenotype = bounds.row_norm, bounds.phenotype_norm
    product = sensitivity.cross(row, phenotype, adjacency)
    if promise.unit is sensitivity.PrivacyUnit.LABEL:
        product = sensitivity.cross_of_clipped_products(row * phenotype, adjacency)
    columns, counts, scored = l * (n_fixed + 1), l + promise.n_is_private, 3 * l * apart.groups
    of_blocks = tuple(sensitivity.gram(min(n, row), adjacency) for n in block_norms or (row,))
    gram_sigmas = scales.gram[:1] if block_norms is None else scales.gram
    second = sensitivity.cross(own.row_norm, own.phenotype_norm, adjacency)
    adjusted = sensitivity.adjustment(adjustment.norm, adjacency)
    of_scores = sensitivity.held_out_gram(l, held_out_sums.row_norm(apart.groups))
    eigenvalue = noise_plan.eigenvalue_sensitivity(bounds, promise)
    # Name, sigma, shape, and change by one person.
    wholes = (
        ("phenotype_cross", scales.phenotype_cross, (d, l), product),
        ("phenotype_gram", scales.phenotype_gram, (l, l), sensitivity.gram(phenotype, adjacency)),
        ("observed", scales.observed, (counts,), sensitivity.observed_counts(counts)),
        ("smallest_eigenvalue", scales.smallest_eigenvalue, (1,), eigenvalue),
        ("adjustment", adjustment.sigma, (columns, columns), adjusted),
        ("second_round", own.sigma, (own.directions,), second),
        ("held_out_counts", apart.scale_sigma, (l, N_COUNTS), sensitivity.held_out_counts(l)),
        ("held_out_gram", apart.gram_sigma, (scored, scored), of_scores),
    )
    queries = [_query("gram", gram_sigmas, (d, d), of_blocks)]
    queries += [_query(name, (sigma,), shape, (change,)) for name, sigma, shape, change in wholes]
    return tuple(query for query in queries if any(query.sigma))


def _query(
    name: str, sigmas: tuple[float, ...], shape: tuple[int, ...], changes: tuple[float, ...]
) -> stated.StatedQuery:
    """Return a statistic by its sigmas, one for each part, and the changes by one person."""
    beside = tuple(map(off_diagonal_sigma, sigmas)) if name in SYMMETRIC else None
    bits = tuple(map(fine_bits, beside or sigmas))
    return stated.StatedQuery(name, shape, changes, sigmas, beside, bits)


def state_ledger_entry(balance: Balance, charge: Charge) -> stated.LedgerEntry:
    """State what a charge costs, and its account, whose `balance` includes it."""
    account, budget = balance.account, balance.budget
    others = [each.cost for each in balance.charges if each.id != charge.id]

    before = total_cost(others)
    return stated.LedgerEntry(
        # Not the ledger's identifier: equal ones would show that nobody joined or left.
        cohort=account.given_name or words.UNNAMED,
        charge=charge.id,
        before=stated.StatedCost(*astuple(before)),
        epsilon_before=composed_epsilon(before, budget.delta),
        epsilon_after=composed_epsilon(total_cost([*others, charge.cost]), budget.delta),
        budget_epsilon=budget.epsilon,
        budget_mu_squared=budget.mu_squared,
    )


# ---- Public inputs -------------------------------------------------------------------------------


def _public_inputs(design: Design, genome_build: str) -> stated.PublicInputs:
    outcomes, panel, ld_panel = design.outcomes, design.panel, None
    if panel is not None:
        ld_panel = stated.StatedLdPanel(panel.file, panel.sha256, panel.n_people)
    return stated.PublicInputs(
        reference_frequencies=design.reference or "uninformative",
        genotype_unit=design.genotypes.unit,
        phenotype_unit=outcomes.unit,
        constant=outcomes.constant,
        phenotypes=tuple(stated.StatedPhenotype(**asdict(p)) for p in outcomes.phenotypes),
        covariates=tuple(stated.StatedCovariate(**asdict(c)) for c in outcomes.covariates),
        ld_blocks=design.ld_blocks,
        genome_build=genome_build,
        sources=_sources(design, genome_build),
        ld_panel=ld_panel,
        pc_loadings=design.loadings,
        panel_populations=None if design.populations is None else design.populations.source,
        score_features=design.features,
    )


def _sources(design: Design, build: str) -> tuple[stated.Source, ...]:
    """Return the origin of each public input, and of each bound that the noise rests on."""
    panel, loadings, listed = design.panel, design.loadings, "listed in full"
    norms, clipped, step = design.block_norms, design.clipped, design.phenotype_step
    frequencies = ("none: every genotype is coded about one copy", "default")
    if design.reference is not None:
        frequencies = (design.reference.file, "--ref-freq, a public panel")
    by_rule = "default" if design.ld_blocks == wording.ONE_BLOCK else "--ld-blocks"
    if design.ld_blocks.startswith(wording.PANEL_RULE):
        by_rule = "least LD across the cuts, --ld-panel"
    by_default = row_bound = "default rule, from the LD panel"
    if design.components is None:
        by_default = "default rule, from the reference frequencies"
        is_default = design.row_norm == default_row_norm(design.genotypes)
        row_bound = by_default if is_default else "row_norm"
    n_given = len(design.outcomes.covariates) - (loadings.n_components if loadings else 0)
    coarse = f"multiples of {step / design.outcomes.unit:.4f} sds"
    measured = "noisy regression on the covariates, before anything else"
    of_blocks = f"{len(norms)} bounds, listed in release.json" if norms else ""
    planned = "planner, from public sizes and the noise"
    stacked = f"{len(design.features)}, listed in release.json" * bool(design.features)
    # Input, its value, which is empty if there is none, and its source.
    rows = (
        ("Genotypes", f"dosages in steps of 1/{DOSAGES.steps}" * design.dosages, "--dosages"),
        ("Reference allele frequencies", *frequencies),
        ("LD blocks", design.ld_blocks, by_rule),
        ("LD panel", _name_and_digest(panel), "--ld-panel, public people"),
        ("Public scores in place of variants", stacked, "--score-features"),
        ("Genetic factors of the phenotypes", design.genetic_factors, "genetic_factors"),
        ("Genome build", build, "--genome-build, or positions of known variants"),
        ("Number of people planned for", design.nominal_n, "--nominal-n"),
        ("Subsample", design.subsample and f"{design.subsample} people", "subsample"),
        ("Bounds of phenotypes", listed, "--pheno-bounds"),
        ("Sds of adjusted phenotypes", design.adjustment and listed, measured),
        ("Rounding of phenotypes", coarse * (step > 1), "default for 100 phenotypes or more"),
        ("Bounds of covariates", listed * (n_given > 0), "--covar-bounds"),
        ("Principal components and their bounds", _name_and_digest(loadings), _LOADINGS_SOURCE),
        ("Bound N_x on genotype rows", clipped and design.row_norm, row_bound),
        ("Bound N_y on phenotype rows", clipped and design.phenotype_norm, planned),
        ("Bounds beta_b on rows in LD blocks", clipped and of_blocks, by_default),
    )
    return tuple(stated.Source(name, str(value), source) for name, value, source in rows if value)


def _name_and_digest(public: PanelDesign | stated.PublicFile | None) -> str:
    return "" if public is None else f"{public.file} (SHA-256 {public.sha256})"


# ---- Results -------------------------------------------------------------------------------------


def _public_scores(design: Design, solved: estimation.Solved) -> Iterator[stated.StatedScore]:
    """Yield the public scores that the weights build on, with their slopes in phenotype units."""
    scores, fitted = solved.chosen.scores, solved.solution.scores
    if scores is None or fitted is None:
        return
    unit = phenotype_unit(design.outcomes, solved.response)
    names = [p.name for p in design.outcomes.phenotypes]
    for row, source in enumerate(solved.chosen.sources):
        slopes, errors = fitted.slopes[row] * unit, fitted.standard_errors[row] * unit
        used = np.flatnonzero(scores.used[row]).tolist()
        numbers = ((names[j], float(slopes[j]), float(errors[j])) for j in used)
        yield structs.replace(source, slopes=tuple(stated.StatedSlope(*each) for each in numbers))


def state_hold_out(
    noisy: held_out_sums.NoisyHoldOut,
    noise: noise_plan.HoldOut,
    coding: OutcomeCoding,
    calibrate: bool,
    *groups: str,
) -> stated.HeldOut:
    """Return the statement of the noisy sums over the people held out, and of the accuracy."""
    public = {
        "people": noise.people,
        "unit": held_out_sums.UNIT,
        "constant": held_out_sums.code_of_people(noise.groups),
    }
    sigma = noise.scale_sigma, noise.gram_sigma
    bounds = held_out_sums.residual_bounds(coding.phenotypes).tolist()
    phenotypes = []
    measured = zip(coding.phenotypes, bounds, noisy.counts, noisy.sums, strict=True)
    for phenotype, residual_bound, counts, sums in measured:
        statistics = {"residual_bound": residual_bound, "counts": counts, "sums": sums}
        found = accuracy_of(asdict(phenotype), statistics, public, sigma, groups)
        slope, *ends = (decisive(found)[k] for k in ("slope", "slope_lower", "slope_upper"))
        factor = slope if calibrate and corrects_weights(slope, *ends) else 1.0
        found["groups"] = tuple(stated.HeldOutGroup(**group) for group in found["groups"])
        found |= {**statistics, "calibration": factor}
        phenotypes.append(stated.HeldOutPhenotype(phenotype.name, **found))
    return stated.HeldOut(**public, phenotypes=tuple(phenotypes))


def calibrated(
    weights: ScoringWeights, explained: Floats, hold_out: stated.HeldOut, coding: OutcomeCoding
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


_CLEAR_SLOPE = 3  # standard errors below 0 from which the slope on a public score is reported

# ---- What lies at --out --------------------------------------------------------------------------


def check_out(
    out: Path, work_dir: Path, ledger: Path, kind: stated.DocumentKind = stated.RELEASE
) -> stated.Document | None:
    """Return the document of the release at `out`, or None where nothing is.

    A path where no release can be published is refused before any work is done, and so are private
    files inside the release.
    """
    for name, path in (("work_dir", work_dir), ("ledger", ledger)):
        if path.resolve().is_relative_to(out.resolve()):
            raise UsageError(
                "is private, and lies in what gets published",
                where=Field(name),
                value=path,
                remedy="Choose another place",
            )
    document = _read_release(out, kind)
    if document is None and (out.exists() or out.is_symlink()):
        raise of_other_request(out, remedy=NEVER_OVERWRITTEN)
    if document is None:
        refuse_unwritable(out)
    return document


def refuse_unwritable(path: Path, *, longest: int = _LONGEST_NAME) -> None:
    """Refuse a file or directory that this user can neither write nor create, or name."""
    if path.exists():
        if not os.access(path, os.W_OK):
            raise InputError(
                "cannot be written: permission denied", where=path, remedy=CHECK_PERMISSIONS
            )
        return
    ancestor = next(parent for parent in path.absolute().parents if parent.exists())
    if not ancestor.is_dir() or not os.access(ancestor, os.W_OK):
        raise InputError(
            "cannot be created", where=path, remedy="Choose a directory you may write to"
        )
    size = len(os.fsencode(path.name))
    if size > longest:
        raise InputError(
            "the name is too long for the files beside it",
            where=path,
            value=f"{size} bytes",
            limit=f"{longest} bytes",
            remedy="Choose a shorter name",
        )


def refuse_other_release(
    request: options.FinalizeRequest, design: Design, build: str, *, private: bool
) -> None:
    """Refuse a directory that holds another release than the requested one, as far as it shows."""
    document = _read_release(request.out)
    if document is None:
        return
    charge = charge_of(request.out)
    given = design.guarantee
    if given is None or not private:
        inputs = stated.statement_members(_public_inputs(design, build))
        same = charge is None and document["public_inputs"] == inputs
    else:
        promised = document["guarantee"] or {}
        budget = (promised.get("epsilon"), promised.get("delta"))
        # The noise of its charge in the work directory ties a private release to the request.
        stored_noise = NoiseStore(request.work_dir / work_directory.NOISE).charges()
        same = charge in stored_noise and budget == (given.epsilon, given.delta)
        same &= _is_calibrated(document, request)
    if not same or bool(document.get("summary_statistics")) != request.sumstats:
        raise of_other_request(request.out, remedy=NEVER_OVERWRITTEN)


def charge_of(out: Path) -> str | None:
    """Return the charge that paid for the statistics of a published release, or None."""
    ledger = (_read_release(out) or {}).get("ledger")
    return str(ledger["charge"]) if ledger else None


def refuse_damaged(out: Path, public_key: str | None = None) -> None:
    """Refuse a published release that does not verify, with the first failed check.

    `public_key` is that of the ledger that paid. None trusts the key that the release names, for a
    caller who knows its release.json, and for a release that is NOT PRIVATE and has none.
    """
    from primo_scale.verify.release import verify  # loads SciPy

    named = ((_read_release(out) or {}).get("signature") or {}).get("public_key")
    finding.refuse_problems(
        verify(out, public_key=public_key or named).findings,
        "the release there is damaged",
        where=out,
        remedy="Restore it from a copy, or move it away and run the same command again",
    )


def _read_release(out: Path, kind: stated.DocumentKind = stated.RELEASE) -> stated.Document | None:
    """Return the document of a release, or None if that is no release or a damaged one."""
    return stated.read_document(out, kind)[0] if (out / kind.name).is_file() else None


def _is_calibrated(document: stated.Document, request: options.FinalizeRequest) -> bool:
    """Return whether the weights of a release are calibrated as the request asks."""
    measured = (document.get("hold_out") or {"phenotypes": []})["phenotypes"]
    asked = request.calibrate and any(
        corrects_weights(each["slope"], each["slope_lower"], each["slope_upper"])
        for each in map(decisive, measured)
    )
    return asked == any(each["calibration"] != 1 for each in measured)


# ---- Publication ---------------------------------------------------------------------------------


def publish(
    planned: PlannedRelease,
    solved: estimation.Solved,
    *,
    payment: Payment | None = None,
    signer: files.Signer | None = None,
) -> str:
    """Publish, or find the release published; return the SHA-256 of release.json."""
    from primo_scale.publication.publish import is_same_release, publish_release  # loads SciPy

    request = planned.request
    statement = make_statement(planned.design, solved, payment, planned.build)
    statement = structs.replace(statement, deployment=planned.deployment)
    weights, features = solved.weights, planned.features
    if features is not None:
        weights = features.folded(weights, private=payment is not None)
        size = len(weights.variants)
        summed = None if payment is None else planned.design.layout.sizes
        sizes = structs.replace(
            statement.cohort, n_variants=size, block_sizes=(size,), component_sizes=summed
        )
        statement = structs.replace(statement, cohort=sizes)
    if request.out.exists():
        if not is_same_release(request.out, statement):
            raise of_other_request(request.out, remedy=NEVER_OVERWRITTEN)
        refuse_damaged(request.out, None if signer is None else signer.public_key)
        LOGGER.info("%s: this release is published already", request.out)
    else:
        publish_release(request.out, weights, statement, signer=signer)
    document = json.loads((request.out / stated.RELEASE.name).read_bytes())
    columns = zip(weights.phenotypes, weights.per_allele.T, strict=True)
    if names := [name for name, column in columns if not column.any()]:
        LOGGER.warning(
            "all weights are 0 of %d of %d phenotypes, which the noise hides or which do not vary: "
            "%s", len(names), len(solved.weights.phenotypes), examples(names),
        )  # fmt: skip
    for score in document["estimation"]["public_scores"]:
        for each in score["slopes"]:
            if each["slope"] < -_CLEAR_SLOPE * each["standard_error"]:
                LOGGER.warning(
                    "--prior-weights %s: its slope for %s is negative, %.3g with standard error "
                    "%.2g: check its effect alleles and the direction of the phenotype; the "
                    "weights build on the reversed score",
                    score["file"], each["phenotype"], each["slope"], each["standard_error"],
                )  # fmt: skip
    for line in wording.accuracies_in_words(document):
        LOGGER.info("held out: %s", line)
    for caution in wording.held_out_cautions(document):
        LOGGER.warning("held out: %s", caution)
    for caution in wording.ancestry_notes(document):
        LOGGER.warning("%s", caution)
    LOGGER.debug("to score people: %s", " ".join(scoring_command(document, request.out)))
    accuracy, ledger, out = document["accuracy"], document["ledger"], request.out.absolute()
    LOGGER.info("%s", document["stamp"])
    if document["hold_out"] is None and accuracy["r_squared"] is not None:
        LOGGER.info(
            "expected: R^2 %.2g in other people, %.2g without noise",
            accuracy["r_squared"], accuracy["without_noise"],
        )  # fmt: skip
    if ledger is not None:
        spent, budget = ledger["epsilon_after"], ledger["budget_epsilon"]
        LOGGER.info(
            "budget: epsilon %s of %s is spent", spent_in_words(spent, budget), f"{budget:g}"
        )
    LOGGER.info("report: %s", out / files.REPORT_FILE)
    LOGGER.info("next: primo-scale verify %s", out)
    LOGGER.debug("published %s", out, extra=about("published", {"out": out}))
    return sha256_of_file(request.out / stated.RELEASE.name)
