"""Options of a release, read from the command line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primo_scale.errors import UsageError
from primo_scale.run.choices import ReleaseChoices, budget_from
from primo_scale.run.release_directory import check_out

if TYPE_CHECKING:
    pass


def release_choices_from(options: dict[str, Any]) -> ReleaseChoices:
    """Read the options of a release.

    Raises
    ------
    UsageError
        No (epsilon, delta) for a private release, or both for one without noise; a ridge that is
        no penalty.
    InputError
        Something that is no release lies at ``--out``.
    """
    from primo_scale.run.estimation import MethodChoices

    check_out(options["out"])
    budget = budget_from(options)
    if budget is None and not options["non_private"]:
        raise UsageError(
            "a private release needs --epsilon and --delta",
            remedy="Give both, or --non-private for a validation run that protects nobody",
        )
    return ReleaseChoices(
        out=options["out"],
        budget=budget,
        methods=MethodChoices(
            options["method"], options["shrinkage"], _ridge_from(options["ridge"])
        ),
        ledger=options["ledger"],
        cohort=options["cohort"],
        genome_build=options["genome_build"],
    )


def private_places(work_dir: Path, choices: ReleaseChoices) -> dict[str, Path]:
    """Where a release writes what it must not publish, by option."""
    from primo_scale.ledger.ledger import default_ledger_path

    return {"--work-dir": work_dir, "--ledger": choices.ledger or default_ledger_path()}


def _ridge_from(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(
            "the ridge is neither auto nor a penalty", where="--ridge", value=text, limit=">= 0"
        )
    return value
