"""report.html: the statement of a release as a page for readers."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from scipy.special import expit, ndtr, ndtri

from primo_scale.humanize import spent_in_words
from primo_scale.outcomes.ancestry import NO_COMPONENTS, has_components
from primo_scale.privacy.held_out_accuracy import told_of
from primo_scale.publication.document import Document, people_in_words, statement_digest
from primo_scale.publication.pictures import HEIGHT, WIDTH, Panel
from primo_scale.publication.recompute_mechanisms import THEOREMS
from primo_scale.publication.release_log import options_of
from primo_scale.publication.weights import scoring_command_in_lines
from primo_scale.publication.wording import (
    RELATIVES,
    STATISTICS,
    ancestry_notes,
    held_out_cautions,
    held_out_r,
    rests_on_scores,
)

_TEMPLATE = "report.html.j2"
_FALSE_ALARMS = (0.01, 0.05)
# Neighbouring cohorts: ends of "The guarantee compares this cohort with one in which ...".
_NEIGHBOURS = {
    ("full", "replace-one"): "any one person's whole row (all genotypes, covariates and "
    "phenotypes, and which of them are missing) is replaced by any other row",
    ("full", "add-remove"): "any one person is missing, or any one person more takes part",
    ("label", "replace-one"): "any one person's phenotypes (their values and which of them are "
    "missing) are replaced by any others, while everybody's genotypes and covariates are known",
    ("label", "add-remove"): "any one person contributes no phenotype at all, while everybody's "
    "genotypes and covariates are known",
    ("feature", "replace-one"): "any one person's genotypes and covariates are replaced by any "
    "others, while everybody's phenotypes are known",
    ("feature", "add-remove"): "any one person contributes no genotypes and covariates at all, "
    "while everybody's phenotypes are known",
}


def render_report(
    document: Document, *, public_key: str | None, pictures: Mapping[str, Sequence[Panel]]
) -> str:
    """Return a self-contained HTML page without scripts and external resources.

    The digest of the statement binds it to release.json. `pictures` are those of `draw_pictures`.
    """
    guarantee, mechanism = document["guarantee"], document["mechanism"]
    phenotypes, covariates = (
        [column["name"] for column in document["public_inputs"][kind]]
        for kind in ("phenotypes", "covariates")
    )
    return _environment().get_template(_TEMPLATE).render(
        **{"hold_out": None, **document},  # absent in releases of earlier versions
        digest=statement_digest(document),
        rests_on_scores=rests_on_scores(document),
        relatives=RELATIVES,
        cautions=held_out_cautions(document),
        ancestry=ancestry_notes(document),
        options=options_of(document),
        public_key=public_key,
        people=people_in_words(document),
        command=scoring_command_in_lines(document),
        release_command=release_command(document),
        pictures=pictures,
        size=(WIDTH, HEIGHT),
        meaning=_meaning(guarantee) if guarantee else None,
        calibrated=THEOREMS[mechanism["calibration"]].description if mechanism else None,
        attenuations=zip(phenotypes, document["estimation"]["attenuation"], strict=False),
        components=[name for name in covariates if has_components([name])],
        structure=None if has_components(covariates) else NO_COMPONENTS,
        spent=_shares_of_the_budget(document["ledger"]) if document["ledger"] else None,
        statistics=STATISTICS,
    )  # fmt: skip


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
        "neighbour": _NEIGHBOURS[guarantee["privacy"], guarantee["adjacency"]],
        "odds": f"{math.exp(epsilon):.3g}" if epsilon < math.log(1e6) else "more than a million",
        "guess": _percent(guess),
        "belief": _percent(belief),
        "power": [
            (_percent(alarms), _percent(float(ndtr(ndtri(alarms) + guarantee["mu"]))))
            for alarms in (_FALSE_ALARMS if gaussian else ())
        ],
    }


def _shares_of_the_budget(ledger: Document) -> tuple[float, float]:
    """Return the shares of the budget, in mu^2, spent before a release and by it."""
    before, after = (ledger[name]["cost"]["mu_squared"] for name in ("before", "after"))
    budget = ledger["budget"]["mu_squared"]
    first = min(before / budget, 1.0)
    return first, min(after / budget, 1.0) - first


def release_command(document: Document) -> str:
    """Return the command of the release, with words in place of the custodian's files."""
    tables = ["--pheno PHENOTYPES", "--pheno-bounds PHENOTYPE_BOUNDS"]
    public = document["public_inputs"]
    projected = (public.get("pc_loadings") or {"n_components": 0})["n_components"]
    if len(public["covariates"]) > projected:
        tables += ["--covar COVARIATES", "--covar-bounds COVARIATE_BOUNDS"]
    if document.get("hold_out"):
        tables.append("--hold-out SHARE")
    options = options_of(document)
    file = "--pfile" if ("dosages", None) in options else "--bfile"  # .bed has hard calls alone
    words = [f"primo-scale release {file} GENOTYPES", *tables, *map(_as_typed, options)]
    return " \\\n  ".join([*words, "--out RELEASE"])


def _as_typed(option: tuple[str, str | None]) -> str:
    """Return an option as a shell takes it, without the digest of a table of LD blocks."""
    name, value = option
    if value is None:
        return f"--{name}"
    file = value.rpartition(" (SHA-256 ")[0] if name == "ld-blocks" else ""
    return f"--{name} {shlex.quote(file or value)}"


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
    environment.filters["span"] = _span
    environment.filters["spent"] = spent_in_words
    environment.filters["held_out_r"] = held_out_r
    environment.filters["told_of"] = told_of
    return environment
