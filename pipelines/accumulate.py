"""Exact statistics of a cohort: ``python -m pipelines.accumulate``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.command_line import (
    CONTEXT,
    DIRECTORY,
    LOGGER,
    ContractCommand,
    debug_option,
    explain_errors,
    open_run_log,
)
from pipelines.options import (
    budget_options,
    execution_options,
    model_options,
    outcome_options,
    work_dir_option,
)
from primo_scale.errors import InputError, UsageError

if TYPE_CHECKING:
    from pipelines.design import Budget, Design, ModelChoices
    from primo_scale.accumulate.partials import Inputs
    from primo_scale.accumulate.plan import Plan
    from primo_scale.accumulate.statistics import RawStatistics
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.outcomes.bounds import CovariateBounds
    from primo_scale.outcomes.coding import OutcomeCoding


@dataclass(frozen=True)
class BoundedTable:
    """A table of phenotypes or covariates, and the public bounds of its columns."""

    values: Path
    bounds: Path


@dataclass(frozen=True)
class OutcomeChoices:
    """Phenotypes and covariates as given on the command line; no names means every column."""

    phenotypes: BoundedTable
    covariates: BoundedTable | None
    phenotype_names: tuple[str, ...] | None


@dataclass(frozen=True)
class ExecutionChoices:
    """Where tasks run, as given on the command line."""

    scheduler: str | None
    workers: int | None
    memory_limit: str | None


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@click.option("--genotypes", type=DIRECTORY, required=True, help="Store written by ingest.")
@outcome_options
@model_options
@budget_options
@work_dir_option(required=True)
@execution_options
@debug_option
@explain_errors
def main(genotypes: Path, work_dir: Path, **options: Any) -> None:
    """Sum X'X by LD blocks, X'Z and Z'Z exactly, resumably, on this machine or a Dask cluster.

    The result is private. With --epsilon and --delta, phenotype rows are clipped where it is best
    for a release with that budget; give finalize the same.
    """
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.storage.files import exclusive_lock, make_private_directory

    outcomes, model, execution = choices_from(options)
    make_private_directory(work_dir)
    with exclusive_lock(work_dir / "lock"):
        shown = {"genotypes": genotypes, "work_dir": work_dir, **options}
        open_run_log(work_dir / "run.log", "accumulate", shown)
        accumulate_stage(open_genotype_store(genotypes), outcomes, model, execution, work_dir)


def choices_from(
    options: dict[str, Any],
) -> tuple[OutcomeChoices, ModelChoices, ExecutionChoices]:
    """Sort the options of the command line into what they are about.

    Raises
    ------
    UsageError
        No bounds, or epsilon and delta that no release could have.
    """
    from pipelines.design import ModelChoices

    outcomes = OutcomeChoices(
        phenotypes=_bounded(options, "pheno"),
        covariates=None if options["covar"] is None else _bounded(options, "covar"),
        phenotype_names=options["pheno_name"],
    )
    model = ModelChoices(
        ref_freq=options["ref_freq"],
        ld_blocks=options["ld_blocks"],
        row_norm=options["row_norm"],
        budget=budget_from(options),
        non_private=options["non_private"],
    )
    execution = ExecutionChoices(
        **{name: options[name] for name in ExecutionChoices.__dataclass_fields__}
    )
    return outcomes, model, execution


def budget_from(options: dict[str, Any]) -> Budget | None:
    """The (epsilon, delta) asked for, or None; refused here if no release could have them."""
    from pipelines.design import Budget
    from primo_scale.privacy.calibration import release_mu

    epsilon, delta = options["epsilon"], options["delta"]
    if epsilon is None and delta is None:
        return None
    if epsilon is None or delta is None:
        raise UsageError("--epsilon and --delta go together", remedy="Give both")
    release_mu(epsilon, delta)
    return Budget(epsilon, delta)


def accumulate_stage(
    store: GenotypeStore,
    outcomes: OutcomeChoices,
    model: ModelChoices,
    execution: ExecutionChoices,
    work_dir: Path,
) -> RawStatistics:
    """Align the outcomes, settle the design, and sum what is not summed yet.

    Prints ``statistics sha256: HEX`` (private: it goes to the operator's terminal and log).
    """
    from pipelines.design import make_design, match_frequencies
    from primo_scale.accumulate.partials import Inputs
    from primo_scale.accumulate.plan import default_plan
    from primo_scale.outcomes.store import OutcomeFiles, align_outcomes

    coding = outcome_coding(outcomes, model)
    matched = match_frequencies(model, store.variants)
    if matched is not None:
        LOGGER.info(
            "--ref-freq: %d variants matched (%d with alleles swapped, %d on the other strand, "
            "%d strand-ambiguous and taken as labelled), %d with other alleles, %d absent",
            matched.n_matched, matched.n_swapped, matched.n_flipped,
            matched.n_ambiguous, matched.n_mismatched, matched.n_absent,
        )  # fmt: skip
    aligned = align_outcomes(
        work_dir / "outcomes.zarr",
        store.samples,
        OutcomeFiles(
            outcomes.phenotypes.values,
            None if outcomes.covariates is None else outcomes.covariates.values,
        ),
        coding,
    )
    design = make_design(store, model, matched=matched, outcomes=coding)
    plan = default_plan(design.layout, design.n_samples)
    inputs = Inputs(
        genotypes=store.path,
        outcomes=aligned.path,
        row_norm=design.row_norm if design.clipped else None,
        phenotype_norm=design.phenotype_norm if design.clipped else None,
        digests={
            "genotypes": store.identity_digest,
            "outcomes": aligned.content_digest,
            "design": design.digest,
        },
    )
    raw = _sum(work_dir, design, plan, inputs, execution)
    design.save(work_dir / "design.json")
    click.echo(f"statistics sha256: {raw.sha256}")
    return raw


def _sum(
    work_dir: Path, design: Design, plan: Plan, inputs: Inputs, execution: ExecutionChoices
) -> RawStatistics:
    from pipelines.progress import progress_bar
    from primo_scale.accumulate.engine import ClusterOptions, dask_client
    from primo_scale.accumulate.partials import open_partials
    from primo_scale.accumulate.plan import plan_digest
    from primo_scale.accumulate.preflight import (
        needs_of,
        refuse_if_too_small,
        refuse_small_workers,
    )
    from primo_scale.accumulate.run import accumulate
    from primo_scale.accumulate.statistics import (
        finished_plan_digest,
        open_raw_statistics,
        remove_partials,
    )
    from primo_scale.machine import usable_cpus

    finished, partials_path = work_dir / "statistics.zarr", work_dir / "partials.zarr"
    found = finished_plan_digest(finished)
    if found == plan_digest(plan, inputs.to_json()):
        LOGGER.info("the statistics are there already: nothing to sum")
        remove_partials(partials_path)
        return open_raw_statistics(finished, plan.layout, plan.n_samples)
    if found is not None:
        raise InputError(
            "the work directory holds statistics of other inputs or options",
            where=finished,
            remedy="Use another --work-dir, or remove this one to start afresh",
        )
    needs = needs_of(plan)
    LOGGER.info(
        "accumulate: %d tasks, up to %.2f GiB of disk, %.2f GiB of memory a worker",
        needs.tasks, needs.disk_bytes / 2**30, needs.worker_bytes / 2**30,
    )  # fmt: skip
    workers = execution.workers or usable_cpus()
    refuse_if_too_small(needs, work_dir, 0 if execution.scheduler else workers)
    refuse_small_workers(needs, execution.memory_limit)
    partials = open_partials(partials_path, plan, inputs, design.genotypes.code_table)
    options = ClusterOptions(
        execution.scheduler, workers, execution.memory_limit, work_dir / "scratch"
    )
    with dask_client(options) as client, progress_bar("accumulate") as move:
        raw = accumulate(client, partials, finished, move)
    remove_partials(partials_path)
    return raw


def outcome_coding(outcomes: OutcomeChoices, model: ModelChoices) -> OutcomeCoding:
    """Public coding of the columns asked for, from headers and bounds alone."""
    from pipelines.design import outcome_weight
    from primo_scale.outcomes.bounds import read_covariate_bounds, read_phenotype_bounds
    from primo_scale.outcomes.coding import code_outcomes
    from primo_scale.outcomes.tables import open_outcome_table

    table = outcomes.phenotypes
    names = outcomes.phenotype_names or open_outcome_table(table.values).names
    if not names:
        raise InputError("holds no phenotype", where=table.values, remedy="Add a column")
    phenotypes = read_phenotype_bounds(table.bounds, names)
    covariates: tuple[CovariateBounds, ...] = ()
    if outcomes.covariates is not None:
        columns = open_outcome_table(outcomes.covariates.values).names
        covariates = read_covariate_bounds(outcomes.covariates.bounds, columns)
    weight = outcome_weight(len(phenotypes), len(covariates), model)
    return code_outcomes(phenotypes, covariates, weight=weight)


def _bounded(options: dict[str, Any], table: str) -> BoundedTable:
    if options[f"{table}_bounds"] is None:
        raise UsageError(
            "public bounds are needed, since bounds taken from the data would be private",
            where=f"--{table}-bounds",
            remedy="Give a table of name, lower and upper for every column",
        )
    return BoundedTable(options[table], options[f"{table}_bounds"])


if __name__ == "__main__":
    main()
