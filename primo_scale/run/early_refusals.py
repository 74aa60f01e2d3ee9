"""Refusals before the first genotype is read, the same for every command.

The check reads public inputs, headers, the ledger and the values of the phenotype and covariate
tables. It writes nothing, so that a dry run and the run itself share it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from primo_scale.accumulation.statistics import finished_plan_digest
from primo_scale.cluster.early_checks import check_cluster
from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.frequencies import (
    MOST_MATCHED,
    MatchedFrequencies,
    read_reference_frequencies,
    refuse_few_matches,
)
from primo_scale.genotypes.ld_panel import LdPanel, open_ld_panel
from primo_scale.genotypes.packings import HARD_CALLS
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.humanize import bytes_in_words, duration_in_words
from primo_scale.ledger.event_log import JOURNAL_NAME_BYTES, NEW_LOG_NAME_BYTES
from primo_scale.ledger.ledger import Ledger
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.outcomes.counts import OutcomeCounts
from primo_scale.outcomes.matching import MatchedRows, match_people
from primo_scale.outcomes.store import KIND as OUTCOMES_KIND
from primo_scale.outcomes.tables import open_outcome_table
from primo_scale.privacy.accuracy import Forecast
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.privacy.payment import Payer
from primo_scale.privacy.scales import release_cost
from primo_scale.run import work_directory
from primo_scale.run.design import Design, load_design
from primo_scale.run.design_choices import PublicPanels, make_design, outcome_coding
from primo_scale.run.panel_choices import warn_of_other_population
from primo_scale.run.panel_populations import read_populations
from primo_scale.run.payments import (
    announce_opening,
    paying_cohort_of,
    refuse_shared_iids,
)
from primo_scale.run.principal_components import read_loadings
from primo_scale.run.publishing import check_publishable, check_release, refuse_unwritable
from primo_scale.run.release_forecast import ChosenMethod, check_accuracy, choose
from primo_scale.run.request import AccumulateRequest, FinalizeRequest, Fit, Model, OutcomeTables
from primo_scale.run.resources import (
    ReleaseNeeds,
    SummationForecast,
    forecast_summation,
    refuse_small_memory,
    release_needs,
)
from primo_scale.run.run_log import LOGGER
from primo_scale.storage.groups import is_complete

_LEAST_CALLED = 0.95  # share of the cohort's genotypes of a variant that are usually called


@dataclass(frozen=True, repr=False)
class PlannedRun:
    """Design and forecasts of a run. PRIVATE: they reveal the number of people."""

    design: Design  # before phenotypes are adjusted
    panels: PublicPanels  # and the choices made from them
    chosen: ChosenMethod | None  # method of the release; None if no release is planned yet
    accuracy: Forecast | None  # None for a release without noise, or if none is planned yet
    summation: SummationForecast | None  # None if the statistics are finished
    release: ReleaseNeeds
    checked: bool  # whether all values of the outcomes were read, with warnings
    warnings: tuple[str, ...] = ()  # of a plan alone; a run logs its warnings

    def __repr__(self) -> str:
        design, chosen, accuracy = self.design, self.chosen, self.accuracy
        words = [
            f"{design.n_samples} people, {design.n_variants} variants, "
            f"{design.layout.n_phenotypes} phenotypes"
        ]
        if chosen is not None:
            words.append(f"{chosen.method.name} with {chosen.estimator.name}")
        if accuracy is not None:
            best = accuracy.without_noise
            words.append(f"R^2 {accuracy.r_squared:.3g}, without noise {best:.3g}")
        if self.summation is not None:
            disk = bytes_in_words(self.summation.needs.disk_bytes)
            words.append(f"{duration_in_words(self.summation.seconds)}, {disk} of disk")
        if self.warnings:
            words.append(f"warnings: {len(self.warnings)}")
        return f"PlannedRun({'; '.join(words)})"


def check_before_work(
    store: GenotypeStore,
    request: AccumulateRequest,
    release: FinalizeRequest | None,
    *,
    read_values: bool = True,
) -> PlannedRun:
    """Return the plan of a run, unless an input, the ledger or this machine refuses it.

    `release` is the request of the release that the same run makes, or None. `read_values` asks to
    read all values of the outcomes; a run that aligns the outcomes next finds their errors as soon.
    """
    tables, budget = request, request.budget
    design, panels = _public_choices(store, request)
    chosen, priors = None, None
    if release is not None or budget is not None:
        chosen = choose(design, budget, Fit() if release is None else release)
    if release is not None:
        priors = check_release(release, design, store.variants)
    accuracy = check_accuracy(design, store, chosen, budget, accept_noise=request.accept_noise)
    if chosen is not None:
        _refuse_unaffordable(store, request, design)
    if budget is not None:
        announce_opening(store, design, budget, request)
    needs = release_needs(
        design,
        None if release is None or chosen is None else replace(chosen, priors=priors),
        sumstats=release is not None and release.sumstats,
    )
    summed, aligned = _finished_stages(request)
    summation = None
    if summed:
        _refuse_other_design(design, request)
    else:
        execution, work_dir = request, request.work_dir
        check_cluster(execution.profile, work_dir)
        summation = forecast_summation(store, design, execution, work_dir, needs)
    if release is not None:
        refuse_small_memory(needs)
    checked = read_values and not (summed or aligned)
    if checked:
        _read_tables(store, tables, design.outcomes)
    return PlannedRun(design, panels, chosen, accuracy, summation, needs, checked)


def _public_choices(
    store: GenotypeStore, request: AccumulateRequest
) -> tuple[Design, PublicPanels]:
    """Return the design and the panels that it was made from, and warn of what costs accuracy."""
    tables, loadings = request, None
    if tables.pc_loadings is not None:
        loadings = read_loadings(tables.pc_loadings, tables.covar_bounds, store)
    coding = outcome_coding(tables, request, loadings)
    check_publishable(store.variants, coding)
    ld = _matched_panel(request, store)
    panels = PublicPanels(
        frequencies=_matched_frequencies(request, store),
        ld=ld,
        document=request.work_dir / work_directory.PANEL,
        loadings=loadings,
        populations=read_populations(request.panel_populations, ld, loadings, coding),
    )
    if panels.frequencies is not None and not request.non_private:
        _warn_of_own_frequencies(panels.frequencies, store)
    if panels.ld is not None and panels.frequencies is not None:
        warn_of_other_population(panels.ld, panels.frequencies, store.variants)
    design = make_design(store, request, request, panels=panels, outcomes=coding)
    if panels.ld is not None and request.ld_components and design.components is None:
        LOGGER.info(
            "--ld-panel gives LD blocks, and no LD components: these are chosen for the noise of "
            "--epsilon and --delta, and not for a subsample"
        )
    if design.clipped and design.row_norm < design.column_variance:
        LOGGER.warning(
            "--row-norm is below the expected norm of a row, %.4g: most records are scaled down, "
            "which costs accuracy", math.sqrt(design.genotypes.variance) / design.genotypes.unit,
        )  # fmt: skip
    return design, replace(panels, settled=design.panel)


def _matched_frequencies(model: Model, store: GenotypeStore) -> MatchedFrequencies | None:
    """Return the frequencies of the reference panel, if there is one, and log how they match."""
    if model.ref_freq is None:
        if store.packing is not HARD_CALLS:
            raise UsageError(
                "dosages need the allele frequencies of a public panel: without them, codes are "
                "-1, 0 and 1",
                where=str(store.path),
                remedy="Give --ref-freq, or ingest hard calls (without --dosages)",
            )
        return None
    matched = read_reference_frequencies(model.ref_freq, store.variants)
    LOGGER.info("--ref-freq: %s", matched.counts.in_words())
    refuse_few_matches(matched)
    _warn_of_few_matches("--ref-freq", matched.counts.matched, store)
    return matched


def _matched_panel(model: Model, store: GenotypeStore) -> LdPanel | None:
    """Return the LD panel, if there is one, and log how it matches."""
    if model.ld_panel is None:
        return None
    panel = open_ld_panel(model.ld_panel, store.variants)
    store.samples.refuse_shared_people(panel.people, panel.name)
    LOGGER.info(
        "--ld-panel: %d people; %d of %d variants matched (%d with alleles swapped)",
        panel.n_people, panel.n_matched, store.n_variants, panel.swapped.sum(),
    )  # fmt: skip
    _warn_of_few_matches("--ld-panel", panel.n_matched, store)
    return panel


def _warn_of_few_matches(option: str, n_matched: int, store: GenotypeStore) -> None:
    if n_matched < MOST_MATCHED * store.n_variants:
        LOGGER.warning(
            "%s: has %d of %d variants, less than %d%%: scores explain less than forecast, and "
            "their slopes are far from 1. Give a panel with these variants, or leave the others "
            "out (--extract)", option, n_matched, store.n_variants, round(100 * MOST_MATCHED),
        )  # fmt: skip


def _warn_of_own_frequencies(matched: MatchedFrequencies, store: GenotypeStore) -> None:
    """Warn of frequencies that seem to be counted in the people of the cohort."""
    most = 2 * store.n_samples
    if _LEAST_CALLED * most <= matched.n_alleles <= most:
        LOGGER.warning(
            "%s: seems to be counted in the cohort: it has %g alleles of most variants, and the "
            "cohort has %d people. Frequencies of the cohort are private, and the guarantee does "
            "not cover them: give those of a public panel (docs/how-to/public-inputs.md)",
            matched.path, matched.n_alleles, store.n_samples,
        )  # fmt: skip


def _refuse_unaffordable(store: GenotypeStore, request: AccumulateRequest, design: Design) -> None:
    """Refuse a release that the ledger would not pay for; a stored one needs no payment."""
    budget = request.budget
    if budget is None:
        return
    refuse_shared_iids(store)
    path = request.ledger_path
    refuse_unwritable(path, appended=JOURNAL_NAME_BYTES if path.is_file() else NEW_LOG_NAME_BYTES)
    noise_store = NoiseStore(request.work_dir / work_directory.NOISE)
    used = noise_store.used_charges()
    if not (path.exists() or used):  # a new ledger opens the budget of the release
        return
    cost = release_cost(design.promise(budget), design.subsample)
    with Ledger(path, read_only=True) as ledger:
        cohort = paying_cohort_of(ledger, store, request.cohort, design.privacy, design.adjacency)
        Payer(ledger, cohort, noise_store)  # refuses noise that another ledger paid for
        charge = cohort.request("", budget.epsilon, budget.delta, cost)
        ledger.check_request(charge, stored_noise=noise_store.charges())


def _finished_stages(request: AccumulateRequest) -> tuple[bool, bool]:
    """Return whether the statistics are summed and whether the outcomes are aligned."""
    bucket = request.object_store
    if bucket is not None and work_directory.last_claimed(request.work_dir) != str(bucket):
        return False, False  # the bucket holds nothing of this work directory
    root = work_directory.store_root(request.work_dir, bucket)
    aligned = is_complete(root / work_directory.OUTCOMES, OUTCOMES_KIND)
    return finished_plan_digest(root / work_directory.STATISTICS) is not None, aligned


def _refuse_other_design(design: Design, request: AccumulateRequest) -> None:
    """Refuse finished statistics of another design, or whose noise is lost.

    Another adjustment would be paid for, and the statistics would not fit it.
    """
    work_dir = request.work_dir
    path = work_dir / work_directory.DESIGN
    if not path.is_file():
        return
    known = load_design(path)
    paid = known.adjustment
    noise_store = NoiseStore(work_dir / work_directory.NOISE)
    if paid is not None and not noise_store.adjustment_path.is_file():
        raise InputError(
            "the adjustment of the phenotypes in the finished statistics is missing",
            where=noise_store.adjustment_path,
            remedy="Restore the file, or use another --work-dir, which pays again",
        )
    if (known.digest if paid is None else paid.planned) != design.digest:
        raise work_directory.other_statistics(
            work_directory.store_root(work_dir, request.object_store) / work_directory.STATISTICS
        )


def _read_tables(store: GenotypeStore, outcomes: OutcomeTables, coding: OutcomeCoding) -> None:
    """Read every value that will be used, so that errors and warnings come before the ingest."""
    covariates: tuple[str, ...] = ()
    if outcomes.covar is not None:
        covariates = open_outcome_table(outcomes.covar).matching(outcomes.covar_name)
    counts = OutcomeCounts(coding, len(covariates), store.n_samples)
    phenotypes = tuple(phenotype.name for phenotype in coding.phenotypes)
    for rows in _matched(store, outcomes.pheno, phenotypes):
        counts.add_phenotypes(rows.values, coding.observed(rows.values))
    if outcomes.covar is not None:
        for rows in _matched(store, outcomes.covar, covariates):
            counts.add_covariates(rows.values)
    counts.warn()


def _matched(store: GenotypeStore, path: Path, names: tuple[str, ...]) -> Iterator[MatchedRows]:
    table, people = open_outcome_table(path), store.people_file
    return match_people(table, names, store.samples, level=logging.INFO, people_file=people)
