"""``primo-scale plan``: forecast a release, and check that it will not be refused."""

from __future__ import annotations

from typing import Any

import click

from primo_scale.cli.command_line import (
    CONTEXT,
    ContractCommand,
    debug_option,
    explain_errors,
    log_format_option,
)
from primo_scale.cli.options import (
    encryption_option,
    request_from,
    whole_release_options,
)


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@whole_release_options
@encryption_option
@log_format_option
@debug_option
@explain_errors
def main(**options: Any) -> None:
    """Check a release before any work, and print what it needs and how accurate it will be.

    It is `primo-scale release --dry-run`: it reads headers, tables and the ledger, and changes
    nothing. PRIVATE: the output tells the number of people.
    """
    from primo_scale.cli.dry_run import dry_run_of
    from primo_scale.run.request import ReleaseRequest

    dry_run_of(request_from(ReleaseRequest, options))
