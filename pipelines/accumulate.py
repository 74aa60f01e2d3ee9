"""Exact statistics of a cohort: ``python -m pipelines.accumulate``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.choices import choices_from
from pipelines.command_line import (
    CONTEXT,
    LOGGER,
    ContractCommand,
    debug_option,
    explain_errors,
    log_format_option,
    log_to_terminal,
    open_run_log,
    stage,
)
from pipelines.log_lines import about
from pipelines.options import (
    PLACE,
    budget_options,
    encryption_option,
    execution_options,
    ledger_options,
    model_options,
    outcome_options,
    work_dir_option,
)
from pipelines.purge import is_done_and_purged
from primo_scale.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

    from pipelines.choices import ExecutionChoices, OutcomeChoices
    from pipelines.design import Design, PaidMoments
    from pipelines.design_choices import ModelChoices
    from pipelines.work_places import WorkPlaces
    from primo_scale.accumulate.partials import Inputs
    from primo_scale.accumulate.statistics import RawStatistics
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.storage.places import Place


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@click.option(
    "--genotypes", type=PLACE, required=True, help="Store written by ingest: a path or an URL."
)
@outcome_options
@model_options
@budget_options
@ledger_options
@work_dir_option(required=True)
@execution_options
@encryption_option
@log_format_option
@debug_option
@explain_errors
def main(genotypes: Place, work_dir: Path, **options: Any) -> None:
    """Sum X'X by LD blocks, X'Z and Z'Z exactly, resumably, on this machine or a Dask cluster.

    The result is private. With --epsilon and --delta, phenotype rows are clipped where it is best
    for a release with that budget; give finalize the same.
    """
    from pipelines.phenotype_moments import moments_stage, will_pay_moments
    from pipelines.rehearsal import check_work_dir, preflight, settled_design
    from pipelines.release_needs import release_needs
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.storage.encryption import use_key_file
    from primo_scale.storage.files import exclusive_lock, make_private_directory

    use_key_file(options["encryption_key"])
    outcomes, model, execution = choices_from(options)

    def check(store: GenotypeStore, *, needs_room: bool = True) -> None:
        """Say and refuse what public inputs and, with `needs_room`, this machine refuse."""
        design = settled_design(store, outcomes, model, None)
        _check_budget(store, design, outcomes, model, options)
        if needs_room:
            preflight(store, design, execution, work_dir, release_needs(design, None))

    if execution.dry_run:
        log_to_terminal()
        check_work_dir(work_dir)
        store = open_genotype_store(genotypes)
        check(store)
        return
    make_private_directory(work_dir)
    with exclusive_lock(work_dir / "lock"):
        is_done_and_purged(work_dir, None)
        shown = {"genotypes": genotypes, "work_dir": work_dir, **options}
        open_run_log(work_dir / "run.log", "accumulate", shown)
        store = open_genotype_store(genotypes)
        check(store, needs_room=will_pay_moments(outcomes, model, work_dir))
        moments = moments_stage(store, outcomes, model, options, work_dir)
        accumulate_stage(store, outcomes, model, execution, work_dir, moments)


def _check_budget(
    store: GenotypeStore,
    design: Design,
    outcomes: OutcomeChoices,
    model: ModelChoices,
    options: dict[str, Any],
) -> None:
    """Print what a release with the planned budget is worth, and refuse noise.

    The method of the release is not known here: the one that ``auto`` chooses stands for it.
    """
    from pipelines.accuracy_forecast import check_accuracy, check_before_spending
    from pipelines.estimation import MethodChoices, choose

    budget = None if model.non_private else model.budget
    promise = None if budget is None else design.promise(budget)
    chosen = choose(design, promise, MethodChoices("auto", None, None))
    if outcomes.pay_moments:
        check_before_spending(store, design, chosen, budget, options)
        return
    noise = options["accept_noise"]
    check_accuracy(design, store.variants, chosen, budget, accept_noise=noise)


def accumulate_stage(
    store: GenotypeStore,
    outcomes: OutcomeChoices,
    model: ModelChoices,
    execution: ExecutionChoices,
    work_dir: Path,
    moments: PaidMoments | None,
) -> RawStatistics:
    """Align the outcomes, settle the design, and sum what is not summed yet.

    Prints ``statistics sha256: HEX`` (private: it goes to the operator's terminal and log).
    """
    from pipelines.rehearsal import preflight, settled_design
    from pipelines.release_needs import release_needs
    from pipelines.work_places import claim, work_places
    from primo_scale.accumulate.partials import Inputs
    from primo_scale.accumulate.statistics import finished_plan_digest
    from primo_scale.outcomes.store import OutcomeFiles, align_outcomes

    design = settled_design(store, outcomes, model, moments)
    places = work_places(work_dir, execution.object_store)
    if finished_plan_digest(places.statistics) is None:
        preflight(store, design, execution, work_dir, release_needs(design, None))
    if execution.object_store is not None:
        claim(execution.object_store, work_dir)
        design = replace(design, object_store=str(execution.object_store))
    with stage("outcomes"):
        aligned = align_outcomes(
            places.outcomes,
            store.samples,
            OutcomeFiles(
                outcomes.phenotypes.values,
                None if outcomes.covariates is None else outcomes.covariates.values,
            ),
            design.outcomes,
            scratch=work_dir,
        )
    inputs = Inputs(
        genotypes=store.path,
        outcomes=aligned.path,
        row_rule=design.row_rule,
        subsample=design.subsample,
        digests={
            "genotypes": store.identity_digest,
            "outcomes": aligned.content_digest,
            "design": design.digest,
        },
    )
    raw = _sum(work_dir, places, design, inputs, execution)
    design.save(work_dir / "design.json")
    click.echo(f"statistics sha256: {raw.sha256}")
    LOGGER.debug("statistics sha256: %s", raw.sha256, extra=about("summed", {"sha256": raw.sha256}))
    return raw


@stage("accumulate")
def _sum(
    work_dir: Path,
    places: WorkPlaces,
    design: Design,
    inputs: Inputs,
    execution: ExecutionChoices,
) -> RawStatistics:
    from pipelines.progress import progress_bar
    from primo_scale.accumulate.checkpoint import open_partials
    from primo_scale.accumulate.plan import default_plan, plan_digest
    from primo_scale.accumulate.run import accumulate
    from primo_scale.accumulate.statistics import (
        finished_plan_digest,
        open_raw_statistics,
        remove_partials,
    )
    from primo_scale.cluster.connect import dask_client
    from primo_scale.storage.files import make_private_directory

    plan = default_plan(design.layout, design.n_samples)
    found = finished_plan_digest(places.statistics)
    if found == plan_digest(plan, inputs.to_json()):
        LOGGER.info("the statistics are there already: nothing to sum")
        remove_partials(places.partials)
        return open_raw_statistics(places.statistics, plan.layout, plan.n_samples)
    if found is not None:
        raise InputError(
            "there are statistics of other inputs or options",
            where=str(places.statistics),
            remedy="Use another --work-dir, and another --object-store if there is one",
        )
    codes = design.genotypes.code_table
    partials = open_partials(places.partials, plan, inputs, codes, execution.kernel)
    scratch = make_private_directory(work_dir.absolute() / "scratch")
    with (
        dask_client(execution.profile, scratch) as client,
        _reported(client, work_dir, execution),
        progress_bar("accumulate") as move,
    ):
        raw = accumulate(client, partials, places.statistics, move)
    remove_partials(places.partials)
    return raw


def _reported(
    client: Client, work_dir: Path, execution: ExecutionChoices
) -> AbstractContextManager[None]:
    if execution.performance_report is None:
        return nullcontext()
    from primo_scale.cluster.performance import performance_reported

    return performance_reported(client, work_dir.absolute() / execution.performance_report)


if __name__ == "__main__":
    main()
