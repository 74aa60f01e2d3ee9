"""How well released weights fit the cohort they came from, told by noisy statistics alone.

For weights W of a phenotype y, both adjusted for the fixed columns, the exact in-sample figure is
``R^2 = (2 W'G - W'S W) / y'y``. On noisy S and G each part is off, because W was made of the very
noise it meets there; the expected error is known and taken off (`block_terms`). R^2 is that of the
clipped phenotypes on the lattice, people with missing values made up for by the others.

With several LD blocks the covariance between scores of different blocks is in no statistic and is
left out: where blocks are correlated R^2 comes out too high, by what they predict twice.

Everything here is post-processing of private statistics, so the results may be published.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from primo_scale.methods.adjustment import Adjustment
from primo_scale.methods.shrinkage import Float64, Shrinkage
from primo_scale.methods.spectrum import Spectrum

# A sum of squares of a phenotype below this many sigmas of its own noise is no divisor.
_SIGMAS_OVER_NOISE = 3
# Step, in sigmas of the noise in X'X, of the difference that stands for a derivative. Rules change
# over the noise norm, which is never below four sigmas.
_STEP = 1e-3
# Rows of the matrix of eigenvalue gaps that are held at a time.
GAP_ROWS = 1024


@dataclass(frozen=True)
class Fit:
    """In-sample R^2 of every phenotype, None where the phenotype is lost in noise or constant.

    Attributes
    ----------
    r_squared
        Length l. Noise can bring it below 0.
    sigma
        Standard deviation of the error that noise gives it; without noise 0.
    """

    r_squared: tuple[float | None, ...]
    sigma: tuple[float | None, ...]


@dataclass(frozen=True)
class FitTerms:
    """Sum of squares that a block explains, and the variance of its error.

    Attributes
    ----------
    explained, variance
        Shapes (l,).
    """

    explained: Float64
    variance: Float64


def block_terms(spectrum: Spectrum, rule: Shrinkage, coefficients: Float64) -> FitTerms:
    """Estimate ``2 W'G - W'S W`` of one block.

    Parameters
    ----------
    spectrum, rule
        What the weights were solved from, and how.
    coefficients
        V'W, shape (d_b, l).

    Notes
    -----
    Noise s N in G adds ``2 s^2 trace(dW/dG)`` to the expectation of ``2 W'G`` (Stein's lemma; the
    trace is that of the linear smoother where the rule is linear). Noise E in S adds
    ``E[W'E W] = sum_ij var(E_ij) d(W_i W_j)/dE_ij`` to that of ``W'S W``, where a rule's W, a
    function of S, changes by its divided differences ``f[i,k] = (f_i - f_k)/(lambda_i -
    lambda_k)`` in the basis of eigenvectors: with variance sigma^2 on the diagonal and half of it
    beside it that is ``sigma^2 sum_i W_i H_i (sum_{k != i} f[i,k] + 2 f'_i)``. What it costs that
    a penalty was chosen by the same data is left out, and so is noise in the adjustment.
    """
    squares = coefficients**2
    explained = 2 * _column_products(coefficients, spectrum.measured)
    explained -= spectrum.raw_values @ squares
    slopes = rule.slopes(spectrum.values, spectrum.target)
    leverage = spectrum.measured_sigma**2 * spectrum.target_gain
    explained -= 2 * leverage * slopes.sum(axis=0)
    if spectrum.gram_sigma > 0:
        changed = _gram_response(spectrum, rule) * coefficients
        explained += spectrum.gram_sigma**2 * _column_products(changed, spectrum.target)
    norms = squares.sum(axis=0)
    variance = 4 * spectrum.measured_sigma**2 * norms + (spectrum.gram_sigma * norms) ** 2
    variance += 4 * leverage**2 * (slopes**2).sum(axis=0)
    return FitTerms(explained, variance)


def summarise(terms: FitTerms, adjustment: Adjustment) -> Fit:
    """Divide what all blocks explain by the sum of squares of each phenotype about C.

    Parameters
    ----------
    terms
        Summed over blocks.
    adjustment
        Of the same statistics.
    """
    total, variance = _sums_of_squares(adjustment)
    known = total > _SIGMAS_OVER_NOISE * np.sqrt(variance)
    divisor = np.where(known, total, 1.0)
    r_squared = terms.explained / divisor
    sigma = np.sqrt(terms.variance + r_squared**2 * variance) / divisor
    return Fit(_where(known, r_squared), _where(known, sigma))


def _sums_of_squares(adjustment: Adjustment) -> tuple[Float64, Float64]:
    """``y'y - y'C (C'C)^-1 C'y`` of each phenotype and the variance of its noise, shapes (l,)."""
    scales, rescale = adjustment.scales, adjustment.rescale
    n_fixed = adjustment.statistics.layout.n_fixed
    crude = adjustment.statistics.outcome_gram().diagonal()[n_fixed:] * rescale
    fitted = adjustment.fixed_inverse @ adjustment.fixed_phenotypes
    noise = (scales.fixed_phenotype * rescale) ** 2
    by_fixed = _column_products(fitted, adjustment.fixed_phenotypes)
    total = crude - by_fixed + noise * np.trace(adjustment.fixed_inverse)
    rounding = 16 * (n_fixed + 1) * np.finfo(np.float64).eps * np.abs(crude)
    variance = (scales.phenotype_gram * rescale) ** 2 + 4 * noise * (fitted**2).sum(axis=0)
    return np.where(total > rounding, total, 0.0), variance


def _gram_response(spectrum: Spectrum, rule: Shrinkage) -> Float64:
    """``sum_{k != i} f[i,k] + 2 f'_i`` for every direction i, of the shape of f."""
    values = spectrum.raw_values
    factors = rule.factors(spectrum.values, spectrum.target)
    step = _STEP * spectrum.gram_sigma
    above, below = (
        rule.factors(np.maximum(values + side, 0), spectrum.target) for side in (step, -step)
    )
    response = np.asarray((above - below) / step)
    for start in range(0, len(values), GAP_ROWS):
        rows = slice(start, start + GAP_ROWS)
        gaps = values[rows, None] - values
        inverse = np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps != 0)
        response[rows] += factors[rows] * inverse.sum(axis=1, keepdims=True) - inverse @ factors
    return response


def _column_products(left: Float64, right: Float64) -> Float64:
    """Inner product of each column of one with the same of the other."""
    return np.asarray(np.einsum("ij,ij->j", left, right))


def _where(known: np.ndarray, values: Float64) -> tuple[float | None, ...]:
    return tuple(float(v) if k else None for k, v in zip(known, values, strict=True))
