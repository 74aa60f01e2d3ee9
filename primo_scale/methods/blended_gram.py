"""X'X of one LD block of components, from noisy sums and what a panel expects.

Source: docs/maths/ld-components.md, below Theorem 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from primo_scale.methods.shrinkage import FLOOR_SHARE, Float64, noise_norm

# Smallest eigenvalue relative to the largest, so that X'X without noise can be inverted.
_LEAST_EIGENVALUE = 1e-9


@dataclass(frozen=True, eq=False)
class Blend:
    """Posterior mean of X'X of one LD block, given the noisy one and a panel."""

    gram: Float64  # shape (m, m)
    kept: Float64  # weights of the noisy entries, whose noise has this share left, shape (m, m)
    expected: Float64  # expected diagonal, shape (m,)
    sigma: float  # standard deviation of the noise on the diagonal of the noisy X'X

    def variance_of(self, effects: Float64) -> Float64:
        """Return the variance of ``b'S b`` for each column b, shape (k,)."""
        squares = effects**2
        return np.asarray(self.sigma**2 * (squares * (self.kept @ squares)).sum(axis=0))

    def product_variances(self, squares: Float64) -> Float64:
        """Return the variances of the entries of ``S b``, shape (m, k).

        `squares` are those of the effects b in columns, or their means if b is random.
        """
        shares = self.kept @ squares + self.kept.diagonal()[:, None] * squares
        return np.asarray(self.sigma**2 / 2 * shares)

    def mean_covariance(self, effects: Float64) -> Float64:
        """Return the covariance of the columns of ``S b``, the mean over rows, shape (k, k)."""
        means = self.kept.mean(axis=0) + self.kept.diagonal() / len(self.kept)
        return np.asarray(self.sigma**2 / 2 * (effects.T * means) @ effects)

    def raised(self) -> Float64:
        """Return X'X with its eigenvalues raised to the floor, shape (m, m)."""
        noise = noise_norm(self.sigma, len(self.gram)) * float(self.kept.mean())
        values, vectors = np.linalg.eigh(self.gram)
        floor = max(FLOOR_SHARE * noise, _LEAST_EIGENVALUE * max(float(values[-1]), 1.0))
        return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def blended(noisy: Float64, sigma: float, expected: Float64, n_known: float) -> Blend:
    """Return X'X of one block, blended with its expectation.

    `sigma` is the standard deviation of the noise on the diagonal, whose expectation is `expected`,
    shape (m,). Entry (i, j) without noise has the variance ``expected[i] expected[j] / n_known``
    around its expectation, as in a sample of `n_known` people.
    """
    noise = np.full_like(noisy, sigma**2 / 2)
    np.fill_diagonal(noise, sigma**2)
    kept = np.outer(expected, expected) / n_known
    kept /= kept + noise
    gram = kept * noisy
    gram[np.diag_indices_from(gram)] += (1 - kept.diagonal()) * expected
    return Blend(gram, kept, expected, sigma)
