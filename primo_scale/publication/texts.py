"""README.txt and report.html of a release, rendered from release.json by templates beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import cache
from pathlib import Path, PurePath
from textwrap import fill
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from scipy.special import expit, ndtr, ndtri

from primo_scale.humanize import spent_in_words
from primo_scale.outcomes.coding import NO_COMPONENTS, has_components
from primo_scale.publication.weights import scoring_command
from primo_scale.publication.wording import (
    FEW_VARIANTS,
    NO_COMPLETE_CASES,
    RELATIVES,
    accuracies_in_words,
    ancestry_notes,
    few_variants_in_words,
    held_out_cautions,
    held_out_r,
    rests_on_scores,
)
from primo_scale.verify.document import Document, statement_digest
from primo_scale.verify.held_out_accuracy import told_of
from primo_scale.verify.party import half_range, n_rows
from primo_scale.verify.theorems import THEOREMS
from primo_scale.verify.words import STATISTICS, people_in_words

_WIDTH = 100
_FALSE_ALARMS = (0.01, 0.05)


def render_readme(document: Document) -> str:
    """Return README.txt of a release: instructions for scoring, and a list of the files."""
    n_variants = document["cohort"]["n_variants"]
    warnings = [] if document["private"] else [NO_COMPLETE_CASES]
    warnings += [few_variants_in_words(n_variants)] if n_variants <= FEW_VARIANTS else []
    warnings += [f"WARNING: {each}." for each in ancestry_notes(document)]
    scores = document["estimation"]["public_scores"]
    return _template("README.txt").render(
        **document,
        slopes=[(score, slope) for score in scores for slope in score["slopes"]],
        people=people_in_words(document),
        command=" \\\n    ".join(scoring_command(document, PurePath())),
        warnings=warnings,
        accuracies=accuracies_in_words(document),
        cautions=held_out_cautions(document),
    )


def render_party_readme(document: Document) -> str:
    """Return README.txt of a party's release."""
    template = _template("party_README.txt")
    return template.render(**document, rows=n_rows(document), scale=half_range(document))


def render_report(document: Document, public_key: str | None) -> str:
    """Return report.html, a self-contained page without scripts and external resources.

    The digest of the statement binds it to release.json, which the key signs.
    """
    guarantee, mechanism = document["guarantee"], document["mechanism"]
    phenotypes, covariates = (
        [column["name"] for column in document["public_inputs"][kind]]
        for kind in ("phenotypes", "covariates")
    )
    return _template("report.html").render(
        **document,
        digest=statement_digest(document),
        rests_on_scores=rests_on_scores(document),
        relatives=RELATIVES,
        cautions=held_out_cautions(document),
        ancestry=ancestry_notes(document),
        public_key=public_key,
        people=people_in_words(document),
        command=" \\\n  ".join(scoring_command(document, PurePath())),
        meaning=_meaning(guarantee) if guarantee else None,
        calibrated=THEOREMS[mechanism["calibration"]].description if mechanism else None,
        attenuations=zip(phenotypes, document["estimation"]["attenuation"], strict=False),
        components=[name for name in covariates if has_components([name])],
        structure=None if has_components(covariates) else NO_COMPONENTS,
        statistics=STATISTICS,
    )


def _meaning(guarantee: Document) -> dict[str, Any]:
    """Return consequences of the guarantee: odds, guesses, belief, and power of tests.

    A guess between two cohorts of equal probability is right with (1 + TV)/2, where TV is their
    total variation distance: 2 Phi(mu/2) - 1 for Gaussian noise, and otherwise at most
    1 - 2 (1 - delta)/(1 + e^epsilon).
    """
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    gaussian = guarantee["cost"]["epsilon"] == 0
    belief = float(expit(epsilon))
    guess = float(ndtr(guarantee["mu"] / 2)) if gaussian else belief + delta * (1 - belief)
    return {
        "odds": f"{math.exp(epsilon):.3g}" if epsilon < math.log(1e6) else "more than a million",
        "guess": _percent(guess),
        "belief": _percent(belief),
        "power": [
            (_percent(alarms), _percent(float(ndtr(ndtri(alarms) + guarantee["mu"]))))
            for alarms in (_FALSE_ALARMS if gaussian else ())
        ],
    }


def _percent(share: float) -> str:
    """Return an upper bound as a percentage, rounded up to three digits, or near 100 to two."""
    if share > 0.9999:
        return "more than 99.99 %"
    if share > 0.99:
        left = Context(prec=2, rounding=ROUND_FLOOR).plus(Decimal(100 * (1 - share)))
        return f"{100 - left} %"
    return f"{Context(prec=3, rounding=ROUND_CEILING).plus(Decimal(100 * share)).normalize():f} %"


def _significant(value: float) -> str:
    """Return a number with up to six significant digits; release.json has all digits."""
    return f"{value:.6g}"


def _span(values: Sequence[float]) -> str:
    """Return the range of some numbers as text."""
    low, high = _significant(min(values)), _significant(max(values))
    return low if low == high else f"{low} to {high}"


def _template(name: str) -> Template:
    return _environment().get_template(f"{name}.j2")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=lambda name: name == "report.html.j2",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "fill": lambda text: fill(text, _WIDTH),
        "significant": _significant,
        "span": _span,
        "spent": spent_in_words,
        "held_out_r": held_out_r,
        "told_of": told_of,
    }
    return environment
