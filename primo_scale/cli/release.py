"""Genotypes and phenotypes in, a published release out: ``python -m pipelines.gwas_release``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from primo_scale.cli.accumulate import accumulate_stage
from primo_scale.cli.command_line import (
    CONTEXT,
    ContractCommand,
    debug_option,
    explain_errors,
    log_format_option,
    log_to_terminal,
    open_run_log,
)
from primo_scale.cli.finalize import finalize_stage
from primo_scale.cli.options import (
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
from primo_scale.errors import UsageError
from primo_scale.run.choices import RunChoices, choices_from
from primo_scale.run.log_records import LOGGER
from primo_scale.run.purge import is_done_and_purged, purge, warn_of_intermediates
from primo_scale.run.release_choices import private_places, release_choices_from
from primo_scale.run.release_directory import check_private_places

if TYPE_CHECKING:
    from primo_scale.run.choices import ExecutionChoices, ReleaseChoices


_EXAMPLES = """
Examples:

\b
A private release of two chromosomes. With --dry-run added, the same command
checks every input, asks the ledger, and prints what the run needs:
  python -m pipelines.gwas_release --bfile ukb_chr1,ukb_chr2 \\
      --pheno pheno.tsv --pheno-bounds pheno_bounds.tsv \\
      --covar covar.tsv --covar-bounds covar_bounds.tsv \\
      --ref-freq 1000g_eur.afreq --ld-blocks window:500 \\
      --epsilon 3 --delta 1e-11 --out release

\b
A release without noise, to compare with other tools; it protects nobody:
  python -m pipelines.gwas_release --bfile cohort --pheno pheno.tsv \\
      --pheno-bounds pheno_bounds.tsv --ld-blocks window:500 \\
      --non-private --out comparison
"""


@click.command(cls=ContractCommand, context_settings=CONTEXT, epilog=_EXAMPLES)
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
    the release is there already, it says so. Before it reads a genotype it checks all other inputs
    and asks the ledger; with --dry-run it does only that.
    """
    from primo_scale.run.dry_run import NOTHING_REFUSED, check_work_dir, genotypes_to_come
    from primo_scale.run.early_refusals import check_before_work
    from primo_scale.run.estimation import check_method
    from primo_scale.run.work_directory import STORE
    from primo_scale.storage.encryption import use_key_file
    from primo_scale.storage.files import exclusive_lock, make_private_directory

    out = out.absolute()
    if not out.name:
        raise UsageError("is no place for a release", where="--out", value=out)
    use_key_file(options["encryption_key"])
    outcomes, model, execution = choices_from(options)
    release = release_choices_from({"out": out, **options})
    check_method(model, release.methods)
    asked = RunChoices(
        outcomes,
        model,
        execution,
        ledger=release.ledger,
        cohort=release.cohort,
        release=release,
        accept_noise=options["accept_noise"],
    )
    work_dir = work_dir or out.with_name(out.name + ".work")
    _check_places(out, work_dir, execution, release)
    shown = {"out": out, "work_dir": work_dir, **options}
    if execution.dry_run:
        log_to_terminal()
        check_work_dir(work_dir)
        if not is_done_and_purged(work_dir, shown, read_only=True):
            check_before_work(genotypes_to_come(options, work_dir / STORE), work_dir, asked)
        LOGGER.info(NOTHING_REFUSED)
        return
    make_private_directory(work_dir)
    with exclusive_lock(work_dir / "lock"):
        log_to_terminal()
        if is_done_and_purged(work_dir, shown):
            click.echo(f"release: {out}")
            return
        open_run_log(work_dir / "run.log", "gwas_release", shown)
        _run_stages(work_dir, asked, release, options)
        if options["purge_intermediates"]:
            purge(work_dir, out, shown, genotypes=True)
            return
        warn_of_intermediates(work_dir)


def _run_stages(
    work_dir: Path, asked: RunChoices, release: ReleaseChoices, options: dict[str, Any]
) -> None:
    """Check everything, then ingest, sum and publish in a locked work directory."""
    from primo_scale.cli.copy_genotypes import copy_stage
    from primo_scale.cli.ingest import ingest_stage
    from primo_scale.run.design import load_design
    from primo_scale.run.dry_run import genotypes_to_come
    from primo_scale.run.early_refusals import check_before_work
    from primo_scale.run.moments_stage import moments_stage
    from primo_scale.run.work_directory import STORE, claim, work_places

    # The check comes first, because a mistake must not cost hours of ingest or any budget.
    to_come = genotypes_to_come(options, work_dir / STORE)
    matched = check_before_work(to_come, work_dir, asked)
    del to_come  # the tables of people and variants
    store = ingest_stage(options, work_dir / STORE)
    bucket = asked.execution.object_store
    if bucket is not None:
        claim(bucket, work_dir)
        store = copy_stage(store, work_places(work_dir, bucket).genotypes)
    moments = moments_stage(store, asked, work_dir)
    accumulate_stage(store, asked, work_dir, matched=matched, moments=moments)
    finalize_stage(work_dir, load_design(work_dir / "design.json"), release)


def _check_places(
    out: Path, work_dir: Path, execution: ExecutionChoices, release: ReleaseChoices
) -> None:
    """Refuse to keep what is private in the release."""
    places = private_places(work_dir, release)
    if execution.performance_report is not None:  # it counts tasks, hence people
        places["--performance-report"] = work_dir / execution.performance_report
    check_private_places(out, places)


if __name__ == "__main__":
    main()
