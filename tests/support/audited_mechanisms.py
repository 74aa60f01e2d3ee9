"""Mechanisms that the tests of the audit examine."""

from primo_scale.audit.mechanism_audit import SPLIT, audit_bounds
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.privacy.mechanism import Mechanism, Promise, Recipe, calibrate

FULL, LABEL, FEATURE = PrivacyUnit
REPLACE, ADD = Adjacency
EPSILON, DELTA = 3.0, 1e-3
_EVERYTHING_ONCE = Recipe()


def mechanism(
    unit: PrivacyUnit = FULL,
    adjacency: Adjacency = REPLACE,
    *,
    epsilon: float = EPSILON,
    by_block: bool = False,
    recipe: Recipe = _EVERYTHING_ONCE,
    split: float = SPLIT,
) -> Mechanism:
    promise = Promise(epsilon, DELTA, unit, adjacency)
    return calibrate(audit_bounds(by_block=by_block), promise, recipe, split=split)
