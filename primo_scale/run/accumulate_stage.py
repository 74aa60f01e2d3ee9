"""Stage that sums the exact statistics, on threads of this process or on a cluster.

A second round sums in directions that are chosen by the noisy statistics of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.accumulation import clipping_rules, executors
from primo_scale.accumulation import statistics as exact_sums
from primo_scale.accumulation.partials import Inputs, open_partials
from primo_scale.accumulation.plan import Plan as SummationPlan
from primo_scale.accumulation.plan import default_plan, plan_digest
from primo_scale.errors import InputError
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.interruption import deferred
from primo_scale.machine import usable_cpus
from primo_scale.methods.linear_algebra import Float64, adjust, missing_rescale
from primo_scale.methods.second_round import choose_directions, windows_of
from primo_scale.outcomes import store as outcome_store
from primo_scale.outcomes.store import OutcomeStore
from primo_scale.panel import components as ld_maps
from primo_scale.panel.components import OwnDirections, components, find_directions
from primo_scale.panel.ld import LdPanel
from primo_scale.privacy import payment
from primo_scale.privacy.mechanism import Mechanism, Recipe, SecondRound, release_cost, second_round
from primo_scale.run import estimation, payments, public_inputs, work_directory
from primo_scale.run.design import Design, PaidAdjustment, find_design, write_design, write_maps
from primo_scale.run.options import AccumulateRequest
from primo_scale.run.plan import Plan
from primo_scale.run.run_log import LOGGER, SUMMED, about, progress_bar, stage
from primo_scale.run.work_directory import DIRECTIONS, OWN_SUMS, SECOND_PARTIALS, store_root
from primo_scale.storage import block_matrices, files, resuming


def accumulate_stage(plan: Plan) -> tuple[Design, exact_sums.RawStatistics]:
    """Align and adjust the outcomes, and compute the sums still missing.

    The design that is returned is that of adjusted phenotypes.
    """
    store, request, panels, design = plan.store, plan.request, plan.panels, plan.design
    genotypes = plan.genotypes or store
    if panels.frequencies is not None:
        public_inputs.warn_of_other_alleles(genotypes, panels.frequencies)
    work_dir = request.work_dir
    root = work_directory.store_root(work_dir, request.object_store)
    if request.object_store is not None:
        work_directory.claim(request.object_store, work_dir)
    path = work_dir / work_directory.DESIGN
    known = find_design(path)
    if known is None or known.planned_digest != design.digest:
        write_design(path, design)
    projected = None
    if panels.loadings is not None:
        with stage("principal components"):
            projected = public_inputs.project(
                work_dir / work_directory.PRINCIPAL_COMPONENTS, genotypes, panels.loadings
            )
    held_out = None
    if design.held_out:
        key = work_directory.hold_out_key(work_dir)
        held_out = outcome_store.choose_held_out(store.samples, design.held_out, key)
    with stage("outcomes"):
        aligned = outcome_store.align_outcomes(
            root / (work_directory.UNADJUSTED if design.clipped else work_directory.OUTCOMES),
            store.samples,
            (request.pheno, request.covar),
            design.outcomes,
            scratch=work_dir,
            components=projected,
            rows=plan.rows,
            held_out=held_out,
            to_adjust=design.clipped,
        )
    if design.clipped:
        design, aligned = _adjusted(store, request, design, aligned)
        public_inputs.write_ancestry(work_dir / work_directory.ANCESTRY, panels, design)
    digests = {
        "genotypes": store.identity_digest,
        "outcomes": aligned.content_digest,
        "design": design.digest,
    }
    maps = None
    if design.components is not None and panels.ld is not None:
        with stage("LD components"):
            maps = write_maps(root / work_directory.COMPONENTS, panels.ld, design)
        digests["components"] = maps.digest
    inputs = Inputs(
        genotypes=store.path,
        outcomes=aligned.path,
        components=None if maps is None else maps.path,
        clipping_rule=design.clipping_rule,
        subsample=design.subsample,
        digests=digests,
        holds_out=design.held_out > 0,
    )
    raw = _sum(design, inputs, request)
    write_design(path, design)
    if design.rounds == 2 and panels.ld is not None:
        directions = second_directions(plan, panels.ld, design, raw)
        _sum_second(design, second_inputs(inputs, design, directions), request)
    LOGGER.debug("statistics sha256: %s", raw.sha256, extra=about(SUMMED, {"sha256": raw.sha256}))
    return design, raw


@stage("adjustment")
def _adjusted(
    store: GenotypeStore, request: AccumulateRequest, design: Design, unadjusted: OutcomeStore
) -> tuple[Design, OutcomeStore]:
    """Pay for the release, and return the design and the store of adjusted phenotypes."""
    before = design.outcomes
    scale = outcome_store.AdjustmentScale.of(before)
    raw, promise = outcome_store.sum_grams(unadjusted, scale), design.promise
    cost = release_cost(promise, design.subsample)
    with payments.payer_of(request, store, promise) as payer, deferred():
        bought, receipt = payment.pay_for_adjustment(raw, scale.norm, promise, cost, payer)
        payments.log_payment("release", receipt, payer)
    covariance = tuple(map(tuple, payment.covariance_of_covariates(before, scale, bought).tolist()))
    paid = PaidAdjustment(bought.charge, bought.sigma, scale.norm, design.digest, covariance)
    design = replace(design, outcomes=payment.adjusted(before, scale, bought), adjustment=paid)
    path = store_root(request.work_dir, request.object_store) / work_directory.OUTCOMES
    n_fixed = design.layout.n_fixed
    return design, outcome_store.write_residuals(
        path, unadjusted, before, design.outcomes, n_fixed=n_fixed
    )


@stage("accumulate")
def _sum(design: Design, inputs: Inputs, request: AccumulateRequest) -> exact_sums.RawStatistics:
    root = store_root(request.work_dir, request.object_store)
    plan = default_plan(design.layout, design.n_samples, design.phenotype_step)
    statistics = root / work_directory.STATISTICS
    wanted = plan_digest(plan, inputs.to_json())
    if resuming.is_of_this_request(statistics, exact_sums.finished_plan_digest(statistics), wanted):
        LOGGER.info("the statistics are there already: nothing to sum")
        exact_sums.remove_partials(root / work_directory.PARTIALS)
        return exact_sums.open_raw_statistics(statistics, plan.layout, plan.n_samples)
    codes = design.genotypes.code_table
    partials = open_partials(root / work_directory.PARTIALS, plan, inputs, codes, request.kernel)
    with _executor(request) as executor, progress_bar("accumulate") as move:
        raw = exact_sums.accumulate(executor, partials, statistics, move)
    exact_sums.remove_partials(root / work_directory.PARTIALS)
    return raw


@stage("second round")
def _sum_second(design: Design, inputs: Inputs, request: AccumulateRequest) -> None:
    """Sum the second round, unless its sums are there already."""
    root = store_root(request.work_dir, request.object_store)
    path, destination = root / work_directory.SECOND_PARTIALS, root / work_directory.OWN_SUMS
    found = exact_sums.find_own_sums(destination)
    if found is None or found.inputs != inputs.to_json():
        directions = ld_maps.open_directions(root / work_directory.DIRECTIONS)
        plan, codes = second_plan(design, directions), design.genotypes.code_table
        partials = open_partials(path, plan, inputs, codes, request.kernel)
        with _executor(request) as executor, progress_bar("second round") as move:
            exact_sums.accumulate_own(executor, partials, destination, move)
    exact_sums.remove_partials(path)


@contextmanager
def _executor(request: AccumulateRequest) -> Iterator[exact_sums.Executor]:
    """Yield what runs tasks on threads of this process, or on a cluster."""
    if request.profile is None:
        yield partial(executors.run_on_threads, usable_cpus())
        return
    from primo_scale.cluster.workers import dask_client

    scratch = files.make_private_directory(request.work_dir.absolute() / "scratch")
    with dask_client(request.profile, scratch) as client:
        yield partial(executors.run_on_dask, client)


# ---- Second round (docs/maths/rounds.md) ---------------------------------------------------------


_VERSION = 1  # of the choice of directions


@stage("second round")
def second_directions(
    plan: Plan, panel: LdPanel, design: Design, raw: exact_sums.RawStatistics
) -> OwnDirections:
    """Draw the noise of the first round, and choose the directions of the second by it."""
    store, request = plan.store, plan.request
    mechanism, paid = design.mechanism(Recipe()), design.paid_adjustment.charge
    with (
        payments.payer_of(request, store, design.promise) as payer,
        deferred(),
        progress_bar("draw noise", "pieces") as move,
    ):
        private = payment.draw_statistics(raw, mechanism, payer, payer.charge(paid), move)
    root = store_root(request.work_dir, design.object_store)
    drawn = private.matrices.sha256()
    wanted = files.sha256_of_json({"version": _VERSION, "first": drawn, "panel": panel.sha256})
    path = root / DIRECTIONS
    found = find_directions(path, wanted)
    if found is not None:
        return found
    exact_sums.remove_partials(root / SECOND_PARTIALS)  # of other directions
    with threadpool_limits(limits=usable_cpus()):
        matrices, work_dir = private.matrices, request.work_dir
        n_samples, observed = estimation.people_of(matrices)
        rescale = missing_rescale(observed, n_samples)
        response = design.clip_response(1 / rescale, design.eigenvalues(store.variants))
        known = estimation.panel_components(design, work_dir, n_samples)
        if known is None:
            raise ValueError("a second round needs LD components")
        adjustment = adjust(
            matrices,
            mechanism.scales,
            rescale,
            gram_factor=1.0,
            ancestry=estimation.ancestry_of(design, known, n_samples, work_dir),
        )
        unit = second_round(mechanism.promise, 1, 1, design.phenotype_norm).sigma
        windows, row_norm, left, degrees = choose_directions(
            adjustment,
            estimation.effect_prior(design, rescale, response),
            known,
            _covariances(panel, design, windows_of(design.boundaries)),
            response.slope,
            unit=design.outcomes.unit,
            noise=(unit / n_samples) ** 2,
        )
    residuals = [float(f"{share:.6g}") for share in left.tolist()]
    return ld_maps.write_directions(path, wanted, windows, row_norm, residuals, degrees)


def _covariances(panel: LdPanel, design: Design, cuts: tuple[int, ...]) -> list[Float64]:
    """Return the covariances of the codes of every window in the panel, without its chance."""
    variances = ld_maps.variances_outside(panel, design.genotypes, cuts)
    every = (np.arange(len(each)) for each in variances)
    pairs = zip(variances, components(panel, design.genotypes, cuts, every), strict=True)
    return [(rows.T * np.maximum(each, 0)) @ rows for each, rows in pairs]


def second_noise(design: Design, mechanism: Mechanism, directions: OwnDirections) -> SecondRound:
    """Return the noise of the second round; phenotypes are clipped as in the first one."""
    norm = max(1, int(design.phenotype_norm * float(np.mean(directions.residuals))))
    return second_round(mechanism.promise, len(directions.owners), directions.row_norm, norm)


def second_inputs(inputs: Inputs, design: Design, directions: OwnDirections) -> Inputs:
    """Return what determines the sums of the second round, from that of the first one."""
    noise = second_noise(design, design.mechanism(Recipe()), directions)
    return replace(
        inputs,
        clipping_rule=_second_rule(noise),
        components=directions.path,
        digests={**inputs.digests, "components": directions.digest},
    )


def second_plan(design: Design, directions: OwnDirections) -> SummationPlan:
    """Return the plan of the sums of the second round."""
    boundaries = (0, *np.cumsum(directions.sizes).tolist())
    layout = block_matrices.BlockLayout(boundaries, 0, directions.n_phenotypes)
    return default_plan(layout, design.n_samples, sums_gram=False)


def open_second_round(
    design: Design, mechanism: Mechanism, work_dir: Path, raw: exact_sums.RawStatistics
) -> tuple[OwnDirections, SecondRound, exact_sums.RawOwnSums]:
    """Return the directions, the noise and the exact sums of the second round of statistics."""
    root = store_root(work_dir, design.object_store)
    sums, directions = exact_sums.find_own_sums(root / OWN_SUMS), find_directions(root / DIRECTIONS)
    if sums is None or directions is None:
        raise InputError(
            "the second round is missing",
            where=str(root / (OWN_SUMS if sums is None else DIRECTIONS)),
            remedy="Run accumulate again with the same files",
        )
    noise = second_noise(design, mechanism, directions)
    rule = {"row_rule": asdict(_second_rule(noise)), "components": directions.digest}
    resuming.is_of_this_request(
        root / OWN_SUMS,
        files.canonical_json(sums.inputs),
        files.canonical_json({**raw.inputs, **rule}),
        remedy="Remove it, and run accumulate again with the same files",
    )
    return directions, noise, sums


def _second_rule(noise: SecondRound) -> clipping_rules.ClippingRule:
    return clipping_rules.ClippingRule("contributions", noise.row_norm, None, noise.phenotype_norm)
