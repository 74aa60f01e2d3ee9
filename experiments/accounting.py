"""Privacy accounting that the product does not use, for comparison with its own.

`pair` is the joint shift of X'X and X'Z at any noise (docs/maths/sensitivity.md, Theorem 2), which
the product needs only at the scales of `primo_scale.gaussian.sensitivity.stacked`. `zcdp_sigma` is
the best conversion known from rho-zCDP to (epsilon, delta), which discrete-Gaussian accounts use:
``delta = inf_{a > 1} exp((a-1)(a rho - eps)) / (a-1) (1 - 1/a)^a`` (Canonne, Kamath and Steinke,
"The Discrete Gaussian for Differential Privacy", 2020, Corollary 13). The product's exact profile
needs 5 to 7% less noise (docs/maths/noise.md).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from primo_scale.gaussian.sensitivity import Adjacency

_LOG_ORDERS = np.linspace(-8.0, 12.0, 401)


def pair(gram_share: float, cross_share: float, adjacency: Adjacency) -> float:
    """Return the squared shift mu^2 of a joint release of (X'X, X'Z), full or feature privacy.

    Under replace-one no neighbours attain both sensitivities: that of X'X needs orthogonal rows,
    and that of X'Z needs opposite rows. Source: docs/maths/sensitivity.md, Theorem 2.

    The shares are ``A = N_x^2 / sigma1^2`` and ``D = N_x N_z / sigma2^2``. The bound is valid and
    attained for svec noise and for equal noise on the upper triangle. With label privacy X'X is
    public, and the pair is (Z'Z, X'Z) with Gram share ``N_z^2 / sigma3^2``, also if products of
    norms are clipped to ``N_x N_z``.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return gram_share + cross_share
    if cross_share <= 2 * gram_share:
        return (2 * gram_share + cross_share) ** 2 / (2 * gram_share) if gram_share > 0 else 0.0
    return 4 * cross_share


def log_delta_of_rho(rho: float, epsilon: float) -> float:
    """Return the natural logarithm of the delta that rho-zCDP guarantees at `epsilon`."""

    def exponent(log_order: float) -> float:
        """Return the exponent to minimize, at order ``1 + exp(log_order)``."""
        order_less_1 = math.exp(log_order)
        order = 1 + order_less_1
        return (
            order_less_1 * (order * rho - epsilon)
            - log_order
            + order * (log_order - math.log(order))
        )

    values = [exponent(log_order) for log_order in _LOG_ORDERS]
    best = int(np.argmin(values))
    bracket = _LOG_ORDERS[max(best - 1, 0)], _LOG_ORDERS[min(best + 1, len(values) - 1)]
    found = minimize_scalar(exponent, bounds=bracket, method="bounded", options={"xatol": 1e-10})
    return min(float(found.fun), values[best])


def zcdp_sigma(epsilon: float, delta: float) -> float:
    """Return the sigma per unit sensitivity of this conversion, ``1 / sqrt(2 rho)``."""
    loose = (math.sqrt(epsilon + math.log(1 / delta)) - math.sqrt(math.log(1 / delta))) ** 2
    log_rho = brentq(
        lambda log: log_delta_of_rho(math.exp(log), epsilon) - math.log(delta),
        math.log(loose) - 1,
        math.log(loose) + 2,
        xtol=1e-13,
    )
    return 1 / math.sqrt(2 * math.exp(log_rho))
