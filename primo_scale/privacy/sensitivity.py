"""How far one person can move each statistic: every formula of docs/maths.md, section 2, once.

All bounds are public integers on the lattice of the rows: ``row_norm`` is an upper bound N_x on
``||x_i||^2``, ``outcome_norm`` a bound N_z on ``||z_i||^2`` and an entry bound ``a`` one on
``|x_ij|``. No float enters a bound, so the formulas hold for the integers that are summed and
not merely for an idealisation of them. Every result is an l2 (Frobenius) distance rounded up.

"Add or remove one row" also covers "zero one row out, n public" and, for label privacy, "set one
person's phenotypes to null": the constants are the same. Label privacy takes for ``row_norm`` the
largest norm of the public rows, feature privacy takes for ``outcome_norm`` the largest norm of
the public outcomes. A constant column kappa adds ``kappa^2`` to the norm of its side.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction


class Adjacency(StrEnum):
    """Which pairs of cohorts the guarantee cannot tell apart."""

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"


class PrivacyUnit(StrEnum):
    """What of a person is protected: everything, the phenotypes, or the genotypes."""

    FULL = "full"
    LABEL = "label"
    FEATURE = "feature"


def gram(row_norm: int, adjacency: Adjacency, *, n_columns: int = 2) -> float:
    """Sensitivity of X'X in Frobenius norm, whole or any diagonal blocks of it.

    Also that of the upper triangle under equal noise, and of its svec (off-diagonal noise variance
    halved): the suprema coincide. Two orthogonal rows attain sqrt(2) N_x, so one column cannot.
    """
    factor = 2 if adjacency is Adjacency.REPLACE_ONE and n_columns > 1 else 1
    return _root(factor * row_norm**2)


def gram_upper_triangle(row_norm: int, adjacency: Adjacency, *, entry_bound: int) -> float:
    """Sensitivity of the upper triangle of X'X, equal noise, when also ``|x_ij| <= entry_bound``.

    Up to sqrt(2) below `gram`; for a release of the Gram matrix alone.
    """
    squared = Fraction(row_norm**2 + min(entry_bound**2, row_norm) * row_norm)
    return _root(squared if adjacency is Adjacency.REPLACE_ONE else squared / 2)


def gram_of_dosages(row_norm: int, *, entry_bound: int, n_columns: int) -> float:
    """Replace-one sensitivity of X'X for uncentred rows in ``[0, entry_bound]^n_columns``.

    Non-negative rows cannot be orthogonal once they are long; an upper bound, attained when the
    numbers of full entries it implies are integers.
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


def smallest_eigenvalue(row_norm: int, *, n_samples: int, n_columns: int) -> float:
    """Sensitivity, both adjacencies, of ``floor`` of the computed smallest eigenvalue of X'X.

    The eigenvalue itself moves by at most N_x (spectral norm, not Frobenius); the floor adds one
    and the solver's error, at most ``16 d 2^-53 n N_x``, counts twice.
    """
    solver_error = Fraction(16 * n_columns * n_samples * row_norm, 2**53)
    return _float_up(row_norm + 1 + 2 * solver_error)


def centred_scatter(row_norm: int, adjacency: Adjacency, *, n_samples: int) -> float:
    """Sensitivity of ``sum (x_i - mean)(x_i - mean)'`` about the data's own mean.

    Why the product centres on public frequencies: this is 4 or 2.83 times that of `gram`.
    `n_samples` is the size of the smaller cohort.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return _float_up(Fraction(4 * row_norm * (n_samples - 1), n_samples))
    return _float_up(Fraction(4 * row_norm * n_samples, n_samples + 1))


def cross(row_norm: int, outcome_norm: int, adjacency: Adjacency) -> float:
    """Sensitivity of X'Z: full, label or feature privacy, each with its own two norms."""
    factor = 4 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * row_norm * outcome_norm)


def cross_of_non_negative(row_norm: int, outcome_norm: int, adjacency: Adjacency) -> float:
    """Sensitivity of X'Z when no entry of X or Z is negative."""
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * row_norm * outcome_norm)


def cross_of_clipped_products(product_norm: int, adjacency: Adjacency) -> float:
    """Sensitivity of X'Z, label privacy only, when ``||x_i||^2 ||z_i||^2 <= product_norm``."""
    return cross(product_norm, 1, adjacency)


def outcome_diagonal(outcome_norm: int, adjacency: Adjacency, *, entry_bound: int) -> float:
    """Sensitivity of the diagonal of Z'Z alone, with ``|z_ij| <= entry_bound``."""
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * min(entry_bound**2, outcome_norm) * outcome_norm)


def observed_counts(n_phenotypes: int) -> float:
    """Sensitivity, both adjacencies, of how many people each phenotype was observed in."""
    return _root(n_phenotypes)


def pair(gram_share: float, cross_share: float, adjacency: Adjacency) -> float:
    """Squared shift mu^2 of (X'X, X'Z) released together, full or feature privacy.

    Under replace-one the two suprema are not attained by the same neighbours: X'X wants the rows
    orthogonal, X'Z wants them opposite.

    Parameters
    ----------
    gram_share, cross_share
        ``A = N_x^2 / sigma1^2`` and ``D = N_x N_z / sigma2^2``.

    Notes
    -----
    Valid, and attained, for svec and for equal upper-triangle noise. Label privacy has no Gram
    share: there mu^2 is ``(cross / sigma2)^2``.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return gram_share + cross_share
    if cross_share <= 2 * gram_share:
        return (2 * gram_share + cross_share) ** 2 / (2 * gram_share) if gram_share > 0 else 0.0
    return 4 * cross_share


def pair_of_clipped_products(gram_share: float, product_share: float) -> float:
    """Replace-one mu^2 of (X'X, X'Z) when the products of norms are clipped, not Z.

    ``product_share`` is ``tau^2 / sigma2^2`` with ``||x_i|| ||z_i|| <= tau``. It exceeds `pair`,
    so product clipping serves label privacy only.
    """
    return max(
        gram_share + 4 * product_share, pair(gram_share, product_share, Adjacency.REPLACE_ONE)
    )


def stacked(row_norm: int, split: float) -> float:
    """Replace-one sensitivity of the Gram matrix of ``(x, k z)``, ``k^2 = split N_x / (2 N_z)``.

    One Gram matrix holds X'X, k X'Z and k^2 Z'Z, so noise ``sigma1`` on it is ``sigma1``,
    ``sigma1 / (sqrt2 k)`` and ``sigma1 / k^2`` on the three, and the last is free at every
    ``0 < split <= 2``: mu^2 equals ``pair(A, split A)``.
    """
    return _root(2 * (row_norm * (1 + Fraction(split) / 2)) ** 2)


def _root(squared: int | Fraction) -> float:
    """The square root, rounded up to a float64 whose exact square is not below `squared`."""
    root = math.sqrt(squared)
    while Fraction(root) ** 2 < squared:
        root = math.nextafter(root, math.inf)
    return root


def _float_up(value: Fraction) -> float:
    """The nearest float64 that is not below `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
