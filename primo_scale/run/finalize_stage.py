"""Stage that adds the noise once, solves every phenotype and publishes the weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from primo_scale.accumulation.statistics import RawStatistics, open_raw_statistics
from primo_scale.errors import InputError
from primo_scale.gaussian.calibration import NO_COST
from primo_scale.genotypes.ld_components import open_components
from primo_scale.interruption import deferred
from primo_scale.ledger.refusals import lowered_budget
from primo_scale.outcomes.store import OutcomeStore, open_outcome_store
from primo_scale.privacy.held_out_sums import ScoredPeople, hold_out_noise
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.paid_hold_out import measure_once, weight_norms
from primo_scale.privacy.paid_second_round import draw_second_round
from primo_scale.privacy.paid_statistics import draw_once, stored_charge
from primo_scale.privacy.planning import Floats
from primo_scale.privacy.private_statistics import privatise
from primo_scale.publication.weights import ScoringWeights
from primo_scale.publication.wording import CHOICE_BY_SCORE
from primo_scale.run.describe_release import Payment, calibrated, state_hold_out
from primo_scale.run.design import PaidAdjustment
from primo_scale.run.estimation import NoisySecondRound, explained_by_covariates, solve
from primo_scale.run.forecast import (
    PlannedRelease,
    forecast_release,
    heritability_of,
    mechanism_of,
)
from primo_scale.run.payments import payer_of
from primo_scale.run.progress import count_bar
from primo_scale.run.publishing import (
    charge_of,
    exists_already,
    publish,
)
from primo_scale.run.run_log import LOGGER, stage
from primo_scale.run.second_round import open_second_round
from primo_scale.run.work_directory import (
    COMPONENTS,
    DESIGN,
    OUTCOMES,
    finished_statistics,
    store_root,
)
from primo_scale.storage.locations import Location
from primo_scale.verify.files import Signer


@stage("finalize")
def finalize_stage(planned: PlannedRelease) -> None:
    """Publish the release of finished statistics, or find it published."""
    design, request = planned.design, planned.request
    work_dir = request.work_dir
    statistics = finished_statistics(work_dir, design.object_store)
    raw = open_raw_statistics(statistics, design.layout, design.n_samples)
    store = planned.store
    _check_belongs(raw, "design", design.digest, work_dir / DESIGN)
    _check_belongs(raw, "genotypes", store.identity_digest, store.path)
    if design.components is not None:
        components = open_components(store_root(work_dir, design.object_store) / COMPONENTS)
        _check_belongs(raw, "components", components.digest, components.path)
    chosen = planned.chosen
    if not planned.private:
        publish(planned, solve(planned, privatise(raw, None)))
    else:
        LOGGER.info("method %s: %s", chosen.method.name, chosen.reason)
        if chosen.estimator.is_deprecated:
            LOGGER.warning(
                "--shrinkage %s is deprecated since 0.3.0, and 0.5.0 removes it: known-noise is at "
                "least as accurate", chosen.estimator,
            )  # fmt: skip
        mechanism = _with_hold_out(planned, mechanism_of(design, chosen))
        _release_privately(raw, planned, mechanism, design.paid_adjustment)


def _with_hold_out(planned: PlannedRelease, mechanism: Mechanism) -> Mechanism:
    """Return the mechanism with the noise on the measures of the people held out, if any are."""
    design, chosen = planned.design, planned.chosen
    if not design.held_out:
        return mechanism
    scores = "no public scores" if chosen.priors is None else chosen.priors.sha256
    # Other weights are another measurement, and another charge.
    fit = f"{chosen.method.name}, {chosen.estimator.name}, {planned.request.ridge}, {scores}"
    # The people held out are not among those by whom phenotypes are adjusted.
    mu_squared = mechanism.cost.mu_squared / mechanism.promise.share
    people, n_phenotypes = design.held_out, design.layout.n_phenotypes
    hold_out = hold_out_noise(n_phenotypes, people, mu_squared, fit, max(1, len(design.groups)))
    return replace(mechanism, hold_out=hold_out)


def _check_belongs(raw: RawStatistics, what: str, digest: str, path: Location) -> None:
    """Refuse another design or store than that of the statistics."""
    if raw.inputs[what] != digest:
        raise InputError(
            f"not the {what} that the statistics were made with",
            where=str(path),
            remedy="Run accumulate again with the same files, or in another --work-dir",
        )


def _release_privately(
    raw: RawStatistics, planned: PlannedRelease, mechanism: Mechanism, adjustment: PaidAdjustment
) -> None:
    design, request, store = planned.design, planned.request, planned.store
    with payer_of(request, store, design.promise) as payer:
        ledger = payer.ledger
        # The first of two rounds serves any hold-out, which the second is then bound to.
        first = mechanism if design.rounds == 1 else replace(mechanism, hold_out=None)
        known = stored_charge(raw, first, payer, adjustment.charge)
        if request.out.exists() and (known is None or known.id != charge_of(request.out)):
            raise exists_already(request.out)
        is_measured = known is not None and payer.noise_store.hold_out_path(known.id).is_file()
        if mechanism.hold_out is not None and not is_measured:
            _outcomes(raw, planned)  # refused before the key serves this measurement
        with deferred(), count_bar("draw noise", "pieces") as move:
            is_last = design.rounds == 1 and mechanism.hold_out is None
            paid = draw_once(raw, first, payer, adjustment.charge, on_block=move, is_last=is_last)
            second = None
            if design.rounds == 2:
                work_dir = request.work_dir
                directions, own, sums = open_second_round(design, mechanism, work_dir, raw)
                values = draw_second_round(sums, own, mechanism, paid, payer)
                second = NoisySecondRound(directions, own, values)
                mechanism = replace(mechanism, second_round=own)
        charge, balance = paid.charge, payer.balance()
        if not balance.affords(NO_COST):
            raise lowered_budget(request.ledger_path, balance)
        heritability = heritability_of(store)
        expected = forecast_release(design, store.variants, mechanism, heritability).stated_size
        by_score = any(count.filter == CHOICE_BY_SCORE for count in store.filter_counts)
        payment = Payment(mechanism, charge, adjustment, balance, expected, heritability, by_score)
        with payer.noise_store.payment_explained(charge.id):
            solved = solve(planned, paid.private, second)
            if (noise := mechanism.hold_out) is not None:
                norms = weight_norms(solved.weights.per_allele)
                explained = explained_by_covariates(design, solved.weights, request.work_dir)
                score = partial(_scored_people, raw, planned, solved.weights, explained)
                noisy = measure_once(paid, noise, norms, score, payer)
                stated = state_hold_out(
                    noisy, noise, design.outcomes, request.calibrate, *design.groups
                )
                weights = calibrated(solved.weights, explained, stated, design.outcomes)
                solved = replace(solved, weights=weights, hold_out=stated)
            signer = Signer(ledger.public_key, ledger.sign)
            digest = publish(planned, solved, payment=payment, signer=signer)
            ledger.mark_published(charge, digest)


def _scored_people(
    raw: RawStatistics, planned: PlannedRelease, weights: ScoringWeights, explained: Floats
) -> ScoredPeople:
    """Return the people held out, with scores by the weights. PRIVATE."""
    from primo_scale.run.hold_out_stage import score_held_out  # loads pandas

    design, scratch, outcomes = planned.design, planned.request.work_dir, _outcomes(raw, planned)
    LOGGER.info("hold-out: scoring %d people", design.held_out)
    return score_held_out(planned.store, outcomes, design, weights, explained, scratch)


def _outcomes(raw: RawStatistics, planned: PlannedRelease) -> OutcomeStore:
    """Return the outcomes that the statistics were made with. PRIVATE."""
    root = store_root(planned.request.work_dir, planned.design.object_store)
    outcomes = open_outcome_store(root / OUTCOMES)
    _check_belongs(raw, "outcomes", outcomes.content_digest, outcomes.path)
    return outcomes
