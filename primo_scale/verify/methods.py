"""Checks of a stated method: its statistics and its estimator.

The module shares no code with the methods. Its tables describe them, so that a release with the
name of a method but other properties is detected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from primo_scale.verify.document import Document

_OF_A_PROJECTION = ("projection_multiplier", "projection_radius")
_OF_FITTED_EFFECTS = (
    "effect_variance",
    "residual_variance",
    "genetic_factors",
    "point_normal_columns",
)

# Estimators that a user may choose, and the numbers that each states.
_OPEN: Mapping[str, tuple[str, ...]] = {
    "known-noise": ("effect_variance", "residual_variance"),
    "effect-variances": ("effect_variance", "residual_variance"),
    "genetic-factors": _OF_FITTED_EFFECTS,
    "point-normal": _OF_FITTED_EFFECTS,
    "ridge": (),
}
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **_OPEN,
    "projection": _OF_A_PROJECTION,
    "unit-ridge": (),
    "ridge-beyond-smallest-eigenvalue": ("smallest_eigenvalue_bound",),
}
"""Names of the parameters of each estimator."""
WITHOUT_PENALTIES = ("known-noise", "effect-variances", "genetic-factors", "point-normal")
"""Estimators that are no ridge."""


@dataclass(frozen=True)
class MethodFacts:
    """Privacy units, estimators and other properties of a method."""

    privacy: tuple[str, ...]
    estimators: tuple[str, ...]
    # Whether a share of the statistics' mu^2 is spent on the smallest eigenvalue of X'X.
    measures_eigenvalue: bool = False
    copies_each: bool = False  # whether every phenotype has a separate X'X
    subsamples: bool = False  # whether X'X is summed over a subsample
    parameters: tuple[str, ...] = ()  # names of parameters besides those of the estimator


_NOISELESS = ("point-normal", "effect-variances", "ridge")
"""Estimators without noise, the first also for LD components; others choose by the noise."""
BUILD_ON_SCORES = ("reuse-cov-gauss", "sub-samp-reuse-cov")
"""Methods for which public scores can be the prior mean of the effects."""
_EVERY = ("full", "label", "feature")
_GENOTYPES = ("full", "feature")
_EIGENVALUE = ("ridge-beyond-smallest-eigenvalue",)

METHODS: Mapping[str, MethodFacts] = {
    "reuse-cov-gauss": MethodFacts(_EVERY, tuple(_OPEN)),
    "reuse-cov-proj-x": MethodFacts(("label",), ("projection",)),
    "reuse-cov-proj-y": MethodFacts(("feature",), tuple(_OPEN), parameters=_OF_A_PROJECTION),
    "reuse-cov-proj": MethodFacts(("full",), ("projection",)),
    "sub-samp-reuse-cov": MethodFacts(_GENOTYPES, tuple(_OPEN), subsamples=True),
    "ssp": MethodFacts(_GENOTYPES, ("unit-ridge",)),
    "ada-ssp": MethodFacts(_GENOTYPES, _EIGENVALUE, measures_eigenvalue=True),
    "ada-ssp-budget": MethodFacts(_GENOTYPES, _EIGENVALUE, measures_eigenvalue=True),
    "const-ssp-full": MethodFacts(_GENOTYPES, _EIGENVALUE),
    "naive": MethodFacts(_GENOTYPES, tuple(_OPEN), copies_each=True),
}
"""Properties of every method of docs/methods.md."""


def method_problems(document: Document) -> list[str]:
    """Return the differences between a mechanism and the method that it names."""
    mechanism, name = document["mechanism"], document["mechanism"]["method"]
    facts = METHODS.get(name)
    if facts is None:
        return [f"there is no method {name}"]
    copies = document["cohort"]["n_phenotypes"] if facts.copies_each else 1
    share, subsample = mechanism["eigenvalue_share"], mechanism["subsample"]
    problems = []
    if document["guarantee"]["privacy"] not in facts.privacy:
        problems.append(f"{name} does not have {document['guarantee']['privacy']} privacy")
    if not (0 < share < 1 if facts.measures_eigenvalue else share == 0):
        allowed = "more than 0 and less than 1" if facts.measures_eigenvalue else "0"
        problems.append(f"{name} spends a share of {allowed} on an eigenvalue, not {share:.6g}")
    if mechanism["gram_copies"] != copies:
        problems.append(f"{name} makes {copies} copies of X'X, not {mechanism['gram_copies']}")
    if (subsample is not None) != facts.subsamples:
        problems.append(f"{name} has a subsample of {subsample}")
    return problems


def estimation_problems(document: Document) -> list[str]:
    """Return the differences between an estimation and its method and estimator.

    A parameter with another name is a problem, because its origin is unknown.
    """
    estimation, mechanism = document["estimation"], document["mechanism"]
    estimator = estimation["estimator"]
    noiseless = _NOISELESS[:1] if document["cohort"]["component_sizes"] else _NOISELESS
    facts = METHODS.get(mechanism["method"]) if mechanism else MethodFacts(_EVERY, noiseless)
    if facts is None:
        return []
    if estimator not in facts.estimators:
        return [f"estimator is {estimator}, not one of {', '.join(facts.estimators)}"]
    problems = _score_problems(document)
    expected = {*PARAMETERS[estimator], *facts.parameters}
    if estimation["parameters"].keys() != expected:
        found = ", ".join(estimation["parameters"]) or "none"
        allowed = ", ".join(sorted(expected)) or "none"
        problems.append(f"parameters are {found}; {estimator} has {allowed}")
    penalties = set(estimation["penalties"])
    if estimator == "ridge" and (len(penalties) > 1 or min(penalties, default=0) < 0):
        problems.append("ridge has one penalty of at least 0, the same in every LD block")
    return problems


def _score_problems(document: Document) -> list[str]:
    """Return the contradictions of the public scores with the method and the phenotypes."""
    scores = document["estimation"].get("public_scores", [])
    if not scores:
        return []
    mechanism, n_variants = document["mechanism"], document["cohort"]["n_variants"]
    names = {phenotype["name"] for phenotype in document["public_inputs"]["phenotypes"]}
    problems = []
    if mechanism and mechanism["method"] not in BUILD_ON_SCORES:
        problems.append(f"{mechanism['method']} does not build on public scores")
    for score in scores:
        file, phenotypes = score["file"], [slope["phenotype"] for slope in score["slopes"]]
        if len(set(phenotypes)) != len(phenotypes) or not names.issuperset(phenotypes):
            problems.append(f"slopes on {file} are not of distinct phenotypes of the release")
        if score["n_matched"] > min(score["n_variants"], n_variants):
            problems.append(f"{file} matches more variants than there are")
    return problems
