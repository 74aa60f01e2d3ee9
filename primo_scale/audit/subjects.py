"""Mechanisms that an audit examines, each with the methods that share it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from primo_scale.audit.worst_pairs import N_PHENOTYPES, SPLIT, SUBSAMPLE, audit_bounds
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.methods.catalogue import METHODS, Method, method_named
from primo_scale.privacy.mechanism import Mechanism, Promise, Recipe, calibrate

ALL = "all"
"""Name that stands for every method, privacy unit or adjacency."""


@dataclass(frozen=True)
class Subject:
    """Mechanism calibrated to the bounds of the artificial people, and its methods."""

    methods: tuple[str, ...]
    mechanism: Mechanism


def audit_subjects(
    method: str, privacy: str, adjacency: str, *, epsilon: float, delta: float
) -> Iterator[Subject]:
    """Yield every requested mechanism: method, privacy and adjacency are a name or ``all``.

    A UsageError is raised if the only method has no such privacy, or if the parameters are outside
    the proved range.
    """
    for unit in PrivacyUnit:
        for relation in Adjacency:
            if privacy not in (unit, ALL) or adjacency not in (relation, ALL):
                continue
            promise = Promise(epsilon, delta, unit, relation)
            methods = _methods(method, promise, every_unit=privacy == ALL)
            for by_block in (False, True):
                bounds = audit_bounds(by_block=by_block)
                for recipe, names in _recipes(methods, promise, by_block=by_block).items():
                    mechanism = calibrate(bounds, promise, recipe, split=SPLIT)
                    yield Subject(tuple(names), mechanism)


def _recipes(methods: list[Method], promise: Promise, *, by_block: bool) -> dict[Recipe, list[str]]:
    """Return what the methods measure under a promise, with the names of those that share it."""
    recipes: dict[Recipe, list[str]] = {}
    if by_block and promise.unit is PrivacyUnit.LABEL:
        return recipes  # X'X is public: blocks change nothing
    for method in methods:
        if by_block and method.subsamples:
            continue  # rows of a subsample are not clipped in blocks
        recipe = method.recipe(N_PHENOTYPES, SUBSAMPLE if method.subsamples else None)
        recipes.setdefault(recipe, []).append(method.name)
    return recipes


def _methods(name: str, promise: Promise, *, every_unit: bool) -> list[Method]:
    """Return the requested methods that can keep a promise.

    A single method that cannot is an error, here or when it is calibrated, unless every privacy
    unit was requested.
    """
    if name == ALL:
        fitting = [m for m in METHODS.values() if promise.unit in m.privacy]
        replaced = promise.adjacency is Adjacency.REPLACE_ONE
        return [m for m in fitting if replaced or not m.subsamples]
    if not every_unit or name not in METHODS:
        return [method_named(name, promise.unit)]
    method = METHODS[name]
    return [method] if promise.unit in method.privacy else []
