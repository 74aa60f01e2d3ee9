"""report.html: the statement of a release for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from primo_scale.release.statement import Document

_TEMPLATE = "report.html.j2"


def render_report(document: Document, *, digest: str, options: Mapping[str, str]) -> str:
    """One self-contained HTML page: no script, no resource from anywhere else.

    Parameters
    ----------
    document
        The statement (`primo_scale.release.statement.statement_document`).
    digest
        Its digest, which ties the page to release.json.
    options
        Public options in effect, name to value.
    """
    guarantee: dict[str, Any] | None = document["guarantee"]
    return _environment().get_template(_TEMPLATE).render(
        **document,
        digest=digest,
        options=options,
        odds_factor=_odds_factor(guarantee["epsilon"]) if guarantee else None,
    )  # fmt: skip


def _odds_factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < math.log(1e6) else "more than a million"


def _significant(value: float) -> str:
    """Up to six significant digits, for people; release.json has every digit."""
    return f"{value:.6g}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["significant"] = _significant
    return environment
