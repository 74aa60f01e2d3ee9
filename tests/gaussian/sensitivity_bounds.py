"""Sensitivities that docs/maths proves and the product does not use.

The tests compare them with the same neighbouring rows as the bounds in
`primo_scale.gaussian.sensitivity`, whose conventions apply here: bounds are integers in lattice
units, and results are l2 distances.
"""

from __future__ import annotations

import math
from fractions import Fraction

from experiments.accounting import pair
from primo_scale.gaussian.sensitivity import Adjacency, _float_up


def centred_scatter(row_norm: int, *, n_samples: int) -> float:
    """Return the add-remove sensitivity of ``sum (x_i - mean)(x_i - mean)'``.

    It is up to 4 times that of `gram`, so the product centres on public frequencies instead.
    `n_samples` is the size of the smaller cohort.
    """
    return _float_up(Fraction(4 * row_norm * n_samples, n_samples + 1))


def pair_of_clipped_products(gram_share: float, product_share: float) -> float:
    """Return the replace-one mu^2 of (X'X, X'Z) when the products of norms are clipped, not Z.

    ``product_share`` is ``tau^2 / sigma2^2`` with ``||x_i|| ||z_i|| <= tau``. It exceeds `pair`,
    so product clipping serves label privacy only.
    """
    return max(
        gram_share + 4 * product_share, pair(gram_share, product_share, Adjacency.REPLACE_ONE)
    )


def pair_by_block(gram_share: float, cross_share: float) -> float:
    """Return the replace-one mu^2 of (all ``X_b'X_b``, X'Z) with both clips.

    For full or feature privacy. Exact for blocks that leave the worst neighbours room
    (docs/maths/blocks.md), else an upper bound.

    Parameters
    ----------
    gram_share, cross_share
        ``Q = beta_b N_x / sigma_b^2``, the same for every block, and ``D = N_x N_z / sigma2^2``.
    """
    if cross_share >= 4 * gram_share:
        return 4 * cross_share
    # The root tau of tau^3 + 3 tau = D / Q.
    tilt = 2 * math.sinh(math.asinh(cross_share / (2 * gram_share)) / 3)
    return 2 * gram_share * (1 + tilt) ** 3
