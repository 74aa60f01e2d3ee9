"""Choice of the free parameters of a release, and the accuracy to expect, from public sizes alone.

In natural units a standardised phenotype has variance 1. In lattice units one standard deviation of
a phenotype has s_y steps, and a coded variant has a public variance. No function here reads data,
so planning costs no budget. Sources: docs/maths/planning.md, and those that the functions name.

**Forecast.** Let lambda be the eigenvalues of the genotypes' correlation matrix, of mean 1: those
of a public LD panel, or expected ones. For a phenotype of variance 1 whose heritability h2 is
spread evenly over d variants, the scores explain ::

    R^2 = h2 mean(lambda u / (1 + u)),    u = (n h2 / d) c^2 lambda^2 / (v lambda + s^2)

outside the cohort. Clipping multiplies covariances by c and reduces the variance to v; s^2 is the
variance that noise on X'Y adds to one person's phenotype, which the bound on rows increases. Where
LD components take the place of the variants, component j with the share pi_j of the genotypes'
variance explains ``h2 pi_j u_j / (1 + u_j)``, ``u_j = n h2 pi_j c^2 / (v + s_j^2)``. The forecast
tends to be too high: it attributes the whole heritability to the variants of the release. What
noise on X'X costs scores of variants is in `primo_scale.methods.forecast`.

**Water-filling.** A component that is scaled to a variance e_j has the noise ``s^2/e_j``. The sum
of what components explain is concave in e, so that its maximum under ``sum e_j = 1`` has a closed
form (docs/maths/weights.md, Theorem 2).

**Clipping.** Rows of standardised phenotypes are clipped to a norm ``B = b sqrt(l)``. For one
phenotype y, beside others of squared norm Q, clipping is on average
``g(y) = E[min(1, B/sqrt(y^2 + Q))] y``. A linear model of g(y) is a scaled and shifted linear model
of y: ``cov(x, g(y)) = slope cov(x, y)`` and ``E[g(y) | x] = offset + slope E[y | x]``. The slope of
a normal phenotype is E[g'(y)] by Stein's lemma, and its offset is 0. A binary phenotype has two
values, so its slope and offset are exact given the distribution of Q. The other phenotypes are
assumed to be independent and normal, weighted by the share of people in whom they are observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import scipy

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import optimal_split, optimal_split_by_block
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.privacy.mechanism import LARGEST_SPLIT
from primo_scale.privacy.shares import SHARES

# Assumed heritability: share of phenotype variance that the variants explain. The split hardly
# depends on it.
PRIOR_HERITABILITY = 0.3
# Smaller splits are worse than the first-order theory predicts, because it ignores that shrinkage
# reduces the effect of noise on X'X. Measured loss of R^2 in 12 cases: up to 29% for t = 0.05, up
# to 9% for 0.2, at most 0.9% for this floor.
_SMALLEST_SPLIT = 0.7
# Rows that are clipped in every LD block need less noise on X'X, and 5% less on X'Z at 1.2 than at
# 0.7. Measured gain on chromosome 22: up to 2.3% of R^2.
_SMALLEST_SPLIT_BY_BLOCK = 1.2
# Standard normal quantile of the share of normal phenotype rows, 0.99, within the largest useful
# bound on the row norm.
_ROWS_WITHIN_NORM = NormalDist().inv_cdf(0.99)
CLIPS = np.arange(16, 6 * 64 + 1) / 64
"""Candidate clips b: exact binary fractions, so that the same sizes give the same bound on every
machine. Clips below 1/4 gain at most 2% and reduce a phenotype to its sign."""

Floats = npt.NDArray[np.float64]
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
_HALVINGS = 60
SPARSE_SHARE = 0.01
"""Share of the variants that have effects on a sparse trait."""
# Number of directions that a sparse trait's effects are seen in, relative to the effective number
# of those that explain an even one, for one round and two. They fit releases that were measured.
_SEEN = {1: 1.35, 2: 1.6}
_DRAWN = 1 << 15  # effects by which a sparse trait is forecast, from public random numbers
_QUANTILES = (np.arange(1000) + 0.5) / 1000
_LENGTHS = (np.arange(20) + 0.5) / 20  # quantiles of the lengths of rows
Levels = tuple[float, float]


@dataclass(frozen=True)
class PublicSizes:
    """Public sizes that the planner depends on."""

    n_samples: int  # nominal if the true number of people is private
    n_variants: int
    n_phenotypes: int
    largest_block: int  # variants in the largest LD block; `n_variants` for a dense X'X
    row_norm: int  # N_x, bound on the squared norm of a lattice genotype row
    variant_variance: float  # mean public variance of a coded variant, in squared lattice units
    phenotype_scale: int  # lattice steps s_y per standard deviation of a phenotype


def clipped_phenotype(clip: float, n_phenotypes: int) -> tuple[float, float]:
    """Return the factor c on covariances with a clipped standardised phenotype, and its variance v.

    Estimates are divided by c. For one phenotype it is ``erf(clip / sqrt(2))``.
    """
    covariance, variance = clipped_moments(clip * math.sqrt(n_phenotypes), n_phenotypes)
    return float(covariance), float(variance)


def clipped_moments(bound: float | Floats, degrees: float) -> tuple[Floats, Floats]:
    """Return the share of covariances and the variance that clipping to a norm leaves.

    They are ``c = E[min(R^2, B R)] / l`` and ``v = E[min(R^2, B^2)] / l`` for the bound B, with R^2
    chi-square on l degrees of freedom. `bound` is a number or an array, and `degrees` any number
    above 0.
    Source: docs/maths/planning.md, Theorem 4.
    """
    squared = np.square(bound)
    log_gamma, below_squared = scipy.special.gammaln, scipy.special.chdtr
    above_squared = scipy.special.chdtrc
    mean_root = math.sqrt(2) * math.exp(log_gamma((degrees + 1) / 2) - log_gamma(degrees / 2))
    below = below_squared(degrees + 2, squared)
    attenuated = below + bound / degrees * mean_root * above_squared(degrees + 1, squared)
    return attenuated, below + squared / degrees * above_squared(degrees, squared)


def phenotype_norm(sizes: PublicSizes, *, clip: float, largest_norm: float = math.inf) -> int:
    """Return the bound N_y on the squared norm of a lattice phenotype row.

    It is the smallest of three bounds, in squared standard deviations: ``b^2 l`` for the `clip` b,
    the norm of 99% of normal rows, and `largest_norm`, which the phenotypes' public bounds allow.
    The second is the quantile of Wilson and Hilferty (PNAS 1931), which is within 1% of the exact
    one and, unlike it, needs no SciPy, which takes long to import.
    A bound below one squared lattice unit raises a UsageError.
    Source: docs/maths/planning.md, Theorem 5.
    """
    degrees = sizes.n_phenotypes
    spread = 2 / (9 * degrees)
    usual_norm = degrees * (1 - spread + _ROWS_WITHIN_NORM * math.sqrt(spread)) ** 3
    standardised = min(clip**2 * degrees, usual_norm, largest_norm)
    norm = math.floor(sizes.phenotype_scale**2 * standardised)
    if norm < 1:
        raise UsageError(
            "the bound on phenotype rows rounds to zero",
            where="--pheno-bounds",
            value=standardised,
            remedy="Give upper above lower and a standard deviation in proportion",
        )
    return norm


def split_for(
    sizes: PublicSizes, *, phenotype_norm: int, adjacency: Adjacency, block_norm: int | None
) -> float:
    """Return the split t between X'X and X'Y under the prior heritability, in [0.7, 2].

    Noise on X'X of one LD block affects only the weights of that block, hence ``largest_block``.
    `phenotype_norm` is the bound N_y on the squared norm of y, and `block_norm` the largest bound
    beta_b if rows are also clipped in every block, where t is at least 1.2, else None.
    Source: docs/maths/sensitivity.md, Theorem 3; docs/maths/planning.md,
    "The split between S and G".
    """
    weights_norm = (
        PRIOR_HERITABILITY * sizes.n_phenotypes * sizes.phenotype_scale**2 / sizes.variant_variance
    ) * (sizes.largest_block / sizes.n_variants)
    cross_weight = float(sizes.n_phenotypes * phenotype_norm)
    if block_norm is None or adjacency is Adjacency.ADD_REMOVE:
        norm = sizes.row_norm if block_norm is None else block_norm
        first_order = optimal_split(norm * weights_norm / 2, cross_weight, adjacency)
    else:
        first_order = optimal_split_by_block(block_norm * weights_norm / 2, cross_weight)
    floor = _SMALLEST_SPLIT if block_norm is None else _SMALLEST_SPLIT_BY_BLOCK
    return min(max(floor, first_order), LARGEST_SPLIT)


def choose_phenotype_clip(sizes: PublicSizes, cross_sigma_at: Callable[[int], float]) -> float:
    """Return the clip b that maximises the effective sample size of one variant.

    Small clips lose signal and large clips need more noise. The maximum is flat: at 17,000 variants
    and epsilon 5, every clip from 0.25 to 0.8 is within about 2% of it. `cross_sigma_at` is a
    function from a bound N_y on phenotype rows to the standard deviation of the noise on X'Y.
    Source: docs/maths/planning.md, Theorem 5.
    """
    norms = [phenotype_norm(sizes, clip=clip) for clip in CLIPS]
    sigma_at = {norm: cross_sigma_at(norm) for norm in set(norms)}
    cross_sigmas = np.array([sigma_at[norm] for norm in norms])
    bounds = CLIPS * math.sqrt(sizes.n_phenotypes)
    attenuated, left = clipped_moments(bounds, sizes.n_phenotypes)
    kept = attenuated**2 / (left + noise_variance(sizes, cross_sigmas))
    return float(CLIPS[int(np.argmax(kept))])


def noise_variance(sizes: PublicSizes, cross_sigmas: Floats) -> Floats:
    """Return the variance that noise on X'Z adds to one person's standardised phenotype.

    It is ``sigma_2^2 / (n var_x s_y^2)`` for noise of sigma_2 lattice units, in any shape.
    Source: docs/maths/planning.md, Theorem 5.
    """
    per_person = sizes.n_samples * sizes.variant_variance * sizes.phenotype_scale**2
    return cross_sigmas**2 / per_person


# ---- Water-filling -------------------------------------------------------------------------------


def fill(shares: Floats, signal: Floats, residual: float, noise: float) -> Floats:
    """Return the variances e of the components that maximise the explained heritability.

    They add up to 1, and a component that is not worth its noise has 0. `shares` are the shares pi
    of the genotypes' variance, above 0, and `signal` is the squared signal a for one person's
    phenotype of variance 1, both of shape (m,). `residual` is the variance v of a clipped
    phenotype, and `noise` the variance s^2 that noise adds to one person's phenotype in a column of
    variance 1. Without noise the variances are the shares.
    """
    if noise <= 0:
        return np.asarray(shares / shares.sum())
    height = np.sqrt(shares * signal * noise)
    low = high = noise / float(height.max())  # the water that leaves every component dry
    while _levels(height, signal, residual, noise, high).sum() < 1:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        total = float(_levels(height, signal, residual, noise, middle).sum())
        low, high = (middle, high) if total < 1 else (low, middle)
    levels = _levels(height, signal, residual, noise, high)
    return np.asarray(levels / levels.sum())


def _levels(height: Floats, signal: Floats, residual: float, noise: float, water: float) -> Floats:
    return np.asarray(np.maximum(height * water - noise, 0.0) / (residual + signal))


# ---- Forecast -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """Expected accuracy outside the cohort for a trait of the prior heritability."""

    # Number of people in a cohort without bounds and noise whose scores explain as much.
    effective_sample_size: float
    r_squared: float  # share of the trait's variance that the scores explain
    without_noise: float  # the same share for a release of this cohort without bounds and noise
    sparse: float  # share for a trait of which `SPARSE_SHARE` of the variants have effects

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


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy X'Y of one release, by public numbers.

    `sizes` are those of the components if these take the place of the variants. `eigenvalues` are
    the expected ones of the genotypes' correlation matrix: any number of values of mean 1. `clip`
    is the bound b of `phenotype_norm`, and `cross_sigma` the standard deviation of the noise, in
    lattice units, for all columns or of shape (m,). `components` are the shares of LD components in
    the variance of all coded genotypes, and their variances in squared lattice units, shapes (m,).
    """

    sizes: PublicSizes
    eigenvalues: Floats
    clip: float
    cross_sigma: float | Floats
    components: tuple[Floats, Floats] | None = None

    def directions(self) -> tuple[Floats, Floats]:
        """Return the weight of each direction, and its odds of signal to noise at h2 = 1."""
        sizes, eigenvalues, components = self.sizes, self.eigenvalues, self.components
        slope, residual = clipped_phenotype(self.clip, sizes.n_phenotypes)
        cross_sigma = self.cross_sigma / self._kept_of_rows()
        if components is None:
            shares, weights = eigenvalues / sizes.n_variants, eigenvalues / len(eigenvalues)
            noise = noise_variance(sizes, np.array(cross_sigma))
            noise = noise / np.maximum(eigenvalues, _LEAST_EIGENVALUE)
        else:
            shares = weights = components[0]
            in_column = sizes.n_samples * sizes.phenotype_scale**2 * components[1]
            noise = cross_sigma**2 / in_column
        return weights, sizes.n_samples * slope**2 * shares / (residual + noise)

    def explained(self, heritability: float = PRIOR_HERITABILITY) -> float:
        """Return the R^2 expected outside the cohort."""
        return _explained(*self.directions(), heritability)

    def seen_directions(self) -> float:
        """Return the effective number of directions that explain an even trait.

        It is ``(sum w)^2 / sum w^2`` for what each explains.
        """
        weights, odds = self.directions()
        explained = weights * odds / (1 + PRIOR_HERITABILITY * odds)
        whole = self.components is not None
        copies = 1.0 if whole else self.sizes.n_variants / len(self.eigenvalues)
        return float(explained.sum() ** 2 / (explained**2).sum() * copies)

    def _kept_of_rows(self) -> float:
        """Return the share c_x that the bound on rows of genotypes leaves of their products."""
        sizes, components = self.sizes, self.components
        spectrum = self.eigenvalues if components is None else components[1]
        degrees = degrees_of_rows(spectrum, sizes.n_variants)
        mean = sizes.n_variants * sizes.variant_variance
        return float(clipped_moments(math.sqrt(degrees * sizes.row_norm / mean), degrees)[1])


def _explained(weights: Floats, odds: Floats, heritability: float) -> float:
    found = heritability * float((weights * heritability * odds / (1 + heritability * odds)).sum())
    return min(found, heritability)


def forecast_of(
    measured: Measurement,
    n_variants: int,
    *,
    heritability: float = PRIOR_HERITABILITY,
    kept: float = 1.0,
    rounds: int = 1,
) -> Forecast:
    """Return the forecast of a release of `n_variants` variants, not components.

    `kept` is the share of the explained variance that noise on X'X leaves. Shares of components are
    of the variance by public frequencies, and eigenvalues of that in the panel. Where these differ
    by chance, scores could explain more than without noise, which is the limit.
    """
    eigenvalues, n_samples = measured.eigenvalues, measured.sizes.n_samples
    weights, shares = eigenvalues / len(eigenvalues), eigenvalues / n_variants

    def without_noise(n_samples: float) -> float:
        return _explained(weights, n_samples * shares, heritability)

    whole = without_noise(n_samples)
    explained = min(kept * measured.explained(heritability), whole)
    fewest, most = 0.0, float(n_samples)
    for _ in range(60):
        middle = (fewest + most) / 2
        fewest, most = (middle, most) if without_noise(middle) < explained else (fewest, middle)
    seen = _SEEN[rounds] * measured.seen_directions()
    likely = min(1.0, SPARSE_SHARE * n_variants / seen)
    return Forecast(most, explained, whole, _sparse(explained, whole, likely, rounds, heritability))


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
            # Positions so close merely number the rows.
            if len(placed) >= _MANY and np.median(np.diff(np.sort(placed))) < _CLOSEST_GAP:
                continue
            total += _pairs(placed * (4 * _EFFECTIVE_POPULATION * _MORGANS)) - len(placed)
    return total


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


def _sparse(
    explained: float, whole: float, likely: float, rounds: int, heritability: float
) -> float:
    """Return the R^2 expected of a trait of which `SPARSE_SHARE` of the variants have effects.

    A trait whose variants all have effects is explained with the R^2 `explained`, and with `whole`
    without noise. A direction has an effect with the probability `likely`, and is measured with the
    noise that explains the even trait. The posterior mean is that of effects of zero and normal
    ones; two rounds divide the noise, and the second has the energies of water-filling by what the
    first left. Source: docs/maths/planning.md, "The spectral forecast".
    """
    sampling = heritability / min(whole, 0.999 * heritability) - 1
    total = heritability / min(max(explained, 1e-6), 0.999 * heritability) - 1
    noise = max(total - sampling, 1e-9)
    random = np.random.Generator(np.random.SFC64(0))
    effects = random.standard_normal(_DRAWN) * (random.random(_DRAWN) < likely) / likely**0.5
    measured = effects + random.standard_normal(_DRAWN) * sampling**0.5
    errors = random.standard_normal((2, _DRAWN)) * noise**0.5
    found = _denoised(measured + errors[0], np.full(_DRAWN, total), likely)[0]
    if rounds == 2:
        first = noise / SHARES.first_round
        spread = np.full(_DRAWN, sampling + first)
        left = _denoised(measured + errors[0] * (first / noise) ** 0.5, spread, likely)[1]
        second = noise / (1 - SHARES.first_round)
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


def degrees_of_rows(eigenvalues: Floats, n_columns: int) -> float:
    """Return the degrees of freedom of the chi-square that the squared norm of a row counts as.

    It has the mean and the variance of that of normal rows. `eigenvalues` are any number of those
    of the covariance of the columns, in any unit.
    """
    return float(n_columns * eigenvalues.mean() ** 2 / (eigenvalues**2).mean())


# ---- Clipping -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClipResponse:
    """Linear response of each clipped phenotype to the phenotype, and the variance that is left.

    The slope has no unit, and offset and variance are in standard deviations; shapes (l,).
    """

    slope: Floats
    offset: Floats
    variance: Floats
    gram_share: float = 1.0  # share of X'X that the bound on rows of genotypes leaves


def clip_response(
    clip: float, levels: Sequence[Levels | None], observed_share: Floats
) -> ClipResponse:
    """Return the response of every phenotype to clipping rows at ``clip sqrt(l)``.

    `levels` are the two values of each binary phenotype, in standard deviations from its mean, and
    None for a phenotype that is assumed to be normal. `observed_share` is the share of people in
    whom each phenotype is observed, in (0, 1], shape (l,).
    Source: docs/maths/planning.md, Theorem 4 and the paragraph on binary phenotypes below it.
    """
    n_phenotypes = len(levels)
    bound = clip * math.sqrt(n_phenotypes)
    (slope, variance), offset = np.empty((2, n_phenotypes)), np.zeros(n_phenotypes)
    for j, pair in enumerate(levels):
        others = float(observed_share.sum() - observed_share[j])
        if pair is None:
            slope[j], variance[j] = clipped_moments(bound, 1 + others)
            continue
        values = [_clipped(value, others, bound) for value in pair]
        low, high = (clipped.mean() for clipped in values)
        slope[j] = (high - low) / (pair[1] - pair[0])
        offset[j] = low - slope[j] * pair[0]
        cases = min(max(-pair[0] / (pair[1] - pair[0]), 0.0), 1.0)  # because the mean is 0
        squares = [(clipped**2).mean() for clipped in values]
        mean = low + cases * (high - low)
        variance[j] = squares[0] + cases * (squares[1] - squares[0]) - mean**2
    return ClipResponse(slope, offset, variance)


def _clipped(value: float, others: float, bound: float) -> Floats:
    """Return the clipped value at quantiles of Q, chi-square on `others` degrees of freedom."""
    norms = np.sqrt(value**2 + _quantiles(others))
    return np.asarray(value * np.minimum(1.0, bound / np.maximum(norms, 1e-300)))


@lru_cache(maxsize=4096)  # for every phenotype and several clips; the inverse is slow
def _quantiles(degrees: float) -> Floats:
    if degrees <= 0:
        return np.zeros(1)
    # Importing `scipy.stats` takes 0.3 s.
    return np.asarray(2 * scipy.special.gammaincinv(degrees / 2, _QUANTILES))


def response_of_contributions(
    respond: Callable[[float], ClipResponse], degrees: float
) -> ClipResponse:
    """Return the response where phenotypes are clipped by their contributions to X'Y.

    `respond` returns the response to a clip that is multiplied by a factor. The squared norm of
    each phenotype's columns is chi-square, on so many degrees of freedom relative to its mean.
    Source: docs/maths/rounds.md, "What rounding changes".
    """
    lengths = 2 * scipy.special.gammaincinv(degrees / 2, _LENGTHS) / degrees
    responses = [respond(float(factor)) for factor in 1 / np.sqrt(lengths)]
    slopes, variances = (
        lengths @ np.array([getattr(each, name) for each in responses]) / lengths.sum()
        for name in ("slope", "variance")
    )
    return ClipResponse(slopes, np.zeros_like(slopes), variances)


def response_of_scaled_records(
    respond: Callable[[float], ClipResponse], degrees: float, bound: float, privacy: PrivacyUnit
) -> ClipResponse:
    """Return the response of X'Y, relative to X'X, where records with long rows are scaled.

    `respond` returns the response to a clip that is multiplied by a factor. The squared norms of
    rows of genotypes, relative to their mean, are chi-square on so many degrees of freedom, and at
    most the bound. Phenotypes are assumed to be independent of the lengths of rows.
    Source: docs/maths/planning.md, "Scaled records".
    """
    lengths = 2 * scipy.special.gammaincinv(degrees / 2, _LENGTHS) / degrees
    kept = np.minimum(1.0, bound / lengths)  # of the products of two genotypes
    root = np.sqrt(kept)
    one = np.ones_like(kept)
    # Factors on the clip, on X'Y, X'X and the square of an unclipped phenotype.
    clips, kept = (root, one) if privacy is PrivacyUnit.LABEL else (1 / root, kept)
    factors, where = np.unique(clips, return_inverse=True)
    responses = [respond(float(factor)) for factor in factors]
    slopes, offsets, variances = (
        np.array([getattr(each, name) for each in responses])[where]
        for name in ("slope", "offset", "variance")
    )
    seen = kept * lengths
    return ClipResponse(
        slope=seen @ slopes / float(seen.sum()),
        offset=kept @ offsets / float(kept.sum()),
        variance=(kept * seen) @ variances / float(seen.sum()),
        gram_share=float(seen.sum() / lengths.sum()),
    )
