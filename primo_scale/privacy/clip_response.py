"""What clipping phenotype rows does to a linear model, from public facts alone.

Rows of standardised phenotypes are clipped to a norm ``B = b sqrt(l)``. For one phenotype y among
others of squared norm Q that is ``g(y) = E[min(1, B/sqrt(y^2 + Q))] y``, and a linear model of
g(y) is one of y, stretched and moved: ``cov(x, g(y)) = slope cov(x, y)`` and ``E[g(y) | x] =
offset + slope E[y | x]``. For a normal phenotype the slope is E[g'(y)] by Stein's lemma, the
attenuation of docs/maths/planner.md, and the offset 0. A binary phenotype has two values, so
both are exact given Q. The others are taken as independent normals, each there for the share of
people in whom it is observed: a missing value is 0 and makes the row shorter. For correlated
phenotypes Q varies more and the slope is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.privacy.planning import attenuation_at, chi_square_quantile

Float64 = npt.NDArray[np.float64]
Levels = tuple[float, float]

_QUANTILES = (np.arange(1000) + 0.5) / 1000


@dataclass(frozen=True)
class ClipResponse:
    """How a clipped phenotype answers to the phenotype, for each of l.

    Attributes
    ----------
    slope, offset
        Shapes (l,), in standard deviations.
    """

    slope: Float64
    offset: Float64


def no_clipping(n_phenotypes: int) -> ClipResponse:
    """Response of rows that are left as they are."""
    return ClipResponse(np.ones(n_phenotypes), np.zeros(n_phenotypes))


def clip_response(
    clip: float, levels: Sequence[Levels | None], observed_share: Float64
) -> ClipResponse:
    """Response of every phenotype to clipping rows at ``clip sqrt(l)`` standard deviations.

    Parameters
    ----------
    clip
        b.
    levels
        For each phenotype, its two values in standard deviations from its mean if it is binary,
        None if it is taken as normal.
    observed_share
        Share of people in whom each is observed, shape (l,), in (0, 1].
    """
    n_phenotypes = len(levels)
    bound = clip * math.sqrt(n_phenotypes)
    slope, offset = np.empty(n_phenotypes), np.zeros(n_phenotypes)
    for j, pair in enumerate(levels):
        others = float(observed_share.sum() - observed_share[j])
        if pair is None:
            slope[j] = attenuation_at(bound, 1 + others)
            continue
        low, high = (_clipped(value, others, bound) for value in pair)
        slope[j] = (high - low) / (pair[1] - pair[0])
        offset[j] = low - slope[j] * pair[0]
    return ClipResponse(slope, offset)


def _clipped(value: float, others: float, bound: float) -> float:
    """g(value), the others' squared norm being chi-square on `others` degrees of freedom."""
    rest = chi_square_quantile(_QUANTILES, others) if others > 0 else np.zeros(1)
    norms = np.sqrt(value**2 + rest)
    return float(value * np.minimum(1.0, bound / np.maximum(norms, 1e-300)).mean())
