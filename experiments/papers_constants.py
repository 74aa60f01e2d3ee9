"""Constants of the papers as printed, for comparison only (docs/maths/papers.md).

Several are wrong for the adjacency they are stated for. They cannot reach a release, because the
product does not import this package. PRIMO is Neel, "Private Regression in Multiple Outcomes"; the
thesis is Piazza, "Differentially Private Ridge Regression"; Wu et al. is "Differentially Private
Multi-Party Data Release for Linear Regression". Scales are unnormalised sigmas in units of Bx^2
(X'X) and Bx By (X'Y), where By is the norm of an outcome row that each paper uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

THESIS_RHO = 0.05
"""Failure probability in the thesis' ridge."""

ADASSP_EIGENVALUE_SHARE = 1 / 3
"""gamma of adaSSP: the share of epsilon and delta for the smallest eigenvalue."""

MULTI_PARTY_RIDGE = 1e-5
"""Constant that Wu et al. add to every Hessian matrix."""


@dataclass(frozen=True)
class PrintedScales:
    """Sigmas of the noise on X'X and X'Y, in units of Bx^2 and Bx By."""

    gram: float
    cross: float


def primo_c(epsilon: float, delta: float) -> float:
    """Return ``c(eps, delta)`` of PRIMO, Lemma 1, which is valid for every epsilon, and loose."""
    return math.sqrt(2 * (1 / epsilon + math.log(1 / delta) / epsilon**2))


def classical_gaussian(epsilon: float, delta: float) -> float:
    """Return ``sqrt(2 log(1.25/delta)) / eps``: proved below epsilon 1, not private far above."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def primo_algorithm_1(epsilon: float, delta: float) -> PrintedScales:
    """Return the scales of PRIMO, Algorithm 1: X'X gets epsilon, X'Y epsilon/2."""
    return PrintedScales(primo_c(epsilon, delta), primo_c(epsilon / 2, delta / 2))


def primo_theorem_1_proof(epsilon: float, delta: float) -> PrintedScales:
    """Return the scales in PRIMO's proof of Theorem 1: c is divided by epsilon a second time."""
    c = primo_c(epsilon, delta)
    return PrintedScales(c / epsilon, 2 * c / epsilon)


def primo_algorithm_3(epsilon: float, delta: float) -> PrintedScales:
    """Return the scales of PRIMO, Algorithm 3: the classical formula for X'X, Lemma 1 for X'Y."""
    gram = 2 * math.sqrt(2 * math.log(2.5 / delta)) / epsilon
    return PrintedScales(gram, primo_c(epsilon / 2, delta / 2))


def primo_halves(epsilon: float, delta: float) -> PrintedScales:
    """Return Lemma 1 at (epsilon/2, delta/2) for both, as the proof's composition requires."""
    c = primo_c(epsilon / 2, delta / 2)
    return PrintedScales(c, c)


def primo_algorithm_4_epsilon_1(epsilon: float, sampled_share: float) -> float:
    """Return ``(n/s) eps/2`` of PRIMO, Algorithm 4, line 2: the limit for small epsilon."""
    return epsilon / (2 * sampled_share)


def primo_algorithm_4_gram(epsilon: float, delta: float, sampled_share: float) -> float:
    """Return sigma of ``X_S'X_S / s`` in units of ``Bx^2 / n``: PRIMO, Algorithm 4, line 3."""
    epsilon_1 = primo_algorithm_4_epsilon_1(epsilon, sampled_share)
    return 2 * math.sqrt(2 * math.log(2.5 / delta)) / epsilon_1


def thesis_gaussian(epsilon: float, delta: float) -> float:
    """Return ``sqrt(2 log(2/delta)) / eps``, stated in the thesis without a limit on epsilon."""
    return math.sqrt(2 * math.log(2 / delta)) / epsilon


def thesis_ridge(epsilon: float, delta: float, n_variables: int) -> float:
    """Return the ridge of constSSPfull and adaSSPbudget before the eigenvalue, in units of Bx^2."""
    logs = math.log(2 / delta) * math.log(2 * n_variables**2 / THESIS_RHO)
    return math.sqrt(2 * n_variables * logs) / epsilon


def multi_party_noise(epsilon: float, delta: float, largest_party: int) -> float:
    """Return Wu et al.'s sd of the noise on an entry, for the attributes of the largest party."""
    return 2 * math.sqrt(largest_party) * classical_gaussian(epsilon, delta)


def multi_party_mixtures(n_people: int, epsilon: float, delta: float) -> int:
    """Return Wu et al.'s rows k of RMGM-OLS, ``sqrt(n) / sigma``, in synthetic experiments."""
    return max(1, round(math.sqrt(n_people) / classical_gaussian(epsilon, delta)))
