"""``primo-scale accumulate``: exact statistics of a cohort."""

from __future__ import annotations

from typing import Any

import click

from primo_scale.cli.command_line import GENOTYPES, ContractCommand, log_format_option, under
from primo_scale.cli.genotype_options import store_option
from primo_scale.cli.options import (
    budget_options,
    dry_run_option,
    encryption_option,
    execution_options,
    ledger_options,
    model_options,
    outcome_options,
    request_from,
    work_dir_option,
)


@click.command(cls=ContractCommand)
@under(GENOTYPES, store_option())
@outcome_options
@model_options
@budget_options
@ledger_options
@work_dir_option(required=True)
@execution_options
@dry_run_option
@encryption_option
@log_format_option
def main(dry_run: bool, **options: Any) -> None:
    """Sum X'X by LD blocks, X'Z and Z'Z exactly, resumably, on this machine or a Dask cluster.

    The result is private. Unless --non-private is given, this pays for the whole release, because
    phenotypes are first adjusted for covariates with noise; give finalize the same --epsilon and
    --delta.
    """
    from primo_scale.cli.plan import dry_run_of
    from primo_scale.run.operations import accumulate
    from primo_scale.run.request import AccumulateRequest

    request = request_from(AccumulateRequest, options)
    if dry_run:
        dry_run_of(request)
        return
    accumulate(request)
