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


@dataclass(frozen=True)
class ShrunkWeights:
    """Weights and the shrinkage rules that produced them.

    Attributes
    ----------
    weights : LatticeWeights
        Weights on the lattice.
    rules : tuple of Shrinkage
        Shrinkage rule of each spectrum, in the order of the spectra.
    """

    weights: LatticeWeights
    rules: tuple[Shrinkage, ...]


def solve(
    spectra: Iterable[Spectrum],
    rule_for: Callable[[Spectrum], Shrinkage],
    adjustment: Adjustment,
) -> ShrunkWeights:
    """Solve every block and every phenotype.

    Parameters
    ----------
    spectra : iterable of Spectrum
        Spectra of all blocks, which together cover every phenotype in every block.
    rule_for : callable
        Function from a spectrum to its shrinkage rule.
    adjustment : Adjustment
        Adjustment that the spectra were made with.
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
    return ShrunkWeights(
        LatticeWeights(genotypes, adjustment.fixed_inverse @ residual), tuple(rules)
    )


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
