"""Ridge penalties of the sufficient-statistics-perturbation family (docs/maths/estimation.md).

SSP solves with ridge 1. AdaSSP measures the smallest eigenvalue of X'X with a share of the budget,
and its penalty covers only the part of the noise norm that exceeds this eigenvalue. constSSPfull
does not measure the eigenvalue, and its penalty covers the whole noise norm. The formulas are those
of the thesis on differentially private ridge regression. The noise and the constants are those of
this project: the noise is calibrated jointly, the bound on its norm is that of the svec layout, and
1 means one squared unit of the genotype coding.
"""

from __future__ import annotations

import math

from primo_scale.methods.shrinkage import Ridge


def unit_ridge(unit: int) -> Ridge:
    """Return the rule of SSP: ridge 1, which is ``unit^2`` on a lattice of `unit` steps."""
    return Ridge(float(unit**2))


def eigenvalue_bound(noisy_smallest: float | None, sigma: float, delta: float) -> float:
    """Return a lower bound on the smallest eigenvalue of X'X.

    The bound is ``max(noisy - sigma sqrt(2 log(2/delta)), 0)``, or 0 if the eigenvalue was not
    measured. It fails with probability below delta/2.

    Parameters
    ----------
    noisy_smallest : float or None
        Smallest eigenvalue of X'X with Gaussian noise, or None if it was not measured.
    sigma : float
        Standard deviation of the noise.
    delta : float
        Delta of the privacy promise.
    """
    if noisy_smallest is None:
        return 0.0
    return max(noisy_smallest - sigma * math.sqrt(2 * math.log(2 / delta)), 0.0)


def adaptive_ridge(noise_norm: float, *, smallest: float, unit: int) -> Ridge:
    """Return the rule of AdaSSP: ridge ``max(0, noise norm - smallest) + 1``.

    Parameters
    ----------
    noise_norm : float
        Bound on the norm of the noise in X'X of the block, from `shrinkage.noise_norm`.
    smallest : float
        Lower bound from `eigenvalue_bound`; with 0 the rule is constSSPfull. The bound is on X'X
        before adjustment for covariates, which can only lower the eigenvalue.
    unit : int
        Number of lattice steps per unit of the genotype coding.
    """
    return Ridge(max(0.0, noise_norm - smallest) + unit**2)
