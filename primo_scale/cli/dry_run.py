"""``--dry-run``: check a request, log what its run needs, and change nothing."""

from __future__ import annotations

from primo_scale.run.log_records import LOGGER
from primo_scale.run.operations import plan
from primo_scale.run.purge import is_done_and_purged
from primo_scale.run.request import AccumulateRequest, ReleaseRequest

NOTHING_REFUSED = "dry run: nothing is refused, and nothing was changed"
"""Last line of a dry run that finds nothing wrong."""


def dry_run_of(request: AccumulateRequest | ReleaseRequest) -> None:
    """Check a request and log the forecasts of its run."""
    if not is_done_and_purged(request, read_only=True):
        plan(request)
    LOGGER.info(NOTHING_REFUSED)
