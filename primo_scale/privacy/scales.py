"""The least noise that keeps a promise: one sigma for every statistic (docs/maths).

Each function is one case of the guarantee. In all of them mu^2 of the whole bundle is what the
promise allows; counts, and the smallest eigenvalue where a method wants it, take a share of it
first, and the Gram matrices the rest. Sigmas are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace

from primo_scale.errors import UsageError
from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.gaussian.noise import LARGEST_FINE_SIGMA, fine_bits, off_diagonal_sigma
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.privacy.mechanism import (
    COUNTS_SHARE,
    Mechanism,
    NoiseScales,
    Promise,
    PublicBounds,
    Recipe,
)
from primo_scale.privacy.planning import LARGEST_SPLIT

# Share of mu^2 for a Gram matrix of outcomes that is not free: it serves covariates and R^2 only,
# whose statistics are sums over everybody and large against any noise.
OUTCOME_SHARE = 0.02
# Share of the cross products' mu^2 that C'Y takes with label privacy. Covariates are few and their
# sums large; on the coarse lattice of genotypes without frequencies N_c far exceeds N_x, and X'Y
# must not pay for it.
FIXED_SHARE = 0.05
# A Gaussian exceeds 32 standard deviations with probability 1e-223.
_TAIL_SIGMAS = 32
_INT64_LIMIT = 2**63
# More people than live: stands for n where it is private and a bound on it is needed.
_MOST_PEOPLE = 2**33


def calibrate(bounds: PublicBounds, promise: Promise, recipe: Recipe, *, split: float) -> Mechanism:
    """Find the least noise under which a release keeps its promise.

    Parameters
    ----------
    bounds
        Public bounds on the rows.
    promise
        The guarantee asked for.
    recipe
        What is measured.
    split
        t, from `planning.split_for`; used where X'X and X'Z share the shift.

    Raises
    ------
    UsageError
        Parameters out of range, bounds that are not positive, a recipe that the promise has no
        proof for, or sums plus noise that would not fit 64-bit integers.
    """
    _check_bounds(bounds)
    check_recipe(promise, recipe, bounds)
    if not 0 < split <= LARGEST_SPLIT:
        raise UsageError("the split is out of range", value=split, limit=f"(0, {LARGEST_SPLIT}]")
    if recipe.subsample is not None:
        mechanism = _subsampled(bounds, promise, recipe)
    else:
        mu = release_mu(promise.epsilon, promise.delta) * math.sqrt(promise.share)
        scales, used_split = _scales(bounds, promise, recipe, mu, split)
        mechanism = Mechanism(promise, bounds, recipe, used_split, Cost(mu**2), scales)
    _check_integer_range(mechanism)
    return mechanism


def gram_share(promise: Promise, recipe: Recipe) -> float:
    """Share of mu^2 that is left for the Gram matrices, whatever their split."""
    return 1 - counts_share(promise) - recipe.eigenvalue_share


def counts_share(promise: Promise) -> float:
    """Share of mu^2 for the numbers of people with each phenotype."""
    return COUNTS_SHARE if promise.counts_are_private else 0.0


def _scales(
    bounds: PublicBounds, promise: Promise, recipe: Recipe, mu: float, split: float
) -> tuple[NoiseScales, float | None]:
    """Scales of a bundle whose whole shift is mu, and the split that they use."""
    left = mu * math.sqrt(gram_share(promise, recipe))
    used: float | None = None
    if promise.privacy is PrivacyUnit.LABEL:
        scales = _label(bounds, promise, left)
    elif promise.adjacency is Adjacency.ADD_REMOVE:
        scales, used = _separate(bounds, left, split), split
    elif bounds.block_norms is None or sum(bounds.block_norms) <= bounds.row_norm:
        scales, used = _stacked(bounds, left, split), split
    else:
        scales, used = _by_block(bounds, left, split), split
    scales = replace(
        scales,
        gram=_for_copies(scales.gram, recipe.gram_copies),
        observed=_counts_scale(bounds, promise, mu),
        smallest_eigenvalue=_eigenvalue_scale(bounds, promise, recipe, mu),
    )
    if promise.privacy is PrivacyUnit.FEATURE:  # everybody's phenotypes are public
        scales = replace(scales, phenotype_gram=0.0)
    return scales, used


def _stacked(bounds: PublicBounds, mu: float, split: float) -> NoiseScales:
    """Replace-one: all parts of one Gram matrix of rows (x, k z), ``k^2 = t N_x / (2 N_z)``.

    Blocks whose bounds add up to no more than the row's need less noise each.
    """
    dense = sensitivity.stacked(bounds.row_norm, split) / mu
    stacking = math.sqrt(split * bounds.row_norm / (2 * bounds.outcome_norm))
    if bounds.block_norms is None:
        gram = (dense,) * len(bounds.block_sizes)
    else:
        gram = tuple(
            sensitivity.stacked_block(norm, bounds.row_norm, split) / mu
            for norm in bounds.block_norms
        )
    return _jointly(gram, dense / (math.sqrt(2) * stacking), dense / stacking**2)


def _by_block(bounds: PublicBounds, mu: float, split: float) -> NoiseScales:
    """Replace-one, rows clipped in every block and in total."""
    row, outcome, norms = bounds.row_norm, bounds.outcome_norm, bounds.block_norms or ()
    return _jointly(
        tuple(sensitivity.block_gram_factor(norm, row, split=split) / mu for norm in norms),
        sensitivity.cross_factor_by_block(row, outcome, split=split) / mu,
        sensitivity.outcome_gram_factor_by_block(outcome, split=split) / mu,
    )


def _separate(bounds: PublicBounds, mu: float, split: float) -> NoiseScales:
    """Add-remove: one row has all its norms at the bounds, so that the shares add up."""
    add = Adjacency.ADD_REMOVE
    gram_mu = mu * math.sqrt((1 - OUTCOME_SHARE) / (1 + split))
    cross_mu = gram_mu * math.sqrt(split)
    if bounds.block_norms is None:
        gram = (sensitivity.gram(bounds.row_norm, add) / gram_mu,) * len(bounds.block_sizes)
    else:
        factors = (
            sensitivity.block_gram_factor_add_remove(norm, bounds.row_norm)
            for norm in bounds.block_norms
        )
        gram = tuple(factor / gram_mu for factor in factors)
    return _jointly(
        gram,
        sensitivity.cross(bounds.row_norm, bounds.outcome_norm, add) / cross_mu,
        sensitivity.gram(bounds.outcome_norm, add) / (mu * math.sqrt(OUTCOME_SHARE)),
    )


def _label(bounds: PublicBounds, promise: Promise, mu: float) -> NoiseScales:
    """Genotypes and covariates public: only what phenotypes touch gets noise.

    Y'Y is free beside (X, C)'Y when a person's phenotypes are replaced; when they are removed it
    takes a share.
    """
    if promise.adjacency is Adjacency.REPLACE_ONE:
        cross_mu = mu
        phenotypes = sensitivity.label_phenotype_gram_factor(bounds.phenotype_norm) / mu
    else:
        cross_mu = mu * math.sqrt(1 - OUTCOME_SHARE)
        phenotypes = sensitivity.gram(bounds.phenotype_norm, promise.adjacency)
        phenotypes /= mu * math.sqrt(OUTCOME_SHARE)
    genotypes, fixed = (
        sensitivity.cross(norm, bounds.phenotype_norm, promise.adjacency)
        for norm in (bounds.row_norm, bounds.fixed_norm)
    )
    return NoiseScales(
        gram=(0.0,) * len(bounds.block_sizes),
        fixed_cross=0.0,
        phenotype_cross=rounded_up(genotypes / (cross_mu * math.sqrt(1 - FIXED_SHARE))),
        fixed_gram=0.0,
        fixed_phenotype=rounded_up(fixed / (cross_mu * math.sqrt(FIXED_SHARE))),
        phenotype_gram=rounded_up(phenotypes),
        observed=0.0,
    )


def _subsampled(bounds: PublicBounds, promise: Promise, recipe: Recipe) -> Mechanism:
    """X'X of a secret subsample of s people, everything else of all n (docs/maths/subsampling.md).

    Half of (epsilon, delta) pays for X'X: a mechanism that is (eps_1, delta_1)-private on the
    subsample is ``(log(1 + (s/n)(e^eps_1 - 1)), (s/n) delta_1)``-private on the cohort.
    """
    n, s = bounds.n_samples, recipe.subsample or 0
    epsilon, delta = promise.epsilon / 2, promise.delta / 2
    amplified = math.log1p(math.expm1(epsilon) * n / s)
    if delta * n / s >= 1:
        raise UsageError("the subsample is too small for delta", where="--subsample", value=s)
    gram_mu = release_mu(amplified * (1 - 1e-12), delta * n / s)
    mu = release_mu(epsilon, delta)
    dense = replace(bounds, block_norms=None)
    free = _stacked(dense, mu * math.sqrt(gram_share(promise, recipe)), split=2.0)
    gram = sensitivity.gram(bounds.row_norm, Adjacency.REPLACE_ONE) / gram_mu
    scales = replace(
        free,
        gram=(rounded_up(gram),) * len(bounds.block_sizes),
        observed=_counts_scale(bounds, promise, mu),
        phenotype_gram=(0.0 if promise.privacy is PrivacyUnit.FEATURE else free.phenotype_gram),
    )
    return Mechanism(promise, bounds, recipe, None, Cost(mu**2, epsilon, delta), scales)


def _jointly(gram: tuple[float, ...], cross: float, outcome_gram: float) -> NoiseScales:
    """Scales where X'Z and Z'Z, z = (c, y), are each one query, whatever the column."""
    cross, outcome_gram = rounded_up(cross), rounded_up(outcome_gram)
    return NoiseScales(
        gram=tuple(rounded_up(sigma) for sigma in gram),
        fixed_cross=cross,
        phenotype_cross=cross,
        fixed_gram=outcome_gram,
        fixed_phenotype=off_diagonal_sigma(outcome_gram),
        phenotype_gram=outcome_gram,
        observed=0.0,
    )


def _for_copies(gram: tuple[float, ...], copies: int) -> tuple[float, ...]:
    """Independent copies say together what one with the copies' mean, of less noise, says."""
    if copies == 1:
        return gram
    return tuple(rounded_up(sigma * math.sqrt(copies)) for sigma in gram)


def _counts_scale(bounds: PublicBounds, promise: Promise, mu: float) -> float:
    share = counts_share(promise)
    if share == 0:
        return 0.0
    return rounded_up(sensitivity.observed_counts(bounds.n_phenotypes) / (mu * math.sqrt(share)))


def _eigenvalue_scale(bounds: PublicBounds, promise: Promise, recipe: Recipe, mu: float) -> float:
    if recipe.eigenvalue_share == 0:
        return 0.0
    change = eigenvalue_sensitivity(bounds, promise)
    return rounded_up(change / (mu * math.sqrt(recipe.eigenvalue_share)))


def eigenvalue_sensitivity(bounds: PublicBounds, promise: Promise) -> float:
    """How far one person can move the smallest eigenvalue of X'X, as computed and rounded down."""
    norms = bounds.block_norms or (bounds.row_norm,)
    return sensitivity.smallest_eigenvalue(
        max(min(norm, bounds.row_norm) for norm in norms),
        n_samples=_MOST_PEOPLE if promise.n_is_private else bounds.n_samples,
        n_columns=max(bounds.block_sizes),
    )


def _check_bounds(bounds: PublicBounds) -> None:
    for name, value in asdict(bounds).items():
        values = value if isinstance(value, tuple) else (1 if value is None else value,)
        if min(values) < 1:
            raise UsageError(
                f"{name.replace('_', ' ')} must be positive",
                value=min(values),
                remedy="Give wider public bounds",
            )


def check_recipe(promise: Promise, recipe: Recipe, bounds: PublicBounds) -> None:
    """Refuse a recipe that the promise has no proof for, or no use.

    Raises
    ------
    UsageError
        For label privacy anything but every statistic once; a subsample that is no smaller than
        the cohort, or together with what its proof leaves out.
    """
    if promise.privacy is PrivacyUnit.LABEL and recipe != Recipe():
        raise UsageError(
            "with label privacy X'X is public: nothing is gained by noise on it",
            where="--method" if recipe.subsample is None else "--subsample",
            remedy="Use reuse-cov-gauss or reuse-cov-proj-x, of everybody",
        )
    if recipe.subsample is None:
        return
    if promise.adjacency is not Adjacency.REPLACE_ONE:
        raise UsageError(
            "amplification by subsampling is proved for replace-one alone",
            where="--adjacency",
            value=promise.adjacency,
            remedy="Leave --adjacency out",
        )
    if recipe.gram_copies > 1 or recipe.eigenvalue_share > 0:
        raise UsageError("a subsample gives one noisy X'X and no more", where="--subsample")
    if promise.share != 1:
        raise UsageError(
            "phenotype moments and a subsample have no common account of the budget",
            where="--subsample",
            remedy="Leave out --pheno-moments or --subsample",
        )
    if not 1 <= recipe.subsample < bounds.n_samples:
        raise UsageError(
            "the subsample must be smaller than the cohort",
            where="--subsample",
            value=recipe.subsample,
            limit=bounds.n_samples,
        )


def _check_integer_range(mechanism: Mechanism) -> None:
    """Refuse noise the sampler would saturate at, and sums that could wrap around."""
    scales, bounds = mechanism.scales, mechanism.bounds
    sigma = max(*scales.gram, scales.phenotype_cross, scales.fixed_gram, scales.phenotype_gram)
    if math.ldexp(sigma, fine_bits(sigma)) > LARGEST_FINE_SIGMA:
        raise UsageError(
            "the noise is too large for 64-bit sampling",
            value=sigma,
            limit=LARGEST_FINE_SIGMA,
            remedy="Lower the scale of the lattice or raise epsilon",
        )
    largest_sum = bounds.n_samples * max(bounds.row_norm, bounds.outcome_norm)
    if largest_sum + _TAIL_SIGMAS * math.ceil(sigma) >= _INT64_LIMIT:
        raise UsageError(
            "sums plus noise would not fit 64-bit integers",
            value=largest_sum,
            limit=_INT64_LIMIT,
            remedy="Lower the scale of the lattice or the public bounds",
        )


def rounded_up(sigma: float) -> float:
    """A standard deviation at least as large as it would be in exact arithmetic."""
    # The few roundings on the way here are each below 2^-53 relative, together below 2^-50.
    return math.nextafter(sigma * (1 + 2.0**-50), math.inf)
