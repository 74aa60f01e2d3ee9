"""Simulated haplotypes and phenotypes after PRIMO's experiments (its section 7).

The paper takes n = 5008 haplotypes of the 1000 Genomes Project at d = 25 SNPs drawn at random from
78,961, subtracts column means, draws ``theta_j ~ N(0, I_d / sqrt(d))`` for every phenotype and
sets ``y = x . theta_j + N(0, 1)``. Those haplotypes are not available, so this module draws from
the standard neutral coalescent with unlinked sites, which is a good approximation for 25 SNPs of a
whole genome. The number of carriers is k with probability proportional to 1/k, given a minor allele
frequency of at least 1%, and the carriers are a uniform subset of size k. This is the exact law of
unlinked sites, so no tree is simulated. The limit of 1% is a choice of this module: with it, least
squares attains an R^2 of about .35 (docs/papers/primo.md), and with 5% about .43.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from experiments.gaussian_noise import Float64

SMALLEST_MINOR_FREQUENCY = 0.01


@dataclass(frozen=True, eq=False)
class Cohort:
    """Column-centred haplotypes, shape (n, d), phenotypes of people in parts, and exact sums.

    `parts` returns the haplotypes and phenotypes of consecutive people, the same at every call, so
    that n x l phenotypes need not be in memory. `gram` and `cross` are X'X and X'Y, `total` is the
    sum of the squared phenotypes, and `largest_value` is their largest magnitude.
    """

    haplotypes: Float64
    parts: Callable[[], Iterable[tuple[Float64, Float64]]]
    gram: Float64
    cross: Float64
    total: float
    largest_value: float

    @property
    def n(self) -> int:
        """Number of haplotypes."""
        return len(self.haplotypes)

    @property
    def phenotypes(self) -> Float64:
        """Phenotypes of all people, shape (n, l)."""
        return np.vstack([phenotypes for _, phenotypes in self.parts()])

    @property
    def phenotype_sd(self) -> float:
        """Standard deviation, pooled over phenotypes; the product's rows treat it as public."""
        return math.sqrt(self.total / (self.n * self.cross.shape[1]))

    def pooled_r_squared(self, weights: Float64) -> float:
        """Return the in-sample R^2, ``1 - ||Y - XW||_F^2 / ||Y||_F^2``, of weights W, (d, l)."""
        explained = 2 * np.sum(weights * self.cross) - np.sum(weights * (self.gram @ weights))
        return float(explained / self.total)


def simulate(
    n_haplotypes: int, n_variants: int, n_phenotypes: int, rng: np.random.Generator
) -> Cohort:
    """Draw new variants, new haplotypes, new effects and new residuals."""
    X = centred(alleles(n_haplotypes, n_variants, rng))
    theta = n_variants**-0.25 * rng.standard_normal((n_variants, n_phenotypes))
    Y = centred(X @ theta + rng.standard_normal((n_haplotypes, n_phenotypes)))
    return cohort_of(X, lambda: [(X, Y)])


def cohort_of(
    haplotypes: Float64, parts: Callable[[], Iterable[tuple[Float64, Float64]]]
) -> Cohort:
    """Sum the parts of a cohort in one pass."""
    cross, total, largest = np.zeros(1), 0.0, 0.0
    for X, Y in parts():
        cross = cross + X.T @ Y
        total += float(np.vdot(Y, Y))
        largest = max(largest, float(Y.max()), -float(Y.min()))
    return Cohort(haplotypes, parts, haplotypes.T @ haplotypes, cross, total, largest)


def centred(values: Float64) -> Float64:
    """Subtract the column means, as the paper does (see docs/maths/papers.md, item 8)."""
    return np.asarray(values - values.mean(axis=0))


def alleles(n_haplotypes: int, n_variants: int, rng: np.random.Generator) -> Float64:
    """Return 0/1 alleles, shape (n, d)."""
    carriers = np.arange(1, n_haplotypes)
    minor = np.minimum(carriers, n_haplotypes - carriers)
    chance = np.where(minor >= SMALLEST_MINOR_FREQUENCY * n_haplotypes, 1 / carriers, 0.0)
    drawn = np.zeros((n_haplotypes, n_variants))
    counts = rng.choice(carriers, size=n_variants, p=chance / chance.sum())
    for variant, count in enumerate(counts):
        drawn[rng.permutation(n_haplotypes)[:count], variant] = 1
    return drawn
