"""report.html: the statement of a release as a page for readers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from scipy.special import expit, ndtr, ndtri

from primo_scale.humanize import spent_in_words
from primo_scale.outcomes.ancestry import NO_COMPONENTS, has_components
from primo_scale.publication.document import Document, people_in_words
from primo_scale.publication.scoring import scoring_command_in_lines
from primo_scale.publication.wording import STATISTICS

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
_CALIBRATIONS = {
    "stacked": "X'X, X'Z and Z'Z are parts of one Gram matrix of stacked rows (x, k z), which has "
    "one joint sensitivity; the split t, by k, says how X'X and X'Z share it",
    "by-block": "rows are clipped in every LD block and in total, and one theorem bounds X'X of "
    "all blocks, X'Z and Z'Z jointly; the split t says how X'X and X'Z share",
    "add-remove": "one row at all its bounds moves X'X, X'Z and Z'Z most, so that the squared "
    "shifts of the three add up; the split t is that of X'Z over that of X'X",
    "label": "only what phenotypes enter has noise: X'Y, C'Y and Y'Y, with phenotypes clipped so "
    "that the norm of y and its product with that of x are bounded",
    "subsampled": "X'X is summed over a secret random subsample and is private by amplification; "
    "X'Z and Z'Z of everybody are calibrated jointly and the two are added",
}


def render_report(
    document: Document, *, digest: str, options: Mapping[str, str], public_key: str | None
) -> str:
    """Return a self-contained HTML page without scripts and external resources.

    Parameters
    ----------
    document : dict
        Statement (`primo_scale.publication.document.statement_document`).
    digest : str
        Digest of the statement, which binds the page to release.json.
    options : Mapping of str to str
        Public options in effect.
    public_key : str or None
        Public key of the signature; None for a release that is NOT PRIVATE.
    """
    guarantee, mechanism = document["guarantee"], document["mechanism"]
    return _environment().get_template(_TEMPLATE).render(
        **document,
        digest=digest,
        options=options,
        public_key=public_key,
        people=people_in_words(document),
        command=scoring_command_in_lines(document),
        meaning=_meaning(guarantee) if guarantee else None,
        calibrated=_CALIBRATIONS[mechanism["calibration"]] if mechanism else None,
        attenuations=_attenuations(document),
        structure=_structure(document),
        statistics=STATISTICS,
    )  # fmt: skip


def _meaning(guarantee: Document) -> dict[str, Any]:
    """Return consequences of the guarantee: odds, belief, and power of tests."""
    epsilon = guarantee["epsilon"]
    gaussian = guarantee["cost"]["epsilon"] == 0
    return {
        "neighbour": _NEIGHBOURS[guarantee["privacy"], guarantee["adjacency"]],
        "odds": f"{math.exp(epsilon):.3g}" if epsilon < math.log(1e6) else "more than a million",
        "belief": _percent(float(expit(epsilon))),
        "power": [
            (_percent(alarms), _percent(float(ndtr(ndtri(alarms) + guarantee["mu"]))))
            for alarms in (_FALSE_ALARMS if gaussian else ())
        ],
    }


def _attenuations(document: Document) -> list[dict[str, Any]]:
    """Return the name and the attenuation of every phenotype."""
    factors = document["estimation"]["attenuation"]
    phenotypes = document["public_inputs"]["phenotypes"]
    return [
        {"name": phenotype["name"], "attenuation": factor}
        for phenotype, factor in zip(phenotypes, factors, strict=False)
    ]


def _structure(document: Document) -> str | None:
    """Return the warning for a release without principal components, else None."""
    names = [covariate["name"] for covariate in document["public_inputs"]["covariates"]]
    return None if has_components(names) else NO_COMPONENTS


def _percent(share: float) -> str:
    """Return an upper bound as a percentage, rounded up to three digits, or near 100 to two."""
    if share > 0.9999:
        return "more than 99.99 %"
    if share > 0.99:
        left, unit = _rounded(100 * (1 - share), 2, math.floor)
        return f"{100 - left:.{max(0, -unit)}f} %"
    return f"{_rounded(100 * share, 3, math.ceil)[0]:.4g} %"


def _rounded(value: float, digits: int, towards: Callable[[float], int]) -> tuple[float, int]:
    """Return `value` rounded to some digits, and the power of ten of the last digit."""
    power = math.floor(math.log10(value)) - digits + 1
    return towards(value / 10.0**power) * 10.0**power, power


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
    return environment
