"""Mechanisms that an audit examines: which were asked for, and which methods share one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from primo_scale.audit.worst_pairs import N_PHENOTYPES, SPLIT, SUBSAMPLE, audit_bounds
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.methods.catalogue import METHODS, Method, method_named
from primo_scale.privacy.mechanism import Mechanism, Promise, Recipe
from primo_scale.privacy.scales import calibrate

ALL = "all"
"""Value of an option that asks for every method, unit or adjacency."""


@dataclass(frozen=True)
class AuditChoices:
    """What to audit.

    Attributes
    ----------
    method, privacy, adjacency
        A name of each, or ``all``.
    epsilon, delta
        Privacy parameters of every mechanism.
    """

    method: str
    privacy: str
    adjacency: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Subject:
    """A mechanism to audit.

    Attributes
    ----------
    methods
        Names of the methods that release it.
    mechanism
        Mechanism calibrated to the invented people's bounds.
    """

    methods: tuple[str, ...]
    mechanism: Mechanism


def audit_subjects(choices: AuditChoices) -> Iterator[Subject]:
    """Every mechanism that was asked for, methods that share one together."""
    for unit in PrivacyUnit:
        for adjacency in Adjacency:
            if choices.privacy not in (unit, ALL) or choices.adjacency not in (adjacency, ALL):
                continue
            promise = Promise(choices.epsilon, choices.delta, unit, adjacency)
            for by_block in (False, True):
                bounds = audit_bounds(by_block=by_block)
                for recipe, methods in _recipes(choices, promise, by_block=by_block).items():
                    mechanism = calibrate(bounds, promise, recipe, split=SPLIT)
                    yield Subject(tuple(methods), mechanism)


def _recipes(choices: AuditChoices, promise: Promise, *, by_block: bool) -> dict[Recipe, list[str]]:
    """What the methods measure under a promise, and which measure the same."""
    recipes: dict[Recipe, list[str]] = {}
    if by_block and promise.privacy is PrivacyUnit.LABEL:
        return recipes  # X'X is public: blocks change nothing
    for method in _methods(choices, promise):
        if by_block and method.subsamples:
            continue  # rows of a subsample are not clipped in blocks
        recipe = method.recipe(N_PHENOTYPES, SUBSAMPLE if method.subsamples else None)
        recipes.setdefault(recipe, []).append(method.name)
    return recipes


def _methods(choices: AuditChoices, promise: Promise) -> list[Method]:
    """The methods that were asked for and can keep a promise.

    A single one that cannot is an error, here or when it is calibrated, unless every kind of
    privacy was asked for.
    """
    if choices.method == ALL:
        fitting = [m for m in METHODS.values() if promise.privacy in m.privacy]
        replaced = promise.adjacency is Adjacency.REPLACE_ONE
        return [m for m in fitting if replaced or not m.subsamples]
    if choices.privacy != ALL or choices.method not in METHODS:
        return [method_named(choices.method, promise.privacy)]
    method = METHODS[choices.method]
    return [method] if promise.privacy in method.privacy else []
