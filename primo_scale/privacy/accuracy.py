"""Forecast of the accuracy of a release's scores, from public sizes alone.

Source: docs/maths/planner.md, "The spectral planner" and "The forecast of a run". Let lambda be the
eigenvalues of the genotypes' correlation matrix, of mean 1. For a phenotype of variance 1 whose
heritability h2 is spread evenly over d variants, the scores explain ::

    R^2 = h2 mean(lambda u / (1 + u)),    u = (n h2 / d) c^2 lambda^2 / (v lambda + s^2)

outside the cohort. Clipping multiplies covariances by c and reduces the variance to v; s^2 is the
variance that noise on X'Y adds to one person's phenotype, which the bound on rows increases.

Where LD components take the place of the variants, component j with the share pi_j of the
genotypes' variance explains ``h2 pi_j u_j / (1 + u_j)``, ``u_j = n h2 pi_j c^2 / (v + s_j^2)``;
noise adds the variance s_j^2 to one person's phenotype in that column. With a public score that
knows the share k of the effect variance in a direction, h2 becomes ``h2 (1 - k)`` in all formulas.

The eigenvalues are those of a public LD panel, or expected ones, and never those of the cohort. The
forecast tends to be too high: it attributes the whole heritability to the variants of the release.
What noise on X'X costs scores of variants is in `primo_scale.methods.gram_noise`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from primo_scale.privacy.mechanism import FIRST_ROUND_SHARE
from primo_scale.privacy.planning import (
    PRIOR_HERITABILITY,
    Floats,
    PublicSizes,
    clipped_moments,
    clipped_phenotype,
    noise_variance,
)
from primo_scale.privacy.water_filling import fill

LEAST_USEFUL_R2 = 0.01
"""Forecast R^2 below which a release counts as noise: a thirtieth of the assumed heritability."""

# Effective size of human populations, and Morgans per base pair.
_EFFECTIVE_POPULATION = 10_000
_MORGANS = 1.2e-8
# Arrays and imputation panels have one variant per hundreds of base pairs, and sequences of a
# biobank one per tens. A smaller median gap occurs in simulated files, whose positions count rows.
_MANY, _CLOSEST_GAP = 100, 5.0
# Number of frequencies at which the spectrum is evaluated, and of pairs of variants in memory.
_FREQUENCIES, _PAIRS = 4096, 2**20
_LEAST_EIGENVALUE = 1e-9


@dataclass(frozen=True)
class Forecast:
    """Expected accuracy outside the cohort for a trait of the prior heritability."""

    # Number of people in a cohort without bounds and noise whose scores explain as much.
    effective_sample_size: float
    r_squared: float  # share of the trait's variance that the scores explain
    without_noise: float  # the same share for a release of this cohort without bounds and noise
    # Share for a trait of which `SPARSE_SHARE` of the variants have effects; None where weights
    # build on a public score.
    sparse: float | None = None

    @property
    def stated_size(self) -> float:
        """Effective sample size, rounded down to three digits."""
        if self.effective_sample_size <= 0:
            return 0.0
        step = 10.0 ** (math.floor(math.log10(self.effective_sample_size)) - 2)
        return float(f"{math.floor(self.effective_sample_size / step) * step:.3g}")

    @property
    def is_noise(self) -> bool:
        """Whether the forecast R^2 is below `LEAST_USEFUL_R2`."""
        return self.r_squared < LEAST_USEFUL_R2


@dataclass(frozen=True)
class Trait:
    """Trait whose accuracy is forecast."""

    # Share of the phenotype's variance that the variants explain.
    heritability: float = PRIOR_HERITABILITY
    # Share that a public score explains in people like the cohort, if weights build on one.
    public_r2: float = 0.0
    public_people: int = 0  # number of people of the study that gave the score

    def unknown(self, shares: Floats, eigenvalues: Floats, n_variants: int) -> Floats:
        """Return the share of the effect variance that the public score leaves in directions.

        `shares` are those of the directions in the genotypes' variance, and `eigenvalues` those of
        all genotypes.
        """
        if not self.public_r2:
            return np.ones_like(shares)

        def precision(shares: Floats) -> Floats:
            odds = self.public_people * self.heritability * np.maximum(shares, 0)
            return np.asarray(odds / (1 + odds))

        of_study = float((eigenvalues * precision(eigenvalues / n_variants)).mean())
        squared_correlation = min(1.0, self.public_r2 / (self.heritability * of_study))
        return np.asarray(1 - squared_correlation * precision(shares))

    def explained(self, weights: Floats, unknown: Floats, odds: Floats) -> float:
        """Return the R^2 in directions of the given weights and odds of signal to noise.

        `odds` are those of a heritability of 1 without a public score.
        """
        odds = self.heritability * unknown * odds
        found = float((weights * unknown * odds / (1 + odds)).sum())
        # Without the limit, a public R^2 that is too high for its study counts twice.
        return min(self.public_r2 + self.heritability * found, self.heritability)


_TRAIT = Trait()
SPARSE_SHARE = 0.01
"""Share of the variants that have effects on a sparse trait."""
# Number of directions that a sparse trait's effects are seen in, relative to the effective number
# of those that explain an even one, for one round and two. They fit the releases of planner.md.
_SEEN = {1: 1.35, 2: 1.6}
_DRAWN = 1 << 15  # effects by which a sparse trait is forecast, from public random numbers


@dataclass(frozen=True, eq=False)
class Components:
    """LD components of a release, as the forecast needs them."""

    shares: Floats  # of the variance of all coded genotypes, shape (m,)
    variances: Floats  # variance of each component, in squared lattice units, shape (m,)
    n_variants: int  # number of variants d


def expected_r2_sum(
    chromosome: npt.NDArray[np.object_], position: npt.NDArray[np.int64], blocks: tuple[int, ...]
) -> float:
    """Return the sum of expected squared correlations over all pairs of variants of an LD block.

    At a distance of c Morgan it is Sved's, ``1 / (1 + 4 Ne c)``. The sum is at least the number of
    variants d, because each has a correlation of 1 with itself. `chromosome` and `position`, in
    base pairs, have the shape (d,), and `blocks` are the boundaries of the LD blocks: 0, ..., d. A
    variant without a position (0 or below) counts as independent of all others, and so do the
    variants of a chromosome whose positions merely number the rows.
    """
    total = float(len(position))
    for start, stop in pairwise(blocks):
        names, places = chromosome[start:stop], position[start:stop]
        for name in np.unique(names.astype(str)):
            placed = places[(names == name) & (places > 0)].astype(np.float64)
            if _are_numbers_of_rows(placed):
                continue
            total += _pairs(placed * (4 * _EFFECTIVE_POPULATION * _MORGANS)) - len(placed)
    return total


def _are_numbers_of_rows(places: Floats) -> bool:
    """Return whether many variants are so close that their positions merely number the rows."""
    return len(places) >= _MANY and float(np.median(np.diff(np.sort(places)))) < _CLOSEST_GAP


def _pairs(scaled: Floats) -> float:
    """Return the sum of ``1 / (1 + |a - b|)`` over all ordered pairs, pairs (a, a) included."""
    rows = max(1, _PAIRS // max(1, len(scaled)))
    return sum(
        float((1 / (1 + np.abs(scaled[first : first + rows, None] - scaled))).sum())
        for first in range(0, len(scaled), rows)
    )


def spectrum_shape(r2_sum: float, n_variants: int) -> Floats:
    """Return eigenvalues of mean 1 and mean square ``r2_sum / n_variants``, shape (4096,).

    They are those of a first-order autoregressive process at equally spaced frequencies. For a mean
    square m, the squared correlation of neighbours is ``(m - 1) / (m + 1)``. `r2_sum` is the result
    of `expected_r2_sum`.
    """
    mean_square = max(1.0, r2_sum / n_variants)
    squared = (mean_square - 1) / (mean_square + 1)
    angles = (np.arange(_FREQUENCIES) + 0.5) * (math.pi / _FREQUENCIES)
    values = (1 - squared) / (1 - 2 * math.sqrt(squared) * np.cos(angles) + squared)
    return np.asarray(values / values.mean())


def expected_r2(
    sizes: PublicSizes,
    eigenvalues: Floats,
    *,
    clip: float,
    cross_sigma: float | Floats,
    components: Components | None = None,
    trait: Trait = _TRAIT,
) -> float:
    """Return the R^2 expected of a private release, outside the cohort.

    `components` take the place of the variants, and `sizes` are then theirs. `eigenvalues` are the
    expected ones of the genotypes' correlation matrix: any number of values of mean 1. `clip` is
    the bound b of `primo_scale.privacy.planning.phenotype_norm`, and `cross_sigma` the standard
    deviation of the noise on X'Y, in lattice units, for all columns or of shape (m,).
    """
    weights, unknown, odds = _by_direction(sizes, eigenvalues, clip, cross_sigma, components, trait)
    return trait.explained(weights, unknown, odds)


def seen_directions(
    sizes: PublicSizes,
    eigenvalues: Floats,
    *,
    clip: float,
    cross_sigma: float | Floats,
    components: Components | None = None,
) -> float:
    """Return the effective number of directions that explain an even trait, with LD among variants.

    It is ``(sum w)^2 / sum w^2`` for what each explains; parameters as in `expected_r2`.
    """
    weights, unknown, odds = _by_direction(
        sizes, eigenvalues, clip, cross_sigma, components, _TRAIT
    )
    explained = weights * unknown * odds / (1 + _TRAIT.heritability * unknown * odds)
    copies = 1.0 if components is not None else sizes.n_variants / len(eigenvalues)
    return float(explained.sum() ** 2 / (explained**2).sum() * copies)


def sparse_r2(
    even: Forecast, seen: float, n_variants: int, rounds: int, heritability: float
) -> float:
    """Return the R^2 expected of a trait of which `SPARSE_SHARE` of the variants have effects.

    `even` is the forecast of a trait whose variants all have effects, and `seen` the result of
    `seen_directions`. A direction of ``seen`` has an effect with the probability p that gives the
    variants' number of effects, and is measured with the noise that explains `even`. The posterior
    mean is that of effects of zero and normal ones; two rounds divide the noise, and the second has
    the energies of water-filling by what the first left.
    Source: docs/maths/planner.md, "Sparse traits".
    """
    number = _SEEN[rounds] * seen
    likely = min(1.0, SPARSE_SHARE * n_variants / number)
    sampling = heritability / min(even.without_noise, 0.999 * heritability) - 1
    total = heritability / min(max(even.r_squared, 1e-6), 0.999 * heritability) - 1
    noise = max(total - sampling, 1e-9)
    random = np.random.Generator(np.random.SFC64(0))
    effects = random.standard_normal(_DRAWN) * (random.random(_DRAWN) < likely) / likely**0.5
    measured = effects + random.standard_normal(_DRAWN) * sampling**0.5
    errors = random.standard_normal((2, _DRAWN)) * noise**0.5
    found = _denoised(measured + errors[0], np.full(_DRAWN, total), likely)[0]
    if rounds == 2:
        first = noise / FIRST_ROUND_SHARE
        spread = np.full(_DRAWN, sampling + first)
        left = _denoised(measured + errors[0] * (first / noise) ** 0.5, spread, likely)[1]
        second = noise / (1 - FIRST_ROUND_SHARE)
        shares = left / _DRAWN
        energies = fill(shares, shares, sampling / _DRAWN, second / _DRAWN**2) * _DRAWN
        known = 1 / first + energies / second
        error = errors[0] * (first / noise) ** 0.5 / first
        error += errors[1] * (second / noise) ** 0.5 * energies**0.5 / second
        found = _denoised(measured + error / known, sampling + 1 / known, likely)[0]
    return float(heritability * (found @ effects) ** 2 / ((found @ found) * (effects @ effects)))


def _denoised(values: Floats, noise: Floats, likely: float) -> tuple[Floats, Floats]:
    """Return posterior means and variances of effects, of which a share `likely` is not zero."""
    variance = 1 / likely
    kept = variance / (variance + noise)
    prior = math.log(likely / (1 - likely)) if likely < 1 else math.inf
    logit = prior + 0.5 * (np.log1p(-kept) + values**2 / noise * kept)
    share = 1 / (1 + np.exp(-np.clip(logit, -50, 50)))
    mean = share * kept * values
    return mean, share * (kept * noise + (kept * values) ** 2) - mean**2


def _by_direction(
    sizes: PublicSizes,
    eigenvalues: Floats,
    clip: float,
    cross_sigma: float | Floats,
    components: Components | None,
    trait: Trait,
) -> tuple[Floats, Floats, Floats]:
    """Return the weights of directions, what a public score leaves of them, and their odds."""
    slope, residual = clipped_phenotype(clip, sizes.n_phenotypes)
    cross_sigma = cross_sigma / _kept_of_rows(sizes, eigenvalues, components)
    if components is None:
        n_variants, shares = sizes.n_variants, eigenvalues / sizes.n_variants
        weights = eigenvalues / len(eigenvalues)
        noise = noise_variance(sizes, np.array(cross_sigma))
        noise = noise / np.maximum(eigenvalues, _LEAST_EIGENVALUE)
    else:
        n_variants, shares = components.n_variants, components.shares
        weights = shares
        in_column = sizes.n_samples * sizes.phenotype_scale**2 * components.variances
        noise = cross_sigma**2 / in_column
    unknown = trait.unknown(shares, eigenvalues, n_variants)
    return weights, unknown, sizes.n_samples * slope**2 * shares / (residual + noise)


def degrees_of_rows(eigenvalues: Floats, n_columns: int) -> float:
    """Return the degrees of freedom of the chi-square that the squared norm of a row counts as.

    It has the mean and the variance of that of normal rows. `eigenvalues` are any number of those
    of the covariance of the columns, in any unit.
    """
    return float(n_columns * eigenvalues.mean() ** 2 / (eigenvalues**2).mean())


def forecast_of(
    explained: float, n_samples: int, eigenvalues: Floats, n_variants: int, trait: Trait
) -> Forecast:
    """Return the forecast of a release whose scores explain a given share of the variance.

    `eigenvalues` are as in `expected_r2`; `n_variants` is the number of variants, not components.
    Shares of components are of the variance by public frequencies, and eigenvalues of that in the
    panel. Where these differ by chance, `explained` could exceed the share without noise, and is
    limited to it.
    """
    shares = eigenvalues / n_variants
    unknown = trait.unknown(shares, eigenvalues, n_variants)

    def without_noise(n_samples: float) -> float:
        return trait.explained(eigenvalues / len(eigenvalues), unknown, n_samples * shares)

    whole = without_noise(n_samples)
    explained = min(explained, whole)
    fewest, most = 0.0, float(n_samples)
    for _ in range(60):
        middle = (fewest + most) / 2
        fewest, most = (middle, most) if without_noise(middle) < explained else (fewest, middle)
    return Forecast(most, explained, whole)


def _kept_of_rows(sizes: PublicSizes, eigenvalues: Floats, components: Components | None) -> float:
    """Return the share c_x that the bound on rows of genotypes leaves of their products."""
    if components is None:
        degrees = degrees_of_rows(eigenvalues, sizes.n_variants)
    else:
        degrees = degrees_of_rows(components.variances, len(components.variances))
    mean = sizes.n_variants * sizes.variant_variance
    return float(clipped_moments(math.sqrt(degrees * sizes.row_norm / mean), degrees)[1])
