"""Division of a genotype row's norm among the components of linkage disequilibrium.

Noise on X'Y has the same variance for every column and grows with the bound on the norm of a row.
Component j, with the share pi_j of the genotypes' variance, is scaled to a variance e_j. By the
spectral planner (docs/maths/planner.md) it then explains of the heritability ::

    pi_j u_j / (1 + u_j),    u_j = a_j e_j / (v e_j + s^2),    a_j = n h2 c^2 pi_j

where the noise variance s^2 is that of a row whose variances e_j add up to 1. The sum is concave in
e, so that its maximum has the closed form of water-filling (docs/maths/ld-components.md,
Theorem 2).
"""

from __future__ import annotations

import numpy as np

from primo_scale.privacy.planning import Floats

_HALVINGS = 60


def fill(shares: Floats, signal: Floats, residual: float, noise: float) -> Floats:
    """Return the variances e of the components that maximise the explained heritability.

    They add up to 1, and a component that is not worth its noise has 0. `shares` are the shares pi
    of the genotypes' variance, above 0, and `signal` is the squared signal a for one person's
    phenotype of variance 1, both of shape (m,). `residual` is the variance v of a clipped
    phenotype, and `noise` the variance s^2 that noise adds to one person's phenotype in a column of
    variance 1. Without noise the variances are the shares.
    """
    if noise <= 0:
        return np.asarray(shares / shares.sum())
    height = np.sqrt(shares * signal * noise)
    low = high = noise / float(height.max())  # the water that leaves every component dry
    while _levels(height, signal, residual, noise, high).sum() < 1:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        total = float(_levels(height, signal, residual, noise, middle).sum())
        low, high = (middle, high) if total < 1 else (low, middle)
    levels = _levels(height, signal, residual, noise, high)
    return np.asarray(levels / levels.sum())


def _levels(height: Floats, signal: Floats, residual: float, noise: float, water: float) -> Floats:
    return np.asarray(np.maximum(height * water - noise, 0.0) / (residual + signal))
