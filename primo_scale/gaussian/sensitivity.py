"""Sensitivities of the statistics that the product releases, with proofs in docs/maths.

All bounds are public integers in squared lattice units: ``row_norm`` is an upper bound N_x on
``||x_i||^2``, ``block_norm`` is a bound beta_b on its part in one LD block, and ``outcome_norm`` is
a bound N_z on ``||z_i||^2``. No bound contains a floating-point number, so the formulas hold for
the integers that are summed. Every result is an l2 (Frobenius) distance, rounded up.

The constants for add-remove also hold for replacing a row by zeros with public n and, with label
privacy, for setting one person's phenotypes to missing. With label privacy ``row_norm`` is the
largest norm of the public rows; with feature privacy ``outcome_norm`` is the largest norm of the
public outcomes. A constant column kappa adds ``kappa^2`` to the bound of its side.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction


class Adjacency(StrEnum):
    """Neighbouring relation between cohorts."""

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"


class PrivacyUnit(StrEnum):
    """Protected part of a person's data: everything, the phenotypes, or the genotypes."""

    FULL = "full"
    LABEL = "label"
    FEATURE = "feature"


def gram(row_norm: int, adjacency: Adjacency) -> float:
    """Return the sensitivity of X'X in Frobenius norm, whole or any diagonal blocks of it.

    The upper triangle with equal noise and the svec (half the noise variance off the diagonal) have
    the same sensitivity. Under replace-one, two orthogonal rows attain ``sqrt(2) N_x``. A single
    column has no orthogonal rows and moves by at most ``N_x``.
    Source: docs/maths/sensitivity.md, Theorem 1 (a).
    """
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * row_norm**2)


def smallest_eigenvalue(row_norm: int, *, n_samples: int, n_columns: int) -> float:
    """Return the sensitivity of the computed smallest eigenvalue of X'X, rounded down.

    It holds for both adjacencies. The eigenvalue moves by at most N_x (in spectral norm), rounding
    down adds 1, and the error of the solver, at most ``16 d 2^-53 n N_x``, counts twice. The
    smallest eigenvalue of all LD blocks moves by at most as much as that of one block: `n_columns`
    is then the size of the largest block, and `row_norm` may be the largest ``min(beta_b, N_x)``.
    Source: docs/maths/sensitivity.md, Theorem 1 (b).
    """
    solver_error = Fraction(16 * n_columns * n_samples * row_norm, 2**53)
    return _float_up(row_norm + 1 + 2 * solver_error)


def cross(row_norm: int, outcome_norm: int, adjacency: Adjacency) -> float:
    """Return the sensitivity of X'Z for every privacy unit, with the two bounds of that unit.

    Source: docs/maths/sensitivity.md, Theorem 1 (d).
    """
    factor = 4 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * row_norm * outcome_norm)


def cross_of_clipped_products(product_norm: int, adjacency: Adjacency) -> float:
    """Return the sensitivity of X'Z if ``||x_i||^2 ||z_i||^2 <= product_norm``: label privacy.

    Source: docs/maths/sensitivity.md, Theorem 1 (d).
    """
    return cross(product_norm, 1, adjacency)


def observed_counts(n_phenotypes: int) -> float:
    """Return the sensitivity of the counts of observed phenotypes, for both adjacencies.

    Source: docs/maths/sensitivity.md, Theorem 1 (e).
    """
    return _root(n_phenotypes)


def adjustment(norm: int, adjacency: Adjacency) -> float:
    """Return the sensitivity of the Gram matrices (svec) of (c, y) of all phenotypes together.

    The rows v_j of a person satisfy ``sum_j |v_j|^4 <= norm^2``.
    Source: docs/maths/adjustment.md, Theorem 1.
    """
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return _root(factor * norm**2)


def held_out_counts(n_phenotypes: int) -> float:
    """Return the sensitivity of counts of people held out, for every phenotype.

    One person moves from one count to another for each phenotype: replace-one.
    Source: docs/maths/hold-out.md, Theorem 2.
    """
    return _root(2 * n_phenotypes)


def held_out_gram(n_phenotypes: int, row_norm: int) -> float:
    """Return the sensitivity of one Gram matrix (svec) for each phenotype, all together.

    The row of a person and a phenotype has a squared norm of at most `row_norm`: replace-one.
    Source: docs/maths/hold-out.md, Theorem 2.
    """
    return _root(2 * n_phenotypes * row_norm**2)


def stacked(row_norm: int, split: float) -> float:
    """Return the replace-one sensitivity of the Gram matrix of ``(x, k z)``.

    ``k^2 = split N_x / (2 N_z)``. This Gram matrix contains X'X, k X'Z and k^2 Z'Z, so that noise
    sigma1 on it is noise ``sigma1``, ``sigma1 / (sqrt2 k)`` and ``sigma1 / k^2`` on the three. The
    last one is free for ``0 < split <= 2``, because it adds nothing to mu^2.
    Source: docs/maths/sensitivity.md, Theorem 2, case ``stacked``.
    """
    return _root(2 * (row_norm * (1 + Fraction(split) / 2)) ** 2)


def stacked_block(block_norm: int, row_norm: int, split: float) -> float:
    """Return `stacked` for one LD block, if the bounds of all blocks add up to at most N_x.

    It is ``sqrt(beta_b / N_x)`` times `stacked`, beside the same X'Z and Z'Z. The proof averages,
    with weights beta_b / N_x, the Gram matrices of ``(x_b / sqrt(beta_b), k z / sqrt(N_x))``.
    Source: docs/maths/sensitivity.md, Theorem 2, case ``stacked`` with LD blocks.
    """
    return _root(2 * block_norm * row_norm * (1 + Fraction(split) / 2) ** 2)


def label_phenotype_gram_factor(phenotype_norm: int) -> float:
    """Return sigma of Y'Y (svec) at mu = 1 that is free beside X'Y: label privacy, replace-one.

    Source: docs/maths/sensitivity.md, Theorem 2, case ``label``.
    """
    return _root(8 * phenotype_norm**2)


def block_gram_factor_add_remove(block_norm: int, row_norm: int) -> float:
    """Return sigma_b of ``X_b'X_b`` at which all blocks together have mu = 1: add-remove.

    ``sum_b ||x_b||^4 / (beta_b N_x) <= sum_b ||x_b||^2 / N_x <= 1``. The squared shifts of X'Z and
    Z'Z are added to it.
    Source: docs/maths/sensitivity.md, Theorem 2, case ``add-remove``.
    """
    return _root(min(block_norm, row_norm) * row_norm)


def block_gram_factor(block_norm: int, row_norm: int, *, split: float) -> float:
    """Return sigma_b of ``X_b'X_b`` (svec) in a joint release of blocks, X'Z and Z'Z: replace-one.

    The same integer row, with ``||x_b||^2 <= beta_b`` in every block and ``||x||^2 <= N_x`` in
    total, must enter X'X and X'Z. Together with `cross_factor_by_block` and
    `outcome_gram_factor_by_block` at the same split t, the release has mu = 1, for full and for
    feature privacy. At t = 2 the factors are ``4 sqrt(beta_b N_x)``, ``2 sqrt(N_x N_z)`` and
    ``2 sqrt2 N_z``, and X'X is free beside X'Z. A smaller split reduces the noise on X'X and
    increases that on X'Z. A split outside of (0, 2] raises a ValueError.
    Source: docs/maths/sensitivity.md, Theorem 2, case ``by-block``.
    """
    total, _ = _block_terms(split)
    return _root(total * min(block_norm, row_norm) * row_norm)


def cross_factor_by_block(row_norm: int, outcome_norm: int, *, split: float) -> float:
    """Return sigma of X'Z beside `block_gram_factor` at the same split: replace-one.

    Source: docs/maths/sensitivity.md, Theorem 2, case ``by-block``.
    """
    total, tilt = _block_terms(split)
    return _root(total / (tilt * (3 + tilt**2)) * row_norm * outcome_norm)


def outcome_gram_factor_by_block(outcome_norm: int, *, split: float) -> float:
    """Return sigma of Z'Z (svec) beside `block_gram_factor`, free at every split: replace-one.

    Source: docs/maths/sensitivity.md, Theorem 2, case ``by-block``.
    """
    total, tilt = _block_terms(split)
    return _root(total * (1 + tilt**2) / (tilt**2 * (3 + tilt**2)) * outcome_norm**2)


def _block_terms(split: float) -> tuple[Fraction, Fraction]:
    """Return ``2 (1 + tau)^3`` and ``tau = split / 2``, exactly."""
    if not 0 < split <= 2:
        raise ValueError(f"the split must lie in (0, 2], not {split}")
    tilt = Fraction(split) / 2
    return 2 * (1 + tilt) ** 3, tilt


def _root(squared: int | Fraction) -> float:
    """Return the square root, rounded up to a float64 whose exact square is at least `squared`."""
    root = math.sqrt(squared)
    while Fraction(root) ** 2 < squared:
        root = math.nextafter(root, math.inf)
    return root


def _float_up(value: Fraction) -> float:
    """Return the nearest float64 that is not below `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
