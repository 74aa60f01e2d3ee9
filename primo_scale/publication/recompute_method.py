"""What a stated method measures, how it may solve, and what must have drawn its noise.

Shares no code with the methods themselves: only data, so that a release that calls itself by a
method's name without having done what it does is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from primo_scale.publication import samplers

Document = Mapping[str, Any]

# Earlier versions drew fewer numbers with OpenDP, unless they were of a subsample.
_KEYSTREAM_FROM_DRAWS = 100_000
_RIDGE = "ridge"
_BY_NUMBERS_OF_A_PRIOR = ("known-noise", "ridge-at-noise-norm", "sure", "james-stein")
_OF_A_PROJECTION = ("projection_multiplier", "projection_radius")

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "known-noise": ("effect_variance", "residual_variance"),
    "ridge-at-noise-norm": ("prior_penalty",),
    "sure": ("prior_penalty",),
    "james-stein": ("prior_penalty",),
    _RIDGE: (),
    "projection": _OF_A_PROJECTION,
    "unit-ridge": (),
    "ridge-beyond-smallest-eigenvalue": ("smallest_eigenvalue_bound",),
}
"""The numbers that each estimator states."""


@dataclass(frozen=True)
class Does:
    """What a method does.

    Attributes
    ----------
    privacy
        Units it is for.
    estimators
        How it may solve.
    measures_eigenvalue
        Whether a share of the statistics' mu^2 buys the smallest eigenvalue of X'X.
    copies_each
        Whether every phenotype has an X'X of its own.
    subsamples
        Whether X'X is summed over a subsample.
    parameters
        Numbers that it states beside the estimator's.
    """

    privacy: tuple[str, ...]
    estimators: tuple[str, ...]
    measures_eigenvalue: bool = False
    copies_each: bool = False
    subsamples: bool = False
    parameters: tuple[str, ...] = ()


_EVERY = ("full", "label", "feature")
_GENOTYPES = ("full", "feature")
_OPEN = (*_BY_NUMBERS_OF_A_PRIOR, _RIDGE)
_EIGENVALUE = ("ridge-beyond-smallest-eigenvalue",)

METHODS: Mapping[str, Does] = {
    "reuse-cov-gauss": Does(_EVERY, _OPEN),
    "reuse-cov-proj-x": Does(("label",), ("projection",)),
    "reuse-cov-proj-y": Does(("feature",), _OPEN, parameters=_OF_A_PROJECTION),
    "reuse-cov-proj": Does(("full",), ("projection",)),
    "sub-samp-reuse-cov": Does(_GENOTYPES, _OPEN, subsamples=True),
    "ssp": Does(_GENOTYPES, ("unit-ridge",)),
    "ada-ssp": Does(_GENOTYPES, _EIGENVALUE, measures_eigenvalue=True),
    "ada-ssp-budget": Does(_GENOTYPES, _EIGENVALUE, measures_eigenvalue=True),
    "const-ssp-full": Does(_GENOTYPES, _EIGENVALUE),
    "naive": Does(_GENOTYPES, _OPEN, copies_each=True),
}
"""docs/methods.md as data."""


def method_problems(document: Document) -> list[str]:
    """Where the mechanism of a private release is not that of the method it names."""
    mechanism, name = document["mechanism"], document["mechanism"]["method"]
    does = METHODS.get(name)
    if does is None:
        return [f"there is no method {name}"]
    copies = document["cohort"]["n_phenotypes"] if does.copies_each else 1
    share, subsample = mechanism["eigenvalue_share"], mechanism["subsample"]
    problems = []
    if document["guarantee"]["privacy"] not in does.privacy:
        problems.append(f"{name} is not for {document['guarantee']['privacy']} privacy")
    if not (0 < share < 1 if does.measures_eigenvalue else share == 0):
        allowed = "more than 0 and less than 1" if does.measures_eigenvalue else "0"
        problems.append(f"{name} spends a share of {allowed} on an eigenvalue, not {share:.6g}")
    if mechanism["gram_copies"] != copies:
        problems.append(f"{name} makes {copies} copies of X'X, not {mechanism['gram_copies']}")
    if (subsample is not None) != does.subsamples:
        problems.append(f"{name} with a subsample of {subsample}")
    return problems


def estimation_problems(document: Document) -> list[str]:
    """Where the estimator is none of the method's, or states other numbers than its own.

    A number of another name would be one that nothing accounts for.
    """
    estimation, mechanism = document["estimation"], document["mechanism"]
    estimator = estimation["estimator"]
    # Without noise there is nothing to choose a penalty by.
    does = METHODS.get(mechanism["method"]) if mechanism else Does(_EVERY, (_RIDGE,))
    if does is None:
        return []
    if estimator not in does.estimators:
        return [f"{estimator} is none of {', '.join(does.estimators)}"]
    expected = {*PARAMETERS[estimator], *does.parameters}
    if estimation["parameters"].keys() == expected:
        return []
    found = ", ".join(estimation["parameters"]) or "none"
    return [f"parameters are {found}; {estimator} has {', '.join(sorted(expected)) or 'none'}"]


def drawing_problems(document: Document, draws: int) -> list[str]:
    """Return where the sampler is none that is proved and that a version uses for such a release.

    Parameters
    ----------
    document
        A private release.json that follows its schema.
    draws
        Noisy numbers in its statistics, phenotype moments not counted.
    """
    mechanism = document["mechanism"]
    by_key = draws >= _KEYSTREAM_FROM_DRAWS or mechanism["subsample"] is not None
    of_old = samplers.OPENDP
    if by_key:
        of_old = samplers.KEYSTREAM_AND_OPENDP if mechanism["share"] < 1 else samplers.KEYSTREAM
    drawn = {each.name: each for each in (of_old, samplers.KEYSTREAM)}.get(mechanism["sampler"])
    if drawn is None:
        return [f"sampler is stated as {mechanism['sampler']!r}, none that draws {draws} numbers"]
    expected = {"sampler_exactness": drawn.exactness, "rng": drawn.rng}
    return [
        f"{name} is stated as {mechanism[name]!r}, the sampler implies {words!r}"
        for name, words in expected.items()
        if mechanism[name] != words
    ]
