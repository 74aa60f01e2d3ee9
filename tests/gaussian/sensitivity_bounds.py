"""Sensitivities that docs/maths proves and the product does not use.

They bound other statistics, other layouts of noise and narrower rows. The tests compare them with
the same neighbouring rows as the bounds in `primo_scale.gaussian.sensitivity`, whose conventions
apply here: bounds are integers in lattice units, and results are l2 distances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from experiments.accounting import pair
from primo_scale.gaussian.sensitivity import Adjacency, _float_up, _root


def gram_upper_triangle(row_norm: int, adjacency: Adjacency, *, entry_bound: int) -> float:
    """Return the sensitivity of the upper triangle of X'X under equal noise.

    Entries are bounded as well, ``|x_ij| <= entry_bound``. The result is up to sqrt(2) below
    `primo_scale.gaussian.sensitivity.gram`, and holds where X'X is released alone.
    """
    squared = Fraction(row_norm**2 + min(entry_bound**2, row_norm) * row_norm)
    return _root(squared if adjacency is Adjacency.REPLACE_ONE else squared / 2)


def gram_of_dosages(row_norm: int, *, entry_bound: int, n_columns: int) -> float:
    """Return the replace-one sensitivity of X'X for uncentred rows.

    Entries are in ``[0, entry_bound]``. Long non-negative rows cannot be orthogonal. The result is
    an upper bound, attained if the numbers of full entries that it implies are integers.
    """
    total = entry_bound**2 * n_columns
    norm = min(row_norm, total)
    if 2 * norm <= total:
        squared = 2 * norm**2
    elif 3 * norm <= 2 * total:
        squared = 2 * norm**2 - 2 * (2 * norm - total) ** 2
    else:
        squared = norm**2 + 2 * (total - norm) ** 2
    return _root(squared)


def centred_scatter(row_norm: int, adjacency: Adjacency, *, n_samples: int) -> float:
    """Return the sensitivity of ``sum (x_i - mean)(x_i - mean)'`` about the data's own mean.

    It is 4 or 2.83 times that of `gram`, so the product centres on public frequencies instead.
    `n_samples` is the size of the smaller cohort.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return _float_up(Fraction(4 * row_norm * (n_samples - 1), n_samples))
    return _float_up(Fraction(4 * row_norm * n_samples, n_samples + 1))


def cross_of_non_negative(row_norm: int, outcome_norm: int, adjacency: Adjacency) -> float:
    """Return the sensitivity of X'Z when no entry of X or Z is negative."""
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * row_norm * outcome_norm)


def outcome_diagonal(outcome_norm: int, adjacency: Adjacency, *, entry_bound: int) -> float:
    """Return the sensitivity of the diagonal of Z'Z alone, with ``|z_ij| <= entry_bound``."""
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * min(entry_bound**2, outcome_norm) * outcome_norm)


def pair_of_clipped_products(gram_share: float, product_share: float) -> float:
    """Return the replace-one mu^2 of (X'X, X'Z) when the products of norms are clipped, not Z.

    ``product_share`` is ``tau^2 / sigma2^2`` with ``||x_i|| ||z_i|| <= tau``. It exceeds `pair`,
    so product clipping serves label privacy only.
    """
    return max(
        gram_share + 4 * product_share, pair(gram_share, product_share, Adjacency.REPLACE_ONE)
    )


def block_gram(block_norms: Sequence[int], row_norm: int, adjacency: Adjacency) -> float:
    """Return the sensitivity of the diagonal blocks ``X_b'X_b`` together, in Frobenius norm.

    Rows are clipped in every block and in total: ``sum_b ||x_b||^4`` is convex in the block norms,
    so a row that fills the largest blocks first is the worst. Replace-one takes two such rows,
    orthogonal in every block; attained by blocks of two columns or more.
    """
    squared, left = 0, row_norm
    for norm in sorted(block_norms, reverse=True):
        filled = min(norm, left)
        squared += filled**2
        left -= filled
    return _root(2 * squared if adjacency is Adjacency.REPLACE_ONE else squared)


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
