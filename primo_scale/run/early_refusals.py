"""What a command refuses before the first genotype is read, settled once for every command.

Public inputs, headers, the ledger and the values of the phenotype and covariate tables are read;
nothing is written, so that a dry run and the run itself share the check.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from primo_scale.accumulation.statistics import finished_plan_digest
from primo_scale.genotypes.frequencies import read_reference_frequencies, refuse_few_matches
from primo_scale.ledger.ledger import Ledger, default_ledger_path
from primo_scale.ledger.spending import ChargeRequest
from primo_scale.outcomes.bounds import phenotypes_without_sd
from primo_scale.outcomes.matching import match_people
from primo_scale.outcomes.store import is_aligned
from primo_scale.outcomes.tables import open_outcome_table
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.run.accuracy_forecast import check_accuracy
from primo_scale.run.design import PaidMoments, load_design
from primo_scale.run.design_choices import make_design, outcome_coding
from primo_scale.run.dry_run import SummationForecast, preflight
from primo_scale.run.log_records import LOGGER
from primo_scale.run.method_choice import choose, recipe_of
from primo_scale.run.payments import announce_opening, paying_cohort_of
from primo_scale.run.publishing import check_publishable, log_genome_build
from primo_scale.run.release_directory import refuse_other_release, refuse_unwritable
from primo_scale.run.release_memory import ReleaseNeeds, refuse_small_memory, release_needs
from primo_scale.run.request_parts import Fit
from primo_scale.run.work_directory import (
    DESIGN,
    NOISE,
    last_claimed,
    other_statistics,
    work_places,
)

if TYPE_CHECKING:
    from primo_scale.genotypes.frequencies import MatchedFrequencies
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.outcomes.coding import OutcomeCoding
    from primo_scale.privacy.accuracy import Forecast
    from primo_scale.run.design import Budget, Design
    from primo_scale.run.method_choice import Chosen
    from primo_scale.run.request import AccumulateRequest, FinalizeRequest
    from primo_scale.run.request_parts import Model, OutcomeTables

_EXAMPLES = 5


@dataclass(frozen=True)
class PlannedRun:
    """Settled design and forecasts of a run. PRIVATE: they tell the number of people.

    Attributes
    ----------
    design
        Public choices of the run, before phenotype moments are bought.
    matched
        Frequencies of the reference panel for the variants, or None.
    chosen
        Method of the release; None where no release is planned yet.
    accuracy
        Accuracy to expect; None for a release without noise, or where none is planned yet.
    summation
        Forecast of the accumulation; None where the statistics are finished.
    release
        Memory and disk that the release takes.
    """

    design: Design
    matched: MatchedFrequencies | None
    chosen: Chosen | None
    accuracy: Forecast | None
    summation: SummationForecast | None
    release: ReleaseNeeds


def check_before_work(
    store: GenotypeStore, request: AccumulateRequest, release: FinalizeRequest | None
) -> PlannedRun:
    """Refuse what public inputs, headers, the ledger, the tables and this machine refuse.

    Phenotype moments, if they are asked for, are paid for later: no size depends on them.

    Parameters
    ----------
    store
        Genotypes, or the tables of genotypes that are still to be ingested.
    request
        Request to sum. Its work directory need not exist; what an earlier run left there counts.
    release
        Request of the release that the same run makes, or None.

    Returns
    -------
    PlannedRun
        Settled design and the forecasts of the run.

    Raises
    ------
    InputError, UsageError
        Inputs that are malformed, do not belong together, or cannot be released.
    BudgetRefused
        The ledger would refuse to pay for the release.
    ResourceError
        Too little memory or disk.
    """
    tables, privacy, budget = request.outcomes, request.privacy, request.privacy.budget
    coding = outcome_coding(tables, privacy, None)
    check_publishable(store.variants, coding)
    matched = _matched_frequencies(request.model, store)
    design = make_design(
        store, request.model, privacy, matched=matched, outcomes=coding, moments=None
    )
    _warn_of_public_inputs(design, tables)
    chosen = _chosen(design, budget, release)
    stored_noise = NoiseStore(request.work_dir / NOISE).charges()
    if release is not None:
        build = log_genome_build(release.genome_build, store.variants)
        refuse_other_release(release, design, build, stored_noise)
    accuracy = check_accuracy(
        design, store.variants, chosen, budget, accept_noise=request.accept_noise
    )
    if chosen is not None:
        _refuse_unaffordable(store, request, design, chosen, pays=release is not None)
    if budget is not None and (release is not None or tables.pheno_moments):
        announce_opening(store, design, budget, ledger=request.ledger, cohort=request.cohort)
    needs = release_needs(design, chosen if release is not None else None)
    summed, aligned = _finished_stages(request)
    summation = None
    if summed:
        _refuse_other_design(design, request)
    else:
        summation = preflight(store, design, request.execution, request.work_dir, needs)
    if release is not None:
        refuse_small_memory(needs)
    if not (summed or aligned):
        _read_tables(store, tables, coding)
    return PlannedRun(design, matched, chosen, accuracy, summation, needs)


def _matched_frequencies(model: Model, store: GenotypeStore) -> MatchedFrequencies | None:
    """Return the panel's frequencies, if there is a panel, and log how it fits."""
    if model.ref_freq is None:
        return None
    matched = read_reference_frequencies(model.ref_freq, store.variants)
    LOGGER.info(
        "--ref-freq: %d variants matched (%d with alleles swapped, %d on the other strand, "
        "%d strand-ambiguous and taken as labelled), %d with other alleles, %d absent",
        matched.n_matched, matched.n_swapped, matched.n_flipped,
        matched.n_ambiguous, matched.n_mismatched, matched.n_absent,
    )  # fmt: skip
    refuse_few_matches(matched)
    return matched


def _warn_of_public_inputs(design: Design, outcomes: OutcomeTables) -> None:
    """Log what is allowed and costs accuracy."""
    if design.clipped and design.row_norm < design.genotypes.variance:
        LOGGER.warning(
            "--row-norm is below the expected norm of a row, %.4g: most records are shrunk, and "
            "weights come out of a wrong size", math.sqrt(design.genotypes.variance)
            / design.genotypes.unit,
        )  # fmt: skip
    if outcomes.pheno_moments:  # their sds are bought
        return
    phenotypes = design.outcomes.phenotypes
    path = outcomes.pheno_bounds
    if path is None:
        raise ValueError("OutcomeTables refuses a table without bounds")
    without = phenotypes_without_sd(path, [p.name for p in phenotypes])
    assumed = [f"{p.name} {p.sd:g}" for p in phenotypes if p.name in without]
    if assumed:
        more = ", ..." if len(assumed) > _EXAMPLES else ""
        LOGGER.warning(
            "%s: no sd for %d of %d phenotypes, so that half the range of the bounds is taken: "
            "%s%s. Where that is not the sd, scores and predictions of a private release have a "
            "wrong scale. Give a published mean and sd in the table, or --pheno-moments",
            path, len(assumed), len(phenotypes), ", ".join(assumed[:_EXAMPLES]), more,
        )  # fmt: skip


def _chosen(
    design: Design, budget: Budget | None, release: FinalizeRequest | None
) -> Chosen | None:
    """Return how weights will be made, as far as it is known; None: no release is planned yet."""
    if release is None and budget is None:
        return None
    fit = Fit() if release is None else release.fit
    return choose(design, None if budget is None else design.promise(budget), fit)


def _refuse_unaffordable(
    store: GenotypeStore, request: AccumulateRequest, design: Design, chosen: Chosen, *, pays: bool
) -> None:
    """Ask the ledger whether it would pay for the release, unless its noise may be at hand."""
    budget, moments = request.privacy.budget, request.outcomes.pheno_moments
    if budget is None:
        return
    path = request.ledger or default_ledger_path()
    if pays or moments:  # this run writes to it
        refuse_unwritable(path)
    noise_store = NoiseStore(request.work_dir / NOISE)
    used = noise_store.used_charges()
    if not (path.exists() or used):  # a new ledger opens the budget that the release needs
        return
    bought = noise_store.read_moments() if moments else None
    if bought is not None:
        design = replace(design, moments=PaidMoments(bought, budget))
    cost = design.mechanism(budget, recipe_of(design, chosen)).cost
    with Ledger(path, read_only=True) as ledger:
        ledger.refuse_unknown_charges(used)
        payer = paying_cohort_of(ledger, store, request.cohort, design.privacy, design.adjacency)
        charge = ChargeRequest(
            payer.account,
            "",
            budget.epsilon,
            budget.delta,
            cost,
            payer.people_digest,
            payer.roster,
        )
        ledger.ask(charge, stored_noise=noise_store.charges())


def _finished_stages(request: AccumulateRequest) -> tuple[bool, bool]:
    """Return whether the statistics are summed and whether the outcomes are aligned."""
    bucket = request.execution.object_store
    if bucket is not None and last_claimed(request.work_dir) != str(bucket):
        return False, False  # nothing of this work directory lies there
    places = work_places(request.work_dir, bucket)
    return finished_plan_digest(places.statistics) is not None, is_aligned(places.outcomes)


def _refuse_other_design(design: Design, request: AccumulateRequest) -> None:
    """Refuse finished statistics of another design, as the run would; moments are not known yet."""
    work_dir = request.work_dir
    path = work_dir / DESIGN
    if request.outcomes.pheno_moments or not path.is_file():
        return
    if load_design(path).digest != design.digest:
        raise other_statistics(work_places(work_dir, request.execution.object_store).statistics)


def _read_tables(store: GenotypeStore, outcomes: OutcomeTables, coding: OutcomeCoding) -> None:
    """Read every value that will be used once: what is wrong shows now, not after the ingest."""
    tables = [(outcomes.pheno, tuple(p.name for p in coding.phenotypes))]
    if outcomes.covar is not None:
        tables.append((outcomes.covar, tuple(c.name for c in coding.covariates)))
    for table, names in tables:
        people = match_people(open_outcome_table(table), names, store.samples, level=logging.INFO)
        for _ in people:
            pass
