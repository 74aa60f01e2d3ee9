"""Accuracy of a score on the scale of the liability to a binary trait, by public prevalence.

A person is a case if the liability exceeds a threshold, and score and liability are jointly normal
in the population.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import scipy

from primo_scale.privacy.planning import Floats

_NORMAL = NormalDist()
_GRID = np.linspace(-9, 9, 3601)  # of a standard normal score
_LARGEST_R2 = 1 - 1e-9


def liability_r2(observed: float, case_share: float, prevalence: float) -> float:
    """Return R^2 of the liability from R^2 of the 0/1 trait (Lee et al. 2012, equation 15).

    It corrects for the share of cases in the sample. If that equals the prevalence in the
    population, it is the scale of Dempster and Lerner (1950). The function increases, up to 1,
    which scores that are not normal could exceed.
    """
    threshold = -_NORMAL.inv_cdf(prevalence)
    density = _NORMAL.pdf(threshold)
    mean_of_cases = density / prevalence  # of the liability
    excess = mean_of_cases * (case_share - prevalence) / (1 - prevalence)
    theta = excess * (excess - threshold)
    scale = (prevalence * (1 - prevalence) / density) ** 2 / (case_share * (1 - case_share))
    return min(observed * scale / (1 + observed * theta * scale), 1.0)


def share_of_codes(prevalence: float) -> float:
    """Return R^2 of the 0/1 trait over that of the liability (Dempster and Lerner 1950)."""
    return _NORMAL.pdf(_NORMAL.inv_cdf(prevalence)) ** 2 / (prevalence * (1 - prevalence))


def residual_spread(r2: float, case_share: float, prevalence: float) -> float:
    """Return ``E[u^2 e^2] / (E[u^2] E[e^2])`` for the residuals e of the 0/1 trait on the score u.

    It is 1 if residuals have the same variance at every score; those of a rare trait vary more at
    high scores. `r2` is that of the liability. Source: docs/maths/hold-out.md, "Binary phenotypes".
    """
    probability, density = _cases_by_score(r2, prevalence)
    cases = density * probability
    controls = density - cases
    cases *= case_share / cases.sum()
    controls *= (1 - case_share) / controls.sum()
    people = cases + controls
    centred = _GRID - people @ _GRID
    slope = (cases @ centred) / (people @ centred**2)
    squares = cases * (1 - case_share - slope * centred) ** 2
    squares += controls * (case_share + slope * centred) ** 2
    return float(squares @ centred**2 / (squares.sum() * (people @ centred**2)))


def area_under_curve(r2: float, prevalence: float) -> float:
    """Return the probability that a case has a higher score than a control.

    `r2` is that of the liability. The distributions of the score among cases and controls are
    summed on a grid, without the normal approximation of Wray et al. (2010).
    """
    probability, density = _cases_by_score(r2, prevalence)
    cases, controls = density * probability, density * (1 - probability)
    below = np.cumsum(controls) - controls / 2
    return min(float(cases @ below / (cases.sum() * controls.sum())), 1.0)


def _cases_by_score(r2: float, prevalence: float) -> tuple[Floats, Floats]:
    """Return the share of cases at every score of the grid, and the density of scores."""
    r2 = min(max(r2, 0.0), _LARGEST_R2)
    threshold = -_NORMAL.inv_cdf(prevalence)
    probability = scipy.special.ndtr((math.sqrt(r2) * _GRID - threshold) / math.sqrt(1 - r2))
    return probability, np.exp(-(_GRID**2) / 2)
