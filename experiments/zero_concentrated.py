"""Best known conversion from rho-zCDP to (epsilon, delta), for comparison with the exact profile.

Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Corollary 13:
``delta = inf_{a > 1} exp((a-1)(a rho - eps)) / (a-1) (1 - 1/a)^a``. This is what discrete-Gaussian
accounting uses; the product's exact profile needs 5 to 7% less noise (docs/maths/calibration.md).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar

_LOG_ORDERS = np.linspace(-8.0, 12.0, 401)


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
