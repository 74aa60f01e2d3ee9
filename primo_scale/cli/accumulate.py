"""Exact statistics of a cohort: ``python -m pipelines.accumulate``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from primo_scale.cli.batch_job import is_batch_output
from primo_scale.cli.command_line import (
    CONTEXT,
    ContractCommand,
    debug_option,
    explain_errors,
    log_format_option,
    log_to_terminal,
    open_run_log,
)
from primo_scale.cli.option_types import PLACE
from primo_scale.cli.options import (
    GENOTYPES,
    budget_options,
    encryption_option,
    execution_options,
    ledger_options,
    model_options,
    outcome_options,
    under,
    work_dir_option,
)
from primo_scale.run.choices import RunChoices, choices_from, outcome_coding
from primo_scale.run.log_records import LOGGER, about, stage
from primo_scale.run.purge import is_done_and_purged

if TYPE_CHECKING:
    from distributed import Client

    from primo_scale.accumulation.partials import Inputs
    from primo_scale.accumulation.statistics import RawStatistics
    from primo_scale.accumulation.summation import RunTasks
    from primo_scale.genotypes.frequencies import MatchedFrequencies
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.run.choices import ExecutionChoices
    from primo_scale.run.design import Design, PaidMoments
    from primo_scale.run.work_directory import WorkPlaces
    from primo_scale.storage.locations import Location


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@under(
    GENOTYPES,
    [
        click.option(
            "--genotypes",
            type=PLACE,
            required=True,
            help="Store written by ingest: a path or an URL.",
        )
    ],
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
def main(genotypes: Location, work_dir: Path, **options: Any) -> None:
    """Sum X'X by LD blocks, X'Z and Z'Z exactly, resumably, on this machine or a Dask cluster.

    The result is private. With --epsilon and --delta, phenotype rows are clipped where it is best
    for a release with that budget; give finalize the same.
    """
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.run.dry_run import NOTHING_REFUSED, check_work_dir
    from primo_scale.run.early_refusals import check_before_work
    from primo_scale.run.moments_stage import moments_stage
    from primo_scale.storage.encryption import use_key_file
    from primo_scale.storage.files import exclusive_lock, make_private_directory

    use_key_file(options["encryption_key"])
    asked = RunChoices(
        *choices_from(options),
        ledger=options["ledger"],
        cohort=options["cohort"],
        release=None,
        accept_noise=options["accept_noise"],
    )
    if asked.execution.dry_run:
        log_to_terminal()
        check_work_dir(work_dir)
        check_before_work(open_genotype_store(genotypes), work_dir, asked)
        LOGGER.info(NOTHING_REFUSED)
        return
    make_private_directory(work_dir)
    with exclusive_lock(work_dir / "lock"):
        is_done_and_purged(work_dir, None)
        shown = {"genotypes": genotypes, "work_dir": work_dir, **options}
        open_run_log(work_dir / "run.log", "accumulate", shown)
        store = open_genotype_store(genotypes)
        matched = check_before_work(store, work_dir, asked)
        moments = moments_stage(store, asked, work_dir)
        accumulate_stage(store, asked, work_dir, matched=matched, moments=moments)


def accumulate_stage(
    store: GenotypeStore,
    asked: RunChoices,
    work_dir: Path,
    *,
    matched: MatchedFrequencies | None,
    moments: PaidMoments | None,
) -> RawStatistics:
    """Settle the design, align the outcomes, and sum what is not summed yet.

    Prints ``statistics sha256: HEX``, which is private: it goes to the operator's terminal and to
    the log, of a batch job to the log alone.

    Parameters
    ----------
    store
        Genotype store.
    asked
        Choices of the command line.
    work_dir
        Work directory, locked by this run.
    matched
        Frequencies of the reference panel, from `check_before_work`.
    moments
        Phenotype means and sds that were paid for, or None.
    """
    from primo_scale.accumulation.partials import Inputs
    from primo_scale.outcomes.store import OutcomeFiles, align_outcomes
    from primo_scale.run.design_choices import make_design
    from primo_scale.run.work_directory import claim, work_places

    outcomes, execution = asked.outcomes, asked.execution
    coding = outcome_coding(outcomes, asked.model, moments)
    design = make_design(store, asked.model, matched=matched, outcomes=coding, moments=moments)
    places = work_places(work_dir, execution.object_store)
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
        clipping_rule=design.clipping_rule,
        subsample=design.subsample,
        digests={
            "genotypes": store.identity_digest,
            "outcomes": aligned.content_digest,
            "design": design.digest,
        },
    )
    raw = _sum(work_dir, places, design, inputs, execution)
    design.save(work_dir / "design.json")
    if not is_batch_output(sys.stdout):
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
    from primo_scale.accumulation.checkpoint import open_partials
    from primo_scale.accumulation.plan import default_plan, plan_digest
    from primo_scale.accumulation.statistics import (
        finished_plan_digest,
        open_raw_statistics,
        remove_partials,
    )
    from primo_scale.accumulation.summation import accumulate
    from primo_scale.run.progress import progress_bar
    from primo_scale.run.work_directory import other_statistics

    plan = default_plan(design.layout, design.n_samples)
    found = finished_plan_digest(places.statistics)
    if found == plan_digest(plan, inputs.to_json()):
        LOGGER.info("the statistics are there already: nothing to sum")
        remove_partials(places.partials)
        return open_raw_statistics(places.statistics, plan.layout, plan.n_samples)
    if found is not None:
        raise other_statistics(places.statistics)
    codes = design.genotypes.code_table
    partials = open_partials(places.partials, plan, inputs, codes, execution.kernel)
    with _task_runner(work_dir, execution) as run_tasks, progress_bar("accumulate") as move:
        raw = accumulate(run_tasks, partials, places.statistics, move)
    remove_partials(places.partials)
    return raw


@contextmanager
def _task_runner(work_dir: Path, execution: ExecutionChoices) -> Iterator[RunTasks]:
    """Give what runs the tasks: threads of this process, or the workers of a cluster."""
    from primo_scale.cluster.profile import ThreadsProfile
    from primo_scale.storage.files import make_private_directory

    if isinstance(execution.profile, ThreadsProfile):
        from primo_scale.accumulation.thread_stream import run_on_threads

        yield partial(run_on_threads, threads=execution.profile.threads)
        return
    from primo_scale.accumulation.engine import run_tasks
    from primo_scale.accumulation.tasks import run_task
    from primo_scale.cluster.connect import dask_client

    scratch = make_private_directory(work_dir.absolute() / "scratch")
    with (
        dask_client(execution.profile, scratch) as client,
        _reported(client, work_dir, execution),
    ):
        yield partial(run_tasks, client, run_task)


def _reported(
    client: Client, work_dir: Path, execution: ExecutionChoices
) -> AbstractContextManager[None]:
    if execution.performance_report is None:
        return nullcontext()
    from primo_scale.cluster.performance import performance_reported

    return performance_reported(client, work_dir.absolute() / execution.performance_report)


if __name__ == "__main__":
    main()
