"""Stage that adds the noise once, solves every phenotype and publishes the weights."""

from __future__ import annotations

import hashlib
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from primo_scale.accumulation.statistics import RawStatistics, open_raw_statistics
from primo_scale.gaussian.calibration import NO_COST
from primo_scale.genotypes.coding import MatchCounts
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.interruption import deferred
from primo_scale.ledger.ledger import lowered_budget
from primo_scale.outcomes.store import OutcomeStore, open_outcome_store
from primo_scale.panel.components import open_components
from primo_scale.privacy import payment as paying
from primo_scale.privacy import planning, private_statistics
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.publication.texts import CHOICE_BY_SCORE
from primo_scale.publication.weights import ScoringWeights
from primo_scale.run import payments, plan, public_inputs, run_log, work_directory
from primo_scale.run.accumulate_stage import open_second_round
from primo_scale.run.design import Design, PlannedRelease
from primo_scale.run.estimation import explained_by_covariates, solve
from primo_scale.run.publishing import Payment, calibrated, charge_of, publish, state_hold_out
from primo_scale.storage import files, locations
from primo_scale.storage.resuming import NEVER_OVERWRITTEN, of_other_request
from primo_scale.verify.files import Signer


@run_log.stage("finalize")
def finalize_stage(planned: PlannedRelease) -> None:
    """Publish the release of finished statistics, or find it published."""
    design, request = planned.design, planned.request
    work_dir = request.work_dir
    root = work_directory.store_root(work_dir, design.object_store)
    if design.object_store is not None:
        work_directory.claim(root, work_dir)
    raw = open_raw_statistics(root / work_directory.STATISTICS, design.layout, design.n_samples)
    store = planned.store
    _check_belongs(raw, "design", design.digest, work_dir / work_directory.DESIGN)
    rule = None if design.clipping_rule is None else asdict(design.clipping_rule)
    if files.canonical_json(raw.inputs["row_rule"]) != files.canonical_json(rule):
        # Another version clipped them, with another sensitivity than the noise is for.
        remedy = "Finish with the version that summed, or use another --work-dir, which pays again"
        raise of_other_request(root / work_directory.STATISTICS, remedy=remedy)
    _check_belongs(raw, "genotypes", store.identity_digest, store.path)
    if design.components is not None:
        components = open_components(root / work_directory.COMPONENTS)
        _check_belongs(raw, "components", components.digest, components.path)
    chosen = planned.chosen
    if request.non_private:
        publish(planned, solve(planned, private_statistics.not_private(raw)))
    else:
        run_log.LOGGER.debug("method %s: %s", chosen.method.name, chosen.reason)
        _release_privately(raw, planned, _with_hold_out(planned, plan.mechanism_of(design, chosen)))


def _with_hold_out(planned: PlannedRelease, mechanism: Mechanism) -> Mechanism:
    """Return the mechanism with the noise on the measures of the people held out, if any are."""
    design, chosen = planned.design, planned.chosen
    if not design.held_out:
        return mechanism
    scores = "no public scores"
    if chosen.scores is not None:
        effects = np.ascontiguousarray(chosen.scores.effects, "<f8").tobytes()
        scores = hashlib.sha256(effects + chosen.scores.used.tobytes()).hexdigest()
    # Other weights are another measurement, and another charge.
    fit = f"{chosen.method.name}, {chosen.estimator.name}, {planned.request.ridge}, {scores}"
    # The people held out are not among those by whom phenotypes are adjusted.
    mu_squared = mechanism.cost.mu_squared / mechanism.promise.share
    people, n_phenotypes = design.held_out, design.layout.n_phenotypes
    hold_out = private_statistics.hold_out_noise(
        n_phenotypes, people, mu_squared, fit, max(1, len(design.groups))
    )
    return replace(mechanism, hold_out=hold_out)


def _check_belongs(raw: RawStatistics, what: str, digest: str, path: locations.Location) -> None:
    """Refuse another design or store than that of the statistics."""
    if raw.inputs[what] != digest:
        remedy = "Run accumulate again with the same files, or in another --work-dir"
        raise of_other_request(path, value=f"another {what} than the statistics", remedy=remedy)


def _release_privately(raw: RawStatistics, planned: PlannedRelease, mechanism: Mechanism) -> None:
    design, request, store = planned.design, planned.request, planned.store
    with payments.payer_of(request, store, design.promise) as payer:
        ledger = payer.ledger
        # The first of two rounds serves any hold-out, which the second is then bound to.
        first = mechanism if design.rounds == 1 else replace(mechanism, hold_out=None)
        charge = payer.charge(design.paid_adjustment.charge)
        is_served = paying.serves(charge, raw, first, payer) and charge.id == charge_of(request.out)
        if request.out.exists() and not is_served:
            raise of_other_request(request.out, remedy=NEVER_OVERWRITTEN)
        is_measured = payer.noise_store.path_of(charge.id, "hold_out.json").is_file()
        if mechanism.hold_out is not None and not is_measured:
            _outcomes(raw, planned)  # refused before the key serves this measurement
        with deferred(), run_log.progress_bar("draw noise", "pieces") as move:
            private, second = paying.draw_statistics(raw, first, payer, charge, move), None
            if design.rounds == 2:
                directions, own, sums = open_second_round(design, mechanism, request.work_dir, raw)
                values = paying.draw_second_round(sums, own, mechanism, payer, charge)
                second = directions, own, values
                mechanism = replace(mechanism, second_round=own)
            if mechanism.hold_out is None:
                paying.record_statistics(payer, private, charge)
        balance = payer.balance()
        if not balance.affords(NO_COST):
            raise lowered_budget(request.ledger_path, balance)
        heritability = planning.PRIOR_HERITABILITY * store.heritability_share
        expected = plan.forecast_release(design, store.variants, mechanism, heritability)
        by_score = any(count.filter == CHOICE_BY_SCORE for count in store.filter_counts)
        payment = Payment(mechanism, charge, balance, expected, heritability, by_score)
        with payer.noise_store.payment_explained(charge.id):
            solved = solve(planned, private, second)
            if (noise := mechanism.hold_out) is not None:
                explained = explained_by_covariates(design, solved.weights, request.work_dir)
                weights, coding = solved.weights, design.outcomes

                def score() -> private_statistics.ScoredPeople:
                    held_out = store, _outcomes(raw, planned), design
                    return score_held_out(*held_out, weights, explained, request.work_dir)

                noisy = paying.measure_once(weights.per_allele, score, mechanism, payer, charge)
                paying.record_statistics(payer, private, charge, noisy)
                stated = state_hold_out(noisy, noise, coding, request.calibrate, *design.groups)
                calibration = calibrated(weights, explained, stated, coding)
                solved = replace(solved, weights=calibration, hold_out=stated)
            signer = Signer(ledger.public_key, ledger.sign)
            digest = publish(planned, solved, payment=payment, signer=signer)
        ledger.mark_published(charge, digest)


def _outcomes(raw: RawStatistics, planned: PlannedRelease) -> OutcomeStore:
    """Return the outcomes that the statistics were made with. PRIVATE."""
    root = work_directory.store_root(planned.request.work_dir, planned.design.object_store)
    outcomes = open_outcome_store(root / work_directory.OUTCOMES)
    _check_belongs(raw, "outcomes", outcomes.content_digest, outcomes.path)
    return outcomes


# ---- Scores of the people held out ---------------------------------------------------------------


_PEOPLE_PER_BATCH = 256  # which bounds the memory of sums over many phenotypes


def score_held_out(
    store: GenotypeStore,
    outcomes: OutcomeStore,
    design: Design,
    weights: ScoringWeights,
    explained: planning.Floats,
    scratch: Path,
) -> private_statistics.ScoredPeople:
    """Return the scores and residuals of the people held out, from a file without a name. PRIVATE.

    `explained` is what a unit of each covariate explains of the scores, shape (c, l), which is
    subtracted. Memory is that of the weights, one chunk of genotypes and the people held out in it.
    """
    from primo_scale.evaluation import scores as scoring  # loads pandas

    coding, n_variants = design.outcomes, len(weights.centre_dosage)
    run_log.LOGGER.info("hold-out: scoring %d people", design.held_out)
    if not np.isfinite(weights.centre_dosage).all():
        # It would be replaced by the mean of the people, and a score is a function of one person.
        raise ValueError("a missing genotype has no public dosage")
    # The score without copies of allele 1: the prediction at the centres, less the mean.
    centre = np.array([c.centre for c in coding.covariates], dtype=np.float64)
    matched = scoring.MatchedWeights(
        np.arange(n_variants),
        weights.per_allele,
        np.asarray(weights.intercept + centre @ weights.covariate_weights - coding.means),
        weights.centre_dosage,
        MatchCounts(n_variants, n_variants),
    )
    # Residuals in the store are those of the effects of an adjustment.
    others = weights.covariate_weights + explained - coding.covariate_weights
    scale = np.array([c.scale for c in coding.covariates])
    sd, fixed = np.array([p.sd for p in coding.phenotypes]), 1 + len(coding.covariates)
    shape = (len(coding.phenotypes),)
    parts = [("scores", np.float64, shape), ("residuals", np.float64, shape)]
    row = np.dtype([*parts, ("observed", np.bool_, shape), ("group", np.intp)])
    with files.disk_errors_explained(scratch):
        file = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115

    def batches() -> Iterator[private_statistics.ScoredBatch]:
        file.seek(0)
        while content := file.read(_PEOPLE_PER_BATCH * row.itemsize):
            people = np.frombuffer(content, dtype=row)
            yield people["scores"], people["residuals"], people["observed"], people["group"]

    weakref.finalize(batches, file.close)
    starts = range(0, store.n_samples, store.chunk_shape[1])
    with run_log.progress_bar("score people held out", "chunks") as move:
        for number, start in enumerate(starts, start=1):
            samples = slice(start, min(start + store.chunk_shape[1], store.n_samples))
            positions = np.flatnonzero(outcomes.held_out(samples))
            if not len(positions):
                continue
            genotypes = scoring.people_of_store(store, samples, positions)
            coded = outcomes.read_held_out(samples)
            covariates = coded[:, 1:fixed] / scale
            people = np.empty(len(positions), dtype=row)
            people["scores"] = scoring.score_people(genotypes, matched) - covariates @ explained
            people["residuals"] = coded[:, fixed:] * (sd / coding.unit) - covariates @ others
            people["observed"] = coded[:, fixed:] != 0
            people["group"] = public_inputs.groups_of(coded, design)
            file.write(people.tobytes())
            move(number, len(starts))
    return private_statistics.ScoredPeople(
        private_statistics.residual_bounds(coding.phenotypes),
        private_statistics.residual_limits(coding.phenotypes),
        batches,
        max(1, len(design.groups)),
    )
