"""Numbers that docs/maths prints, computed again.

They are noise scales and the true privacy guarantees of the papers' constants (noise.md and
papers.md), and what the joint calibration of (X'X, X'Y) saves (sensitivity.md). This module is
arithmetic only, without data or random numbers. True epsilons use the exact joint sensitivity and
the exact Gaussian profile of the product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal
from itertools import chain

from scipy.optimize import brentq

from experiments import papers_constants as papers
from experiments.accounting import pair, zcdp_sigma
from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import epsilon_for, log_delta, mu_for, optimal_split
from primo_scale.gaussian.sensitivity import Adjacency

N_HAPLOTYPES = 5008
DELTA = 1 / N_HAPLOTYPES**2
EPSILON = 5.0
N_VARIANTS = 25
_REPLACE, _ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
# a/b of the example of sensitivity.md: d = 800 variants, one phenotype.
_MANY_VARIANTS_RATIO = 23.0


@dataclass(frozen=True)
class Printed:
    """Computed number, and the digits that docs/maths prints for it.

    The comparison uses the number of decimals of `stated`. A limit is the end of a safe range, and
    is rounded toward zero.
    """

    what: str
    value: float
    stated: str
    is_limit: bool = False

    @property
    def shown(self) -> str:
        """Value with as many decimals as `stated`."""
        step = Decimal(1).scaleb(Decimal(self.stated).as_tuple().exponent)  # type: ignore[arg-type]
        rounding = ROUND_DOWN if self.is_limit else ROUND_HALF_EVEN
        return str(Decimal(repr(self.value)).quantize(step, rounding))

    @property
    def agrees(self) -> bool:
        """Whether every printed digit is right."""
        return self.shown == self.stated


_SIZES = ("1/mu*", "c/exact", "zCDP(CKS)/exact", "classical/exact")
_STATED_SIZES = {
    0.1: ("43.21", "1.355", "1.070", "1.360"),
    1.0: ("4.851", "1.238", "1.061", "1.211"),
    5.0: ("1.0933", "1.214", "1.052", "1.075"),
    10.0: ("0.5943", "1.237", "1.047", "0.989"),
}


def noise_sizes() -> dict[float, list[Printed]]:
    """Return sigma per unit sensitivity at delta = 1/5008^2 by epsilon.

    The first is the product's, 1/mu*. The other constants are multiples of it.
    """
    found = {}
    for epsilon, stated in _STATED_SIZES.items():
        unit = 1 / mu_for(epsilon, DELTA)
        others = (papers.primo_c, zcdp_sigma, papers.classical_gaussian)
        values = (unit, *(sigma(epsilon, DELTA) / unit for sigma in others))
        found[epsilon] = [
            Printed(f"{name}, eps = {epsilon:g}", value, text)
            for name, value, text in zip(_SIZES, values, stated, strict=True)
        ]
    return found


def classical_limits() -> list[Printed]:
    """Return the largest epsilon at which the classical formula holds, and its delta above."""
    limits = [
        Printed(
            f"classical formula holds up to eps, delta = {delta:g}", _limit(delta), stated, True
        )
        for delta, stated in ((1e-5, "8.41"), (4e-8, "9.21"), (1e-10, "9.84"))
    ]
    beyond = math.exp(log_delta(8.45, 1 / papers.classical_gaussian(8.45, 1e-5))) / 1e-5
    return [*limits, Printed("its delta at eps = 8.45, over 1e-5", beyond, "1.016")]


def _limit(delta: float) -> float:
    def log_ratio(epsilon: float) -> float:
        return log_delta(epsilon, 1 / papers.classical_gaussian(epsilon, delta)) - math.log(delta)

    return float(brentq(log_ratio, 1.0, 30.0))


def true_epsilon(scales: papers.PrintedScales, delta: float, adjacency: Adjacency) -> float:
    """Return epsilon of (X'X, X'Y) with sigmas in units of Bx^2 and Bx By, by joint accounting."""
    return epsilon_for(math.sqrt(pair(scales.gram**-2, scales.cross**-2, adjacency)), delta)


def primo_epsilons() -> list[Printed]:
    """Return the true guarantees of PRIMO at nominal (5, 1/5008^2): papers.md, items 1 and 2."""
    printed = (
        ("Algorithm 1 as printed", papers.primo_algorithm_1, "6.85", "4.61"),
        ("proof of Theorem 1", papers.primo_theorem_1_proof, "49.4", "30.8"),
        ("Algorithm 3", papers.primo_algorithm_3, "4.62", "2.99"),
        ("c(eps/2, delta/2) twice", papers.primo_halves, "4.51", "2.89"),
    )
    numbers = []
    for name, constants, replaced, added in printed:
        scales = constants(EPSILON, DELTA)
        for adjacency, stated in ((_REPLACE, replaced), (_ADD, added)):
            value = true_epsilon(scales, DELTA, adjacency)
            numbers.append(Printed(f"{name}: true eps, {adjacency}", value, stated))
    full_budget = epsilon_for(2 / papers.primo_c(EPSILON, DELTA), DELTA)
    half = papers.primo_c(EPSILON / 2, DELTA / 2)  # line 1, without the factor 2 of replace-one
    return [
        *numbers,
        Printed("label privacy, whole budget, Delta = Bx By: true eps", full_budget, "8.80"),
        Printed(
            "Algorithm 2 at (2.5, delta/2): true eps", epsilon_for(2 / half, DELTA / 2), "4.33"
        ),
    ]


def subsampling() -> list[Printed]:
    """Return the numbers of PRIMO, Algorithm 4, at s/n = 0.1 (papers.md, item 3)."""
    share = 0.1
    numbers = [
        Printed(
            "Algorithm 4, s/n = 0.1, eps = 5: true eps of X'X, claimed 2.5",
            amplified(papers.primo_algorithm_4_epsilon_1(EPSILON, share), share),
            "22.7",
        )
    ]
    for epsilon, sigmas, exposed in ((5.0, "21", "0.10"), (1.0, "4.2", "0.087")):
        # One record moves X_S'X_S / s by Bx^2/s, and the noise is in units of Bx^2/n.
        shift = 1 / (share * papers.primo_algorithm_4_gram(epsilon, DELTA, share))
        delta = share * math.exp(log_delta(amplified_inverse(epsilon, share), shift))
        numbers += [
            Printed(f"Algorithm 4, eps = {epsilon:g}: sigmas one record moves X'X", shift, sigmas),
            Printed(f"Algorithm 4, eps = {epsilon:g}: true delta at least", delta, exposed),
        ]
    return numbers


def amplified(epsilon: float, share: float) -> float:
    """Return the epsilon for the cohort of a mechanism that runs on a secret uniform subsample."""
    return math.log1p(share * math.expm1(epsilon))


def amplified_inverse(epsilon: float, share: float) -> float:
    """Return the epsilon on a secret share that gives `epsilon` on the cohort."""
    return math.log1p(math.expm1(epsilon) / share)


def label_budget() -> list[Printed]:
    """Return the numbers of label privacy and of the projections (papers.md, items 4 and 5)."""
    mu = mu_for(EPSILON, DELTA)
    half = papers.primo_c(EPSILON / 2, DELTA / 2)
    x_side = (N_HAPLOTYPES * mu / (2 * N_VARIANTS)) ** 2
    y_side = N_HAPLOTYPES * mu / (2 * math.sqrt(N_VARIANTS))
    return [
        Printed(
            "label privacy: noise saved by the whole budget",
            half / papers.primo_c(EPSILON, DELTA),
            "1.9",
        ),
        Printed("label privacy: noise saved in all, Delta = 2 Bx By for both", half * mu, "2.33"),
        Printed("Proj_X active from l =, in hundreds", x_side / 100, "84"),
        Printed("Proj_Y active from l =", y_side, "458"),
    ]


def other_papers() -> list[Printed]:
    """Return the true epsilon of the thesis and of Wu et al."""
    delta = 1280**-1.1
    twice = papers.thesis_gaussian(0.5, delta / 2)
    thrice = papers.thesis_gaussian(1 / 3, delta / 3)
    numbers = []
    for adjacency, ssp, ada in ((_ADD, "0.41", "0.32"), (_REPLACE, "0.66", "0.45")):
        mu_ssp = math.sqrt(pair(twice**-2, twice**-2, adjacency))
        mu_ada = math.sqrt(pair(thrice**-2, thrice**-2, adjacency) + thrice**-2)
        numbers += [
            Printed(f"thesis, {name} at nominal eps 1: true eps, {adjacency}", value, stated)
            for name, value, stated in (
                ("SSP", epsilon_for(mu_ssp, delta), ssp),
                ("adaSSP", epsilon_for(mu_ada, delta), ada),
            )
        ]
    for nominal, stated in ((1.0, "1.92"), (0.3, "0.51"), (0.1, "0.154")):
        person = math.sqrt(11 / 2) / papers.classical_gaussian(nominal, 1e-5)
        value = epsilon_for(person, 1e-5)
        numbers.append(Printed(f"Wu et al., nominal eps {nominal:g}: eps a person", value, stated))
    return numbers


def joint_scales(split: float, mu: float) -> tuple[float, float]:
    """Return the sigmas of X'X and X'Y under one joint calibration at ``t = split``."""
    gram = sensitivity.stacked(1, split) / mu
    return gram, gram / math.sqrt(split)


def calibrations() -> list[Printed]:
    """Return the sizes of docs/maths/sensitivity.md, loosest first."""
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
    numbers = []
    for name, (on_gram, on_cross), stated_gram, stated_cross in rows:
        numbers += [
            Printed(f"{name}: X'X", on_gram, stated_gram),
            Printed(f"{name}: X'Y", on_cross, stated_cross),
        ]
    surplus = 100 * (zcdp_sigma(EPSILON, DELTA) * mu - 1)
    return [
        *numbers,
        Printed("discrete Gaussian by zCDP: more noise, per cent", surplus, "5.2"),
    ]


def split_claim() -> list[Printed]:
    """Return the numbers of d = 800, l = 1 (a/b = 23): the best t, and the excess at t = 2."""
    best = optimal_split(_MANY_VARIANTS_RATIO, 1.0, _REPLACE)
    ratio = first_order_loss(2.0) / first_order_loss(best)
    return [
        Printed("a/b = 23: optimal split t", best, "0.2"),
        Printed("a/b = 23: excess at t = 2 over the excess there", ratio, "2.8"),
    ]


def first_order_loss(split: float) -> float:
    """Return ``a/A + b/D`` at a/b = 23, in units of ``b / mu^2``."""
    gram, cross = joint_scales(split, mu=1.0)
    return _MANY_VARIANTS_RATIO * gram**2 + cross**2


def all_numbers() -> list[Printed]:
    """Return every number of this module."""
    promises = [*primo_epsilons(), *subsampling(), *label_budget(), *other_papers()]
    sizes = [*chain(*noise_sizes().values()), *classical_limits()]
    return [*sizes, *promises, *calibrations(), *split_claim()]
