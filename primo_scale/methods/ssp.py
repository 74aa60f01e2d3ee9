"""Ridge penalties of the sufficient-statistics-perturbation family (docs/maths/estimation.md).

SSP solves with ridge 1. AdaSSP measures the smallest eigenvalue of X'X with a share of the budget
and adds only what the noise in X'X may take away beyond it; constSSPfull measures nothing and adds
all of that. The forms are those of the thesis on differentially private ridge regression; the
noise is this project's own, calibrated jointly, and so are the constants: the bound on the norm of
the noise is that of the svec layout, and 1 is one squared unit of the genotype coding.
"""

from __future__ import annotations

import math

from primo_scale.methods.shrinkage import Ridge


def unit_ridge(unit: int) -> Ridge:
    """SSP: ridge 1, which is ``unit^2`` on a lattice of `unit` steps."""
    return Ridge(float(unit**2))


def eigenvalue_bound(noisy_smallest: float | None, sigma: float, delta: float) -> float:
    """Lower bound on the smallest eigenvalue of X'X; fails with probability below delta/2.

    ``max(noisy - sigma sqrt(2 log(2/delta)), 0)``, and 0 where it was not measured.

    Parameters
    ----------
    noisy_smallest
        Smallest eigenvalue of X'X with Gaussian noise, or None.
    sigma
        Standard deviation of that noise.
    delta
        Of the promise.
    """
    if noisy_smallest is None:
        return 0.0
    return max(noisy_smallest - sigma * math.sqrt(2 * math.log(2 / delta)), 0.0)


def adaptive_ridge(noise_norm: float, *, smallest: float, unit: int) -> Ridge:
    """AdaSSP: ``max(0, noise norm - smallest) + 1``.

    Parameters
    ----------
    noise_norm
        Bound on the norm of the noise in this block's X'X: `shrinkage.noise_norm`.
    smallest
        From `eigenvalue_bound`; 0 makes it constSSPfull. It is of X'X before covariates are
        adjusted for, which can only lower it.
    unit
        Lattice steps to one unit of the coding.
    """
    return Ridge(max(0.0, noise_norm - smallest) + unit**2)
