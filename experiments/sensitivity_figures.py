"""Savings of the joint calibration of (X'X, X'Y) (docs/maths/gram.md).

Sigmas in units of Bx^2 (X'X) and Bx By (X'Y), replace-one, eps = 5, delta = 1/5008^2.
"""

from __future__ import annotations

import math

from experiments import papers_constants as papers
from experiments.accounting import zcdp_sigma
from experiments.calibration_figures import DELTA, EPSILON
from experiments.figures import Figure
from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import mu_for, optimal_split
from primo_scale.gaussian.sensitivity import Adjacency

_REPLACE = Adjacency.REPLACE_ONE
# a/b of the example of gram.md: d = 800 variants, one phenotype.
_MANY_VARIANTS_RATIO = 23.0


def joint_scales(split: float, mu: float) -> tuple[float, float]:
    """Return the sigmas of X'X and X'Y under one joint calibration at ``t = split``."""
    gram = sensitivity.stacked(1, split) / mu
    return gram, gram / math.sqrt(split)


def calibrations() -> list[Figure]:
    """Return the sizes of docs/maths/gram.md, loosest first."""
    gram, cross = sensitivity.gram(1, _REPLACE), sensitivity.cross(1, 1, _REPLACE)
    c = papers.primo_c(EPSILON / 2, DELTA / 2)
    half = mu_for(EPSILON / 2, DELTA / 2)
    mu = mu_for(EPSILON, DELTA)
    marginal = math.sqrt(2) * gram / mu, math.sqrt(2) * cross / mu
    rows = (
        ("paper's c, half the budget each", (gram * c, cross * c), "3.60", "5.09"),
        ("exact profile, half the budget each", (gram / half, cross / half), "2.98", "4.21"),
        ("exact profile, marginal sensitivities, half of mu^2 each", marginal, "2.19", "3.09"),
        ("joint, t = 1", joint_scales(1.0, mu), "2.32", "2.32"),
        ("joint, t = 2", joint_scales(2.0, mu), "3.09", "2.19"),
    )
    figures = []
    for name, (on_gram, on_cross), stated_gram, stated_cross in rows:
        figures += [
            Figure(f"{name}: X'X", on_gram, stated_gram),
            Figure(f"{name}: X'Y", on_cross, stated_cross),
        ]
    surplus = 100 * (zcdp_sigma(EPSILON, DELTA) * mu - 1)
    return [*figures, Figure("discrete Gaussian by zCDP: more noise, per cent", surplus, "5.2")]


def split_claim() -> list[Figure]:
    """Return the figures of d = 800, l = 1 (a/b = 23): the best t, and the excess at t = 2."""
    best = optimal_split(_MANY_VARIANTS_RATIO, 1.0, _REPLACE)
    ratio = first_order_loss(2.0) / first_order_loss(best)
    return [
        Figure("a/b = 23: optimal split t", best, "0.2"),
        Figure("a/b = 23: excess at t = 2 over the excess there", ratio, "2.8"),
    ]


def first_order_loss(split: float) -> float:
    """Return ``a/A + b/D`` at a/b = 23, in units of ``b / mu^2``."""
    gram, cross = joint_scales(split, mu=1.0)
    return _MANY_VARIANTS_RATIO * gram**2 + cross**2


def all_figures() -> list[Figure]:
    """Return every figure of this module."""
    return [*calibrations(), *split_claim()]
