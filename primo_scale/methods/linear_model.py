"""Linear prediction of every phenotype at once, from block statistics.

For one LD block with lattice genotypes X, fixed columns C (the constant and the covariates, not
shrunk) and phenotypes Y, with S and G adjusted for C (`primo_scale.methods.adjustment`)::

    S = V diag(lambda) V'      one eigendecomposition for all phenotypes
    W = V (f * V'G)            f: a rule of `primo_scale.methods.shrinkage`
    B = (C'C)^-1 (C'Y - sum over blocks of C'X W)

Eigenvalues that noise made negative count as zero. On private statistics all of this is
post-processing: docs/maths.md, sections 5 to 7.
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
    """Weights for coded genotypes and coded outcome-side columns.

    Attributes
    ----------
    genotypes
        W, shape (d, l), float64.
    fixed
        B, shape (1 + c, l), float64: the constant, then the covariates.
    """

    genotypes: Float64
    fixed: Float64


@dataclass(frozen=True)
class Solved:
    """Weights and the rules of shrinkage they came from.

    Attributes
    ----------
    weights
        Weights on the lattice.
    rules
        Rule of every spectrum, in the order of the spectra.
    """

    weights: LatticeWeights
    rules: tuple[Shrinkage, ...]


def solve(
    spectra: Iterable[Spectrum],
    rule_for: Callable[[Spectrum], Shrinkage],
    adjustment: Adjustment,
) -> Solved:
    """Solve every block and every phenotype.

    Parameters
    ----------
    spectra
        Of every block, and of every phenotype in it.
    rule_for
        Chooses the rule of shrinkage for one.
    adjustment
        What the spectra were adjusted with.
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
    return Solved(LatticeWeights(genotypes, adjustment.fixed_inverse @ residual), tuple(rules))


def missing_rescale(observed: Float64, n_samples: float) -> Float64:
    """Factor n / max(n_j, n/10) that undoes the zero filling of missing phenotypes.

    Valid when values are missing completely at random; docs/maths.md, section 6.

    Parameters
    ----------
    observed
        Noisy (or, NOT PRIVATE, exact) number of people with each phenotype, shape (l,).
    n_samples
        Number of people n, noisy where it is private.
    """
    return n_samples / np.clip(observed, n_samples / 10, n_samples)
