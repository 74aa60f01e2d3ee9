"""Linear models of all phenotypes, from block statistics.

For one LD block with lattice genotypes X, fixed columns C (the constant and the covariates, not
shrunk) and phenotypes Y, with S and G adjusted for C (`primo_scale.methods.adjustment`)::

    S = V diag(lambda) V'      one eigendecomposition for all phenotypes
    W = V (f * V'G)            f: a rule of `primo_scale.methods.shrinkage`
    B = (C'C)^-1 (C'Y - sum over blocks of C'X W)

Eigenvalues that noise makes negative count as zero. On private statistics all of these
computations are post-processing: docs/maths/estimation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from primo_scale.methods.adjustment import Adjustment
from primo_scale.methods.shrinkage import Float64, Shrinkage
from primo_scale.methods.spectrum import Spectrum


@dataclass(frozen=True)
class LatticeWeights:
    """Weights of coded genotypes and coded fixed columns.

    Attributes
    ----------
    genotypes : ndarray of float64, shape (d, l)
        Weights W of the variants.
    fixed : ndarray of float64, shape (1 + c, l)
        Weights B of the constant and the covariates, in this order.
    """

    genotypes: Float64
    fixed: Float64


def solve(
    spectra: Iterable[Spectrum],
    rule_for: Callable[[Spectrum], Shrinkage],
    adjustment: Adjustment,
) -> tuple[LatticeWeights, list[Shrinkage]]:
    """Return the weights of every block and phenotype, and the rule of each spectrum.

    The spectra were made with `adjustment` and together cover every phenotype in every block.
    """
    layout = adjustment.statistics.layout
    genotypes = np.empty((layout.n_variants, layout.n_phenotypes))
    residual = adjustment.fixed_phenotypes.copy()
    rules = []
    for spectrum in spectra:
        rule = rule_for(spectrum)
        coefficients = rule.factors(spectrum.values, spectrum.target) * spectrum.target
        weights = spectrum.vectors @ coefficients
        genotypes[layout.variants(spectrum.block), spectrum.phenotypes] = weights
        residual[:, spectrum.phenotypes] -= spectrum.fixed_cross.T @ weights
        rules.append(rule)
    return LatticeWeights(genotypes, adjustment.fixed_inverse @ residual), rules


def missing_rescale(observed: Float64, n_samples: float) -> Float64:
    """Return the factor n / max(n_j, n/10), which corrects for zero-filled missing phenotypes.

    The factor is valid if values are missing completely at random
    (docs/maths/counts-and-moments.md).

    Parameters
    ----------
    observed : ndarray of float64, shape (l,)
        Number of people with each phenotype: noisy, or exact for a release stamped NOT PRIVATE.
    n_samples : float
        Number of people n, noisy where it is private.
    """
    return n_samples / np.clip(observed, n_samples / 10, n_samples)
