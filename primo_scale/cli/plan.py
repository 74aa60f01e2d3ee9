"""``primo-scale plan``: forecast a release, and check that it will not be refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.options import release_request_from, whole_release_options
from primo_scale.run.run_log import LOGGER

if TYPE_CHECKING:
    from primo_scale.run.request import AccumulateRequest, ReleaseRequest


def dry_run_of(request: AccumulateRequest | ReleaseRequest) -> None:
    """Check a request, log the forecasts of its run, and change nothing."""
    from primo_scale.run.operations import plan
    from primo_scale.run.purge import is_done_and_purged

    warnings = 0
    if not is_done_and_purged(request, read_only=True):
        warnings = len(plan(request).warnings)
    # The number depends on private values, so that a batch job does not print this line.
    result = f"{warnings} warning{'s' * (warnings > 1)} above" if warnings else "nothing is refused"
    LOGGER.info("dry run: %s, and nothing was changed", result)


@click.command(cls=ContractCommand)
@whole_release_options
def main(**options: Any) -> None:
    """Check a release before any work, and print what it needs and how accurate it will be.

    It is `primo-scale release --dry-run`: it reads headers, tables and the ledger, and changes
    nothing. PRIVATE: the output reveals the number of people.
    """
    dry_run_of(release_request_from(options))
