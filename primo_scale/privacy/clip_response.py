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
from functools import lru_cache

import numpy as np
import scipy

from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.privacy.planning import Floats, clipped_moments

Levels = tuple[float, float]

_QUANTILES = (np.arange(1000) + 0.5) / 1000
_LENGTHS = (np.arange(20) + 0.5) / 20  # quantiles of the lengths of rows


@dataclass(frozen=True)
class ClipResponse:
    """Linear response of each clipped phenotype to the phenotype, and the variance that is left.

    The slope has no unit, and offset and variance are in standard deviations; shapes (l,).
    """

    slope: Floats
    offset: Floats
    variance: Floats
    gram_share: float = 1.0  # share of X'X that the bound on rows of genotypes leaves


def no_clipping(n_phenotypes: int) -> ClipResponse:
    """Return the response of rows that are not clipped: slope 1, offset 0, variance 1."""
    return ClipResponse(np.ones(n_phenotypes), np.zeros(n_phenotypes), np.ones(n_phenotypes))


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
    (slope, variance), offset = np.empty((2, n_phenotypes)), np.zeros(n_phenotypes)
    for j, pair in enumerate(levels):
        others = float(observed_share.sum() - observed_share[j])
        if pair is None:
            slope[j], variance[j] = clipped_moments(bound, 1 + others)
            continue
        values = [_clipped(value, others, bound) for value in pair]
        low, high = (clipped.mean() for clipped in values)
        slope[j] = (high - low) / (pair[1] - pair[0])
        offset[j] = low - slope[j] * pair[0]
        cases = min(max(-pair[0] / (pair[1] - pair[0]), 0.0), 1.0)  # because the mean is 0
        squares = [(clipped**2).mean() for clipped in values]
        mean = low + cases * (high - low)
        variance[j] = squares[0] + cases * (squares[1] - squares[0]) - mean**2
    return ClipResponse(slope, offset, variance)


def _clipped(value: float, others: float, bound: float) -> Floats:
    """Return the clipped value at quantiles of Q, chi-square on `others` degrees of freedom."""
    norms = np.sqrt(value**2 + _quantiles(others))
    return np.asarray(value * np.minimum(1.0, bound / np.maximum(norms, 1e-300)))


@lru_cache(maxsize=4096)  # for every phenotype and several clips; the inverse is slow
def _quantiles(degrees: float) -> Floats:
    if degrees <= 0:
        return np.zeros(1)
    # Importing `scipy.stats` takes 0.3 s.
    return np.asarray(2 * scipy.special.gammaincinv(degrees / 2, _QUANTILES))


@dataclass(frozen=True)
class RowLengths:
    """Squared norms of rows of genotypes: a chi-square distribution, relative to its mean."""

    degrees: float  # degrees of freedom
    bound: float  # on the squared norm of a row


def response_of_contributions(
    respond: Callable[[float], ClipResponse], degrees: float
) -> ClipResponse:
    """Return the response where phenotypes are clipped by their contributions to X'Y.

    `respond` returns the response to a clip that is multiplied by a factor. The squared norm of
    each phenotype's columns is chi-square, on so many degrees of freedom relative to its mean.
    Source: docs/maths/rounds.md, "On the lattice".
    """
    lengths = 2 * scipy.special.gammaincinv(degrees / 2, _LENGTHS) / degrees
    responses = [respond(float(factor)) for factor in 1 / np.sqrt(lengths)]
    slopes, variances = (
        lengths @ np.array([getattr(each, name) for each in responses]) / lengths.sum()
        for name in ("slope", "variance")
    )
    return ClipResponse(slopes, np.zeros_like(slopes), variances)


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
    # Factors on the clip, on X'Y, X'X and the square of an unclipped phenotype.
    clips, kept = (root, one) if privacy is PrivacyUnit.LABEL else (1 / root, kept)
    factors, where = np.unique(clips, return_inverse=True)
    responses = [respond(float(factor)) for factor in factors]
    slopes, offsets, variances = (
        np.array([getattr(each, name) for each in responses])[where]
        for name in ("slope", "offset", "variance")
    )
    seen = kept * lengths
    return ClipResponse(
        slope=seen @ slopes / float(seen.sum()),
        offset=kept @ offsets / float(kept.sum()),
        variance=(kept * seen) @ variances / float(seen.sum()),
        gram_share=float(seen.sum() / lengths.sum()),
    )
