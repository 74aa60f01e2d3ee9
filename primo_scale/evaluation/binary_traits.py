"""Accuracy of a score of a binary trait: area under the ROC curve, and R^2 of the liability."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from primo_scale.evaluation.accuracy import NORMAL_QUANTILE, Estimate, Floats


@dataclass(frozen=True)
class Discrimination:
    """Accuracy of a score of a binary trait."""

    n_cases: int
    auc: Estimate
    # R^2 of the liability (`primo_scale.privacy.liability_scale`); None without a prevalence.
    liability_r2: Estimate | None


def area_under_curve(is_case: npt.NDArray[np.bool_], score: Floats) -> Estimate:
    """Return the area under the ROC curve, with the interval of DeLong et al. (1988).

    It is the probability that a case has a higher score than a control, with ties as halves.
    Mid-ranks give it in O(n log n) operations (Sun and Xu 2014). There are at least two cases and
    two controls.
    """
    n_cases, n_controls = int(is_case.sum()), int((~is_case).sum())
    ranks = rankdata(score)
    # Share of the controls below each case, and of the cases above each control.
    of_cases = (ranks[is_case] - rankdata(score[is_case])) / n_controls
    of_controls = 1 - (ranks[~is_case] - rankdata(score[~is_case])) / n_cases
    area = float(of_cases.mean())
    variance = of_cases.var(ddof=1) / n_cases + of_controls.var(ddof=1) / n_controls
    half = NORMAL_QUANTILE * math.sqrt(variance)
    return Estimate(area, max(area - half, 0.0), min(area + half, 1.0))
