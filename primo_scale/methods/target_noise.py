"""Covariance across phenotypes of the noise in X'Y.

The noise that a release adds to X'Y is independent between phenotypes. Public scores also subtract
noisy predictions from X'Y: an error in X'X moves all phenotypes that have the same score. An
estimator that neglects the covariance of these errors takes them for effects that the phenotypes
share (docs/maths/genetic-factors.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from primo_scale.methods.shrinkage import Float64


@dataclass(frozen=True, eq=False)
class TargetNoise:
    """Covariance ``diag(own) + shared' shared`` of the noise in a row of X'Y, shape (l, l)."""

    own: Float64  # variance of the noise that each phenotype has alone, shape (l,)
    shared: Float64  # effects of independent errors on every phenotype, shape (errors, l)

    @classmethod
    def of(cls, own: Float64) -> TargetNoise:
        """Return independent noise."""
        return cls(own, np.zeros((0, len(own))))

    @property
    def variances(self) -> Float64:
        """Variance of the noise of each phenotype, shape (l,)."""
        return np.asarray(self.own + (self.shared**2).sum(axis=0))

    def along(self, basis: Float64) -> Float64:
        """Return the variance of each combination of phenotypes, in the columns of `basis`."""
        return np.asarray(self.own @ basis**2 + ((self.shared @ basis) ** 2).sum(axis=0))

    def matrix(self) -> Float64:
        """Return the covariance, shape (l, l)."""
        return np.asarray(np.diag(self.own) + self.shared.T @ self.shared)

    def with_errors(self, covariance: Float64, effects: Float64) -> TargetNoise:
        """Return the noise with further errors.

        They have the given covariance, shape (e, e), and the given effects on phenotypes, shape
        (e, l).
        """
        values, vectors = np.linalg.eigh(covariance)
        roots = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
        return TargetNoise(self.own, np.vstack([self.shared, roots @ effects]))

    def relative_to(self, variance: float) -> TargetNoise:
        """Return the covariance divided by a variance."""
        return TargetNoise(self.own / variance, self.shared / np.sqrt(variance))
