"""diffprivlib's LinearRegression, run by `experiments.other_libraries` where it is installed.

    python -m experiments.diffprivlib_regression INPUTS.npz RESULT.npz

The inputs are X, Y, their symmetric bounds x_bounds, shape (d,), and y_bound, epsilon and seed.
One fit serves all outcomes: the functional mechanism adds Laplace noise to every coefficient of the
squared loss, with an equal share of epsilon, and X'X is shared by the outcomes. It has no delta.
Bounds are symmetric because diffprivlib 0.6.6 takes the sensitivity of the diagonal of X'X from the
lower bound alone.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from diffprivlib.models import LinearRegression


def main() -> None:
    """Read the inputs, fit, and save weights and CPU seconds."""
    inputs = np.load(sys.argv[1])
    x_bounds, y_bound = inputs["x_bounds"], float(inputs["y_bound"])
    y_bounds = np.full(inputs["Y"].shape[1], y_bound)
    model = LinearRegression(
        epsilon=float(inputs["epsilon"]),
        bounds_X=(-x_bounds, x_bounds),
        bounds_y=(-y_bounds, y_bounds),
        fit_intercept=False,
        random_state=int(inputs["seed"]),
    )
    start = time.process_time()
    model.fit(inputs["X"], np.clip(inputs["Y"], -y_bound, y_bound))
    np.savez(sys.argv[2], weights=model.coef_.T, cpu_seconds=time.process_time() - start)


if __name__ == "__main__":
    main()
