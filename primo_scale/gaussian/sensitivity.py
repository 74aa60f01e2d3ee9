"""Sensitivities of the statistics that the product releases (docs/maths).

All bounds are public integers on the lattice of the rows: ``row_norm`` is an upper bound N_x on
``||x_i||^2``, ``block_norm`` a bound beta_b on its part in one LD block, ``outcome_norm`` a bound
N_z on ``||z_i||^2`` and an entry bound ``a`` one on ``|x_ij|``. No float enters a bound, so the
formulas hold for the integers that are summed and not merely for an idealisation of them. Every
result is an l2 (Frobenius) distance rounded up.

"Add or remove one row" also covers "zero one row out, n public" and, for label privacy, "set one
person's phenotypes to null": the constants are the same. Label privacy takes for ``row_norm`` the
largest norm of the public rows, feature privacy takes for ``outcome_norm`` the largest norm of
the public outcomes. A constant column kappa adds ``kappa^2`` to the norm of its side.

Bounds of statistics that the product does not release are in tests/gaussian/sensitivity_bounds.py.
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


def gram(row_norm: int, adjacency: Adjacency) -> float:
    """Return the sensitivity of X'X in Frobenius norm, whole or any diagonal blocks of it.

    It is also that of the upper triangle under equal noise, and of its svec (off-diagonal noise
    variance halved): the suprema coincide. Under replace-one, two orthogonal rows attain
    ``sqrt(2) N_x``. A single column has no orthogonal rows and moves by at most ``N_x``.
    """
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * row_norm**2)


def smallest_eigenvalue(row_norm: int, *, n_samples: int, n_columns: int) -> float:
    """Sensitivity, both adjacencies, of ``floor`` of the computed smallest eigenvalue of X'X.

    The eigenvalue itself moves by at most N_x (spectral norm, not Frobenius); the floor adds one
    and the solver's error, at most ``16 d 2^-53 n N_x``, counts twice. Of LD blocks, the smallest
    eigenvalue of them all moves no further than that of one: `n_columns` is then the size of the
    largest block, and `row_norm` may be the largest ``min(beta_b, N_x)``.
    """
    solver_error = Fraction(16 * n_columns * n_samples * row_norm, 2**53)
    return _float_up(row_norm + 1 + 2 * solver_error)


def cross(row_norm: int, outcome_norm: int, adjacency: Adjacency) -> float:
    """Sensitivity of X'Z: full, label or feature privacy, each with its own two norms."""
    factor = 4 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * row_norm * outcome_norm)


def cross_of_clipped_products(product_norm: int, adjacency: Adjacency) -> float:
    """Sensitivity of X'Z, label privacy only, when ``||x_i||^2 ||z_i||^2 <= product_norm``."""
    return cross(product_norm, 1, adjacency)


def observed_counts(n_phenotypes: int) -> float:
    """Sensitivity, both adjacencies, of how many people each phenotype was observed in."""
    return _root(n_phenotypes)


def phenotype_moments(n_phenotypes: int, adjacency: Adjacency, *, unit: int = 2**20) -> float:
    """Sensitivity of ``(sum U, sum floor(U^2 / unit), unit n_j)`` over all phenotypes together.

    U are integers, ``|U| <= unit``; a missing one adds 0 to all three sums. Two opposite extremes
    are the farthest apart, also with the floors (docs/maths/counts-and-moments.md).

    Raises
    ------
    ValueError
        `unit` is below 3, where the floors could add to the distance.
    """
    if unit < 3:
        raise ValueError(f"a lattice of {unit} steps is too coarse")
    factor = 4 if adjacency is Adjacency.REPLACE_ONE else 3
    return _root(factor * n_phenotypes * unit**2)


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
    Valid, and attained, for svec and for equal upper-triangle noise. With label privacy X'X is
    public, and (Z'Z, X'Z) is the pair: its Gram share is ``N_z^2 / sigma3^2``, also where products
    of norms are clipped to ``N_x N_z``.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return gram_share + cross_share
    if cross_share <= 2 * gram_share:
        return (2 * gram_share + cross_share) ** 2 / (2 * gram_share) if gram_share > 0 else 0.0
    return 4 * cross_share


def stacked(row_norm: int, split: float) -> float:
    """Replace-one sensitivity of the Gram matrix of ``(x, k z)``, ``k^2 = split N_x / (2 N_z)``.

    One Gram matrix holds X'X, k X'Z and k^2 Z'Z, so noise ``sigma1`` on it is ``sigma1``,
    ``sigma1 / (sqrt2 k)`` and ``sigma1 / k^2`` on the three, and the last is free at every
    ``0 < split <= 2``: mu^2 equals ``pair(A, split A)``.
    """
    return _root(2 * (row_norm * (1 + Fraction(split) / 2)) ** 2)


def stacked_block(block_norm: int, row_norm: int, split: float) -> float:
    """`stacked` for one block, where the bounds beta_b of all blocks add up to at most N_x.

    ``sqrt(beta_b / N_x)`` times `stacked`, beside the same X'Z and Z'Z: the mean over blocks, with
    weights beta_b / N_x, of the Gram matrices of ``(x_b / sqrt(beta_b), k z / sqrt(N_x))``
    (docs/maths/blocks.md, Theorem 3).
    """
    return _root(2 * block_norm * row_norm * (1 + Fraction(split) / 2) ** 2)


def label_phenotype_gram_factor(phenotype_norm: int) -> float:
    """Label privacy, replace-one: sigma of Y'Y (svec) at mu = 1 that is free beside X'Y.

    `pair` with the roles exchanged: at ``cross_share = 2 gram_share`` mu^2 is that of X'Y alone,
    whose sigma is `cross`.
    """
    return _root(8 * phenotype_norm**2)


def block_gram_factor_add_remove(block_norm: int, row_norm: int) -> float:
    """Add-remove: sigma_b of ``X_b'X_b`` at which all blocks together have mu = 1.

    ``sum_b ||x_b||^4 / (beta_b N_x) <= sum_b ||x_b||^2 / N_x <= 1``. With X'Z and Z'Z the squared
    shifts add up, as in `pair`.
    """
    return _root(min(block_norm, row_norm) * row_norm)


def block_gram_factor(block_norm: int, row_norm: int, *, split: float = 2.0) -> float:
    """Replace-one: sigma_b of ``X_b'X_b`` (svec) in a joint release of blocks, X'Z and Z'Z.

    The same integer row, with ``||x_b||^2 <= beta_b`` in every block and ``||x||^2 <= N_x`` in
    total, must enter X'X and X'Z. Together with `cross_factor_by_block` and
    `outcome_gram_factor_by_block` at the same split, mu of the bundle is 1; for full and for
    feature privacy. Theorem, proof and worst neighbours: docs/maths/blocks.md, Theorem 4.

    Parameters
    ----------
    block_norm, row_norm
        beta_b and N_x.
    split
        t in (0, 2]. At 2 the factors are ``4 sqrt(beta_b N_x)``, ``2 sqrt(N_x N_z)`` and
        ``2 sqrt2 N_z``, and X'X is free beside X'Z; below, X'X gets less noise and X'Z more.

    Raises
    ------
    ValueError
        `split` is out of range.
    """
    total, _ = _block_terms(split)
    return _root(total * min(block_norm, row_norm) * row_norm)


def cross_factor_by_block(row_norm: int, outcome_norm: int, *, split: float = 2.0) -> float:
    """Replace-one: sigma of X'Z beside `block_gram_factor` at the same split."""
    total, tilt = _block_terms(split)
    return _root(total / (tilt * (3 + tilt**2)) * row_norm * outcome_norm)


def outcome_gram_factor_by_block(outcome_norm: int, *, split: float = 2.0) -> float:
    """Replace-one: sigma of Z'Z (svec) beside `block_gram_factor`; Z'Z is free at every split."""
    total, tilt = _block_terms(split)
    return _root(total * (1 + tilt**2) / (tilt**2 * (3 + tilt**2)) * outcome_norm**2)


def _block_terms(split: float) -> tuple[Fraction, Fraction]:
    """``2 (1 + tau)^3`` and ``tau = split / 2``, exact."""
    if not 0 < split <= 2:
        raise ValueError(f"the split must lie in (0, 2], not {split}")
    tilt = Fraction(split) / 2
    return 2 * (1 + tilt) ** 3, tilt


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
