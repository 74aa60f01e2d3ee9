"""Genotypes and phenotypes in, a published release out: ``python -m pipelines.gwas_release``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.accumulate import accumulate_stage
from pipelines.choices import choices_from, outcome_coding
from pipelines.command_line import (
    CONTEXT,
    LOGGER,
    ContractCommand,
    debug_option,
    explain_errors,
    log_format_option,
    log_to_terminal,
    open_run_log,
)
from pipelines.finalize import (
    check_publishable,
    finalize_stage,
    private_places,
    release_choices_from,
)
from pipelines.options import (
    bfile_option,
    budget_options,
    encryption_option,
    execution_options,
    ledger_options,
    model_options,
    out_option,
    outcome_options,
    release_options,
    selection_options,
    work_dir_option,
)
from pipelines.purge import is_done_and_purged, purge
from pipelines.release_place import check_private_places
from primo_scale.errors import UsageError

if TYPE_CHECKING:
    from pipelines.choices import ExecutionChoices, OutcomeChoices
    from pipelines.design import Design
    from pipelines.design_choices import ModelChoices
    from pipelines.estimation import Chosen
    from pipelines.finalize import ReleaseChoices
    from primo_scale.genotypes.store import GenotypeStore


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@bfile_option
@outcome_options
@budget_options
@out_option("The release directory to publish.")
@selection_options
@model_options
@release_options
@ledger_options
@work_dir_option(required=False)
@execution_options
@encryption_option
@log_format_option
@debug_option
@explain_errors
def main(out: Path, work_dir: Path | None, **options: Any) -> None:
    """Publish differentially private polygenic-score weights of every phenotype.

    Runs ingest, accumulate and finalize. After any interruption the same command continues; when
    the release is there already, it says so. With --dry-run it only says what it would need.
    """
    from pipelines.copy_genotypes import copy_stage
    from pipelines.design import load_design
    from pipelines.estimation import check_method
    from pipelines.ingest import ingest_stage
    from pipelines.phenotype_moments import moments_stage, will_pay_moments
    from pipelines.rehearsal import check_work_dir, genotypes_to_come
    from pipelines.work_places import STORE, claim, work_places
    from primo_scale.storage.encryption import use_key_file
    from primo_scale.storage.files import exclusive_lock, make_private_directory

    out = out.absolute()
    if not out.name:
        raise UsageError("is no place for a release", where="--out", value=out)
    use_key_file(options["encryption_key"])
    outcomes, model, execution = choices_from(options)
    release = release_choices_from({"out": out, **options})
    check_method(model, release.methods)
    work_dir = work_dir or out.with_name(out.name + ".work")
    _check_places(out, work_dir, execution, release)
    if execution.dry_run:
        log_to_terminal()
        check_work_dir(work_dir)
        planned = genotypes_to_come(options, work_dir / STORE)
        design, chosen = _check_release(planned, outcomes, model, release, options)
        _check_room(planned, work_dir, design, chosen, execution)
        return
    make_private_directory(work_dir)
    with exclusive_lock(work_dir / "lock"):
        log_to_terminal()
        shown = {"out": out, "work_dir": work_dir, **options}
        if is_done_and_purged(work_dir, shown):
            click.echo(f"release: {out}")
            return
        open_run_log(work_dir / "run.log", "gwas_release", shown)
        planned = genotypes_to_come(options, work_dir / STORE)
        design, chosen = _check_release(planned, outcomes, model, release, options)
        if not (work_dir / STORE).exists() or will_pay_moments(outcomes, model, work_dir):
            _check_room(planned, work_dir, design, chosen, execution)
        store = ingest_stage(options, work_dir / STORE)
        check_publishable(store.variants, outcome_coding(outcomes, model, None))
        if execution.object_store is not None:
            claim(execution.object_store, work_dir)
            store = copy_stage(store, work_places(work_dir, execution.object_store).genotypes)
        moments = moments_stage(store, outcomes, model, options, work_dir)
        accumulate_stage(store, outcomes, model, execution, work_dir, moments)
        finalize_stage(work_dir, load_design(work_dir / "design.json"), release)
        if options["purge_intermediates"]:
            purge(work_dir, out, shown, genotypes=True)
            return
        LOGGER.info("work directory (private, no longer needed once released): %s", work_dir)


def _check_places(
    out: Path, work_dir: Path, execution: ExecutionChoices, release: ReleaseChoices
) -> None:
    """Refuse to keep what is private in the release."""
    places = private_places(work_dir, release)
    if execution.performance_report is not None:  # it counts tasks, hence people
        places["--performance-report"] = work_dir / execution.performance_report
    check_private_places(out, places)


def _check_release(
    store: GenotypeStore,
    outcomes: OutcomeChoices,
    model: ModelChoices,
    release: ReleaseChoices,
    options: dict[str, Any],
) -> tuple[Design, Chosen]:
    """Refuse what public inputs refuse, before the first genotype is read.

    Phenotype moments are paid for later: the sizes do not depend on them.
    """
    from pipelines.accuracy_forecast import check_before_spending
    from pipelines.estimation import choose
    from pipelines.rehearsal import settled_design

    check_publishable(store.variants, outcome_coding(outcomes, model, None))
    design = settled_design(store, outcomes, model, None)
    promise = None if release.budget is None else design.promise(release.budget)
    chosen = choose(design, promise, release.methods)
    check_before_spending(store, design, chosen, release.budget, options)
    return design, chosen


def _check_room(
    store: GenotypeStore,
    work_dir: Path,
    design: Design,
    chosen: Chosen,
    execution: ExecutionChoices,
) -> None:
    """Refuse a machine that is too small, which hours of ingest would else show."""
    from pipelines.rehearsal import preflight
    from pipelines.release_needs import refuse_small_memory, release_needs

    needs = release_needs(design, chosen)
    preflight(store, design, execution, work_dir, needs)
    refuse_small_memory(needs)


if __name__ == "__main__":
    main()
