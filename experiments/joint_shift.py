"""Joint shift of X'X and X'Z released together, at any noise (docs/maths/gram.md, Theorem 1).

The product needs this bound only at the scales of `primo_scale.gaussian.sensitivity.stacked`.
"""

from __future__ import annotations

from primo_scale.gaussian.sensitivity import Adjacency


def pair(gram_share: float, cross_share: float, adjacency: Adjacency) -> float:
    """Return the squared shift mu^2 of a joint release of (X'X, X'Z), full or feature privacy.

    Under replace-one no neighbours attain both sensitivities: that of X'X needs orthogonal rows,
    and that of X'Z needs opposite rows. Source: docs/maths/gram.md, Theorem 1.

    Parameters
    ----------
    gram_share, cross_share
        ``A = N_x^2 / sigma1^2`` and ``D = N_x N_z / sigma2^2``.

    Notes
    -----
    The bound is valid and attained for svec noise and for equal noise on the upper triangle. With
    label privacy X'X is public, and the pair is (Z'Z, X'Z) with Gram share ``N_z^2 / sigma3^2``,
    also if products of norms are clipped to ``N_x N_z``.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return gram_share + cross_share
    if cross_share <= 2 * gram_share:
        return (2 * gram_share + cross_share) ** 2 / (2 * gram_share) if gram_share > 0 else 0.0
    return 4 * cross_share
