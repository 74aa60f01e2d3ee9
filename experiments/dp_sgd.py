"""DP-SGD for least squares, one outcome after the other, with one guarantee for all of them.

Every step uses all people, a full batch, for which the accounting is exact. Smaller batches were no
more accurate (docs/papers/baselines.md). T steps for each of l outcomes are one Gaussian mechanism
with ``mu = 2 sqrt(l T) / z`` under replace-one, and half of that under add-remove, where ``z C`` is
the standard deviation of the noise on a sum of gradients that are clipped to the norm C. The
gradient of a person is ``x (x.w - y)``, so it is clipped by clipping the residual. The outcomes run
side by side, each with its own clipping and noise, as in a loop over outcomes.
`experiments.opacus_dp_sgd` is the same algorithm by Opacus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from experiments.gaussian_noise import Float64
from primo_scale.gaussian.calibration import mu_for
from primo_scale.gaussian.sensitivity import Adjacency


@dataclass(frozen=True)
class Training:
    """Hyperparameters of DP-SGD."""

    steps: int  # number T for each outcome
    # Largest norm C of a person's gradient, in units of the root mean square norm of a row times
    # the standard deviation of an outcome.
    clip: float
    rate: float  # step size, in units of the reciprocal of the mean eigenvalue of ``X'X / n``

    def absolute(self, X: Float64, Y: Float64) -> tuple[float, float]:
        """Return the clip and the step size for data, whose mean squares count as public."""
        row = float((X**2).sum()) / len(X)
        return self.clip * math.sqrt(row * float((Y**2).mean())), self.rate * X.shape[1] / row


def noise_multiplier(epsilon: float, delta: float, *, n_steps: int, adjacency: Adjacency) -> float:
    """Return z, the noise on a sum of gradients in units of the clip.

    `n_steps` counts the steps of all outcomes together.
    """
    moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return moved * math.sqrt(n_steps) / mu_for(epsilon, delta)


def dp_sgd(
    X: Float64, Y: Float64, training: Training, multiplier: float, rng: np.random.Generator
) -> Float64:
    """Return the weights after the last step, shape (d, l); they start at zero.

    X are centred features, shape (n, d), Y outcomes, shape (n, l), and `multiplier` is that of
    `noise_multiplier`.
    """
    clip, rate = training.absolute(X, Y)
    limit = clip / np.maximum(np.linalg.norm(X, axis=1), 1e-300)[:, None]
    W = np.zeros((X.shape[1], Y.shape[1]))
    for _ in range(training.steps):
        residuals = X @ W - Y
        np.clip(residuals, -limit, limit, out=residuals)
        noise = multiplier * clip * rng.standard_normal(W.shape)
        W -= rate / len(X) * (X.T @ residuals + noise)
    return W
