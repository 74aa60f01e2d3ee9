"""Effect of clipping phenotype rows on a linear model, from public numbers alone.

Source: docs/maths/planner.md, Theorem 1. Rows of standardised phenotypes are clipped to a norm
``B = b sqrt(l)``. For one phenotype y, beside others of squared norm Q, clipping is on average
``g(y) = E[min(1, B/sqrt(y^2 + Q))] y``. A linear model of g(y) is a scaled and shifted linear model
of y: ``cov(x, g(y)) = slope cov(x, y)`` and ``E[g(y) | x] = offset + slope E[y | x]``.

The slope of a normal phenotype is E[g'(y)] by Stein's lemma, and its offset is 0. A binary
phenotype has two values, so its slope and offset are exact given the distribution of Q. The other
phenotypes are assumed to be independent and normal, weighted by the share of people in whom they
are observed, because a missing value is 0 and shortens the row. Correlation between phenotypes
increases the variance of Q, and the slope is then approximate.

A bound on rows of genotypes scales records whose row is too long. X'X and X'Y then lose different
shares, because clipped phenotypes are clipped again (docs/maths/clipping-and-integers.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.privacy.planning import Floats, clipped_moments

Levels = tuple[float, float]

_QUANTILES = (np.arange(1000) + 0.5) / 1000
_LENGTHS = (np.arange(20) + 0.5) / 20  # quantiles of the lengths of rows


@dataclass(frozen=True)
class ClipResponse:
    """Linear response of each clipped phenotype to the phenotype.

    The slope has no unit, the offset is in standard deviations; both have shape (l,).
    """

    slope: Floats
    offset: Floats
    gram_share: float = 1.0  # share of X'X that the bound on rows of genotypes leaves


def no_clipping(n_phenotypes: int) -> ClipResponse:
    """Return the response of rows that are not clipped: slope 1, offset 0."""
    return ClipResponse(np.ones(n_phenotypes), np.zeros(n_phenotypes))


def clip_response(
    clip: float, levels: Sequence[Levels | None], observed_share: Floats
) -> ClipResponse:
    """Return the response of every phenotype to clipping rows at ``clip sqrt(l)``.

    `levels` are the two values of each binary phenotype, in standard deviations from its mean, and
    None for a phenotype that is assumed to be normal. `observed_share` is the share of people in
    whom each phenotype is observed, in (0, 1], shape (l,).
    Source: docs/maths/planner.md, Theorem 1 and the paragraph on binary phenotypes below it.
    """
    n_phenotypes = len(levels)
    bound = clip * math.sqrt(n_phenotypes)
    slope, offset = np.empty(n_phenotypes), np.zeros(n_phenotypes)
    for j, pair in enumerate(levels):
        others = float(observed_share.sum() - observed_share[j])
        if pair is None:
            slope[j], _ = clipped_moments(bound, 1 + others)
            continue
        low, high = (_clipped(value, others, bound) for value in pair)
        slope[j] = (high - low) / (pair[1] - pair[0])
        offset[j] = low - slope[j] * pair[0]
    return ClipResponse(slope, offset)


def _clipped(value: float, others: float, bound: float) -> float:
    """Return g(value), where Q is chi-square on `others` degrees of freedom."""
    # Quantiles of Q; importing `scipy.stats` takes 0.3 s.
    rest = 2 * scipy.special.gammaincinv(others / 2, _QUANTILES) if others > 0 else np.zeros(1)
    norms = np.sqrt(value**2 + rest)
    return float(value * np.minimum(1.0, bound / np.maximum(norms, 1e-300)).mean())


@dataclass(frozen=True)
class RowLengths:
    """Squared norms of rows of genotypes: a chi-square distribution, relative to its mean."""

    degrees: float  # degrees of freedom
    bound: float  # on the squared norm of a row


def response_of_scaled_records(
    respond: Callable[[float], ClipResponse], rows: RowLengths, privacy: PrivacyUnit
) -> ClipResponse:
    """Return the response of X'Y, relative to X'X, where records with long rows are scaled.

    `respond` returns the response to a clip that is multiplied by a factor. Phenotypes are assumed
    to be independent of the lengths of rows.
    Source: docs/maths/clipping-and-integers.md, "Records that are scaled".
    """
    lengths = 2 * scipy.special.gammaincinv(rows.degrees / 2, _LENGTHS) / rows.degrees
    kept = np.minimum(1.0, rows.bound / lengths)  # of the products of two genotypes
    root = np.sqrt(kept)
    one = np.ones_like(kept)
    # Factors on the clip, on X'Y of an unclipped phenotype, and on X'X.
    clips, cross, gram = {
        PrivacyUnit.FULL: (1 / root, kept, kept),
        PrivacyUnit.FEATURE: (one, root, kept),
        PrivacyUnit.LABEL: (root, one, one),
    }[privacy]
    factors, where = np.unique(clips, return_inverse=True)
    responses = [respond(float(factor)) for factor in factors]
    slopes = np.array([each.slope for each in responses])[where]
    offsets = np.array([each.offset for each in responses])[where]
    return ClipResponse(
        slope=(cross * lengths) @ slopes / float(gram @ lengths),
        offset=cross @ offsets / float(gram.sum()),
        gram_share=float(gram @ lengths / lengths.sum()),
    )
