"""Variances of normal signals in noise, of the largest likelihood."""

from __future__ import annotations

from primo_scale.methods.shrinkage import Float64

# Weight of the prior: that of an estimate whose standard error is 0.7 times the prior's variance.
_PRIOR_INFORMATION = 4.0
_ROUNDS, _PRECISION = 100, 1e-3


def likeliest_variances(
    exposures: Float64, squares: Float64, noise: Float64, prior: Float64, *, weight: float = 1.0
) -> Float64:
    """Return the variance w of each column that maximises the likelihood times the prior.

    The squares and the noise, of shape (m, l), have the expectations ``noise + w exposures``.
    `weight` multiplies the information of the prior, of shape (l,), from which Fisher's scoring
    starts.
    """
    scales, known = prior.copy(), weight * _PRIOR_INFORMATION
    for column, expected in enumerate(prior):
        square, plain = squares[:, column], noise[:, column]
        for _ in range(_ROUNDS):
            before = scales[column]
            weights = exposures / (plain + before * exposures) ** 2
            information = float(weights @ exposures) + known / expected**2
            score = float(weights @ (square - plain)) + known / expected
            scales[column] = max(score / information, 0.0)
            if abs(scales[column] - before) <= _PRECISION * max(before, _PRECISION):
                break
    return scales
