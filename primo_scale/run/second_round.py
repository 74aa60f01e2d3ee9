"""Second round of a release: its directions, its sums and its noise (docs/maths/rounds.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.accumulation.clipping_rules import ClippingRule, LongRecords
from primo_scale.accumulation.own_sums import RawOwnSums, find_own_sums
from primo_scale.accumulation.partials import Inputs
from primo_scale.accumulation.plan import Plan, default_plan
from primo_scale.accumulation.statistics import RawStatistics, remove_partials
from primo_scale.errors import InputError
from primo_scale.genotypes.ld_panel import LdPanel
from primo_scale.genotypes.own_directions import (
    OwnDirections,
    find_directions,
    write_directions,
)
from primo_scale.genotypes.panel_spectrum import components, variances_outside
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.interruption import deferred
from primo_scale.machine import usable_cpus
from primo_scale.methods.adjustment import adjust, missing_rescale
from primo_scale.methods.second_round import choose_directions, windows_of
from primo_scale.methods.shrinkage import Float64
from primo_scale.privacy.mechanism import Mechanism, Recipe, SecondRound
from primo_scale.privacy.paid_statistics import draw_once
from primo_scale.privacy.private_statistics import PrivateStatistics
from primo_scale.privacy.scales import second_round
from primo_scale.run.design import Design
from primo_scale.run.estimation import ancestry_of, effect_prior, panel_components, people_of
from primo_scale.run.forecast import public_eigenvalues
from primo_scale.run.payments import payer_of
from primo_scale.run.progress import count_bar
from primo_scale.run.request import RunRequest
from primo_scale.run.run_log import stage
from primo_scale.run.work_directory import DIRECTIONS, OWN_SUMS, SECOND_PARTIALS, store_root
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.storage.files import sha256_of_json
from primo_scale.storage.locations import Location

_VERSION = 1  # of the choice of directions


@stage("second round")
def second_directions(
    store: GenotypeStore,
    request: RunRequest,
    design: Design,
    panel: LdPanel,
    raw: RawStatistics,
) -> OwnDirections:
    """Draw the noise of the first round, and choose the directions of the second by it."""
    mechanism, charge = design.mechanism(Recipe()), design.paid_adjustment.charge
    with (
        payer_of(request, store, design.promise) as payer,
        deferred(),
        count_bar("draw noise", "pieces") as move,
    ):
        paid = draw_once(raw, mechanism, payer, charge, on_block=move, is_last=False)
    root = store_root(request.work_dir, design.object_store)
    drawn = paid.private.matrices.sha256()
    wanted = sha256_of_json({"version": _VERSION, "first": drawn, "panel": panel.sha256})
    found = find_directions(root / DIRECTIONS, wanted)
    if found is not None:
        return found
    remove_partials(root / SECOND_PARTIALS)  # of other directions
    with threadpool_limits(limits=usable_cpus()):
        return _chosen(design, panel, paid.private, store, request.work_dir, root, wanted)


def _chosen(
    design: Design,
    panel: LdPanel,
    private: PrivateStatistics,
    store: GenotypeStore,
    work_dir: Path,
    root: Location,
    wanted: str,
) -> OwnDirections:
    matrices, mechanism = private.matrices, private.mechanism
    n_samples, observed = people_of(matrices)
    rescale = missing_rescale(observed, n_samples)
    response = design.clip_response(1 / rescale, public_eigenvalues(design, store.variants))
    known = panel_components(design, work_dir, n_samples)
    if known is None or mechanism is None:
        raise ValueError("a second round needs LD components and a noisy first round")
    adjustment = adjust(
        matrices,
        mechanism.scales,
        rescale,
        gram_factor=1.0,
        ancestry=ancestry_of(design, known, n_samples, work_dir),
    )
    unit = second_round(mechanism.promise, 1, 1, design.phenotype_norm).sigma
    windows, row_norm, left, degrees = choose_directions(
        adjustment,
        effect_prior(design, rescale, response),
        known,
        _covariances(panel, design, windows_of(design.boundaries)),
        response.slope,
        unit=design.outcomes.unit,
        noise=(unit / n_samples) ** 2,
    )
    residuals = [float(f"{share:.6g}") for share in left.tolist()]
    return write_directions(root / DIRECTIONS, wanted, windows, row_norm, residuals, degrees)


def _covariances(panel: LdPanel, design: Design, cuts: tuple[int, ...]) -> list[Float64]:
    """Return the covariances of the codes of every window in the panel, without its chance."""
    variances = list(variances_outside(panel, design.genotypes, cuts))
    every = (np.arange(len(each)) for each in variances)
    vectors = components(panel, design.genotypes, cuts, every)
    pairs = zip(variances, vectors, strict=True)
    return [(rows.T * np.maximum(each, 0)) @ rows for each, rows in pairs]


def second_noise(design: Design, mechanism: Mechanism, directions: OwnDirections) -> SecondRound:
    """Return the noise of the second round; phenotypes are clipped as in the first one."""
    left = float(np.mean(directions.residuals))
    norm = max(1, int(design.phenotype_norm * left))
    return second_round(mechanism.promise, len(directions.owners), directions.row_norm, norm)


def second_inputs(inputs: Inputs, design: Design, directions: OwnDirections) -> Inputs:
    """Return what determines the sums of the second round, from that of the first one."""
    noise = second_noise(design, design.mechanism(Recipe()), directions)
    rule = ClippingRule(LongRecords.CONTRIBUTIONS, noise.row_norm, None, noise.phenotype_norm)
    return replace(
        inputs,
        clipping_rule=rule,
        components=directions.path,
        digests={**inputs.digests, "components": directions.digest},
    )


def second_plan(design: Design, directions: OwnDirections) -> Plan:
    """Return the plan of the sums of the second round."""
    boundaries = (0, *np.cumsum(directions.sizes).tolist())
    layout = BlockLayout(boundaries, 0, directions.n_phenotypes)
    return default_plan(layout, design.n_samples, sums_gram=False)


def open_second_round(
    design: Design, mechanism: Mechanism, work_dir: Path, raw: RawStatistics
) -> tuple[OwnDirections, SecondRound, RawOwnSums]:
    """Return the directions, the noise and the exact sums of the second round of statistics."""
    root = store_root(work_dir, design.object_store)
    sums, directions = find_own_sums(root / OWN_SUMS), find_directions(root / DIRECTIONS)
    if sums is None or directions is None:
        raise InputError(
            "the second round is missing",
            where=str(root / (OWN_SUMS if sums is None else DIRECTIONS)),
            remedy="Run accumulate again with the same files",
        )
    noise = second_noise(design, mechanism, directions)
    summed, rule = sums.inputs, sums.inputs["row_rule"]
    same = all(summed[name] == raw.inputs[name] for name in ("genotypes", "outcomes", "design"))
    bounds = rule["row_norm"], rule["phenotype_norm"]
    same &= bounds == (noise.row_norm, noise.phenotype_norm)
    if not same or summed["components"] != directions.digest:
        raise InputError(
            "not the second round of these statistics",
            where=str(root / OWN_SUMS),
            remedy="Remove it, and run accumulate again with the same files",
        )
    return directions, noise, sums
