"""The mechanism of one release, as data: its guarantee, its public bounds and its noise scales.

A person's row has two integer parts: coded genotypes x and phenotypes y, which were adjusted for
the covariates before (`primo_scale.privacy.payment`). Four statistics are summed over
people: X'X (its diagonal LD blocks), X'Y, Y'Y and the number of people with each phenotype. A
mechanism states the noise on each of them. `calibrate` computes the smallest
noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import lru_cache

from primo_scale.errors import Field, UsageError
from primo_scale.gaussian import calibration, noise, sensitivity
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.privacy.shares import SHARES

# At 2, X'X is free beside X'Z under replace-one, and larger splits gain nothing
# (docs/maths/sensitivity.md, Theorem 2).
LARGEST_SPLIT = 2.0


@dataclass(frozen=True)
class Guarantee:
    """Differential privacy of one release."""

    epsilon: float
    delta: float
    unit: PrivacyUnit = PrivacyUnit.FULL
    # With label or feature privacy, ``add-remove`` means that one person's phenotypes, or genotypes
    # and covariates, are replaced by nothing: the person counts in no sum that they enter.
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def n_is_private(self) -> bool:
        """Whether the number of people is private."""
        return self.unit is PrivacyUnit.FULL and self.adjacency is Adjacency.ADD_REMOVE

    @property
    def counts_are_private(self) -> bool:
        """Whether it is private which phenotypes a person has."""
        return self.unit is not PrivacyUnit.FEATURE


@dataclass(frozen=True)
class Promise(Guarantee):
    """Guarantee of a release, and the share of its mu^2 that a mechanism may spend."""

    share: float = 1.0
    # Whether adjusted phenotypes are public, with Y'Y: with feature privacy, no covariate and
    # replaced rows.
    phenotypes_are_public: bool = False


@dataclass(frozen=True)
class PublicBounds:
    """Public numbers that the noise is calibrated to; norms are squared, in lattice units."""

    # N_x, bound on ``||x||^2``. With label privacy genotypes are not clipped, and phenotypes are
    # clipped so that ``||x||^2 ||y||^2 <= N_x N_y``.
    row_norm: int
    # Bounds beta_b, one per LD block, if rows are also clipped to ``||x_b||^2 <= beta_b``; else
    # None.
    block_norms: tuple[int, ...] | None
    phenotype_norm: int  # N_y, bound on ``||y||^2``
    block_sizes: tuple[int, ...]  # variants in each LD block
    n_samples: int  # number of people n, or the public nominal number if n is private
    n_phenotypes: int  # l


@dataclass(frozen=True)
class Recipe:
    """Noisy measurements of a method; by default every statistic is measured once."""

    # Share of mu^2 for the smallest eigenvalue of X'X, or 0 if it is not measured.
    eigenvalue_share: float = 0.0
    # Number of copies of X'X with independent noise; above 1 only for method ``naive``.
    gram_copies: int = 1
    subsample: int | None = None  # number of people that X'X is summed over, or None for all people


@dataclass(frozen=True)
class NoiseScales:
    """Standard deviations of the noise in lattice units, rounded up; 0 for a public statistic."""

    # Noise on the diagonal of ``X_b'X_b``, one value per block. Noise off the diagonal of X'X
    # and Y'Y is smaller by a factor sqrt(2).
    gram: tuple[float, ...]
    phenotype_cross: float  # noise on X'Y
    phenotype_gram: float  # noise on the diagonal of Y'Y
    # Noise on the number of people with each phenotype, and on that of all people if it is private.
    observed: float
    smallest_eigenvalue: float = 0.0  # noise on that of X'X; 0 if it is not measured


def no_noise(n_blocks: int) -> NoiseScales:
    """Return the scales of exact statistics, whose release is NOT PRIVATE."""
    return NoiseScales((0.0,) * n_blocks, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class HoldOut:
    """Noise on the measures of the weights in people who count in no other statistic.

    It costs nothing beside the statistics of the others (docs/maths/hold-out.md, Theorem 1).
    """

    people: int  # number of people held out
    scale_sigma: float  # noise on counts of people by their score
    gram_sigma: float  # noise on the diagonal of the Gram matrices of scores and residuals
    fit: str  # way from statistics to weights: other weights would be measured at a further cost
    groups: int = 1  # number of groups of people, each with Gram matrices of its own


@dataclass(frozen=True)
class SecondRound:
    """Noise on a second measurement of X'Y, in directions of every phenotype's own.

    A person's phenotypes y_k and directions x_k satisfy ``sum_k y_k^2 ||x_k||^2 <= N_x N_y``
    (docs/maths/rounds.md, Theorem 1).
    """

    directions: int  # of all phenotypes together
    row_norm: int  # N_x
    phenotype_norm: int  # N_y
    sigma: float  # standard deviation of the noise in every direction


@dataclass(frozen=True)
class Mechanism:
    """Calibrated noise of one release."""

    promise: Promise
    bounds: PublicBounds
    recipe: Recipe
    # Split t of the shift between X'X and X'Z: D/A for one dense X'X, and 2 tau with tau^3 + 3 tau
    # = D/Q for LD blocks (docs/maths/sensitivity.md); None if they share no shift.
    split: float | None
    cost: calibration.Cost  # that the ledger charges
    scales: NoiseScales
    hold_out: HoldOut | None = None
    second_round: SecondRound | None = None  # None before it is chosen, and without one


# ---- Calibration ---------------------------------------------------------------------------------
#
# Each private function is one case of the guarantee and names its theorem in docs/maths. In every
# case the mu^2 of all statistics together is what the promise allows. The counts, and the smallest
# eigenvalue if a method measures it, receive a share of it, and the Gram matrices receive the rest,
# rest_mu^2. Standard deviations are rounded up.


# A Gaussian exceeds 32 standard deviations with probability 1e-223.
_TAIL_SIGMAS = 32
_INT64_LIMIT = 2**63
# Bound on n where it is private: more than the number of people alive.
_MOST_PEOPLE = 2**33


def calibrate(bounds: PublicBounds, promise: Promise, recipe: Recipe, *, split: float) -> Mechanism:
    """Return the mechanism with the smallest noise under which a release keeps its promise.

    Source: docs/maths/noise.md, Theorem 1, for mu, and docs/maths/sensitivity.md, Theorem 2, for
    the case. The split t is that of `planning.split_for`, used if X'X and X'Y share the shift. A
    UsageError is raised if a parameter is out of range, a bound is not positive, the recipe has no
    proof for the promise, or the sums plus noise do not fit in 64-bit integers.
    """
    for name, value in vars(bounds).items():
        least = min(value) if isinstance(value, tuple) else value
        if least is not None and least < 1:
            raise UsageError(
                f"{name.replace('_', ' ')} must be positive",
                value=least,
                remedy="Give wider public bounds",
            )
    check_recipe(promise, recipe, bounds)
    if not 0 < split <= LARGEST_SPLIT:
        raise UsageError("the split is out of range", value=split, limit=f"(0, {LARGEST_SPLIT}]")
    _, scales, splits = CALIBRATIONS[calibration_of(bounds, promise, recipe)]
    calibrated = _of_everybody if recipe.subsample is None else _subsampled
    mechanism = calibrated(scales, bounds, promise, recipe, split)
    if not splits:
        mechanism = replace(mechanism, split=None)
    _check_integer_range(mechanism)
    return mechanism


def release_cost(promise: Guarantee, subsample: int | None) -> calibration.Cost:
    """Return the cost of a release: of the adjustment of its phenotypes, and of its statistics.

    Half of (epsilon, delta) pays for X'X of a subsample, and the other half for everything else.
    Source: docs/maths/subsampling.md, Theorem 2.
    """
    if subsample is None:
        return calibration.Cost(calibration.release_mu(promise.epsilon, promise.delta) ** 2)
    epsilon, delta = promise.epsilon / 2, promise.delta / 2
    return calibration.Cost(calibration.release_mu(epsilon, delta) ** 2, epsilon, delta)


def gram_share(promise: Promise, recipe: Recipe) -> float:
    """Return the share of mu^2 that remains for the Gram matrices and cross products.

    mu^2 adds up over releases (docs/maths/noise.md, Theorem 2).
    """
    return 1 - counts_share(promise) - recipe.eigenvalue_share


def second_round(
    promise: Promise, directions: int, row_norm: int, phenotype_norm: int
) -> SecondRound:
    """Return the second round, which spends what the first leaves of the statistics' mu^2.

    `promise` is that of the first round. Source: docs/maths/rounds.md, Theorem 1.
    """
    share = promise.share * (1 - SHARES.first_round) / SHARES.first_round
    mu = calibration.release_mu(promise.epsilon, promise.delta) * math.sqrt(share)
    change = sensitivity.cross(row_norm, phenotype_norm, promise.adjacency)
    return SecondRound(directions, row_norm, phenotype_norm, rounded_up(change / mu))


def counts_share(promise: Promise) -> float:
    """Return the share of mu^2 for the counts of observed phenotypes.

    It is 0 if the counts are public. Source: docs/maths/sensitivity.md, Theorem 1 (e).
    """
    return SHARES.counts if promise.counts_are_private else 0.0


def calibration_of(bounds: PublicBounds, promise: Promise, recipe: Recipe) -> str:
    """Return the name of the theorem that calibrates the noise, a key of `CALIBRATIONS`."""
    cases = CALIBRATIONS.items()
    return next(name for name, (applies, *_) in cases if applies(bounds, promise, recipe))


def _of_everybody(
    scales_of: Scales, bounds: PublicBounds, promise: Promise, recipe: Recipe, split: float
) -> Mechanism:
    """Return the mechanism of statistics of all people, from the scales of Gram matrices."""
    cost = release_cost(promise, recipe.subsample)
    cost = replace(cost, mu_squared=cost.mu_squared * promise.share)
    mu = math.sqrt(cost.mu_squared)
    rest_mu = mu * math.sqrt(gram_share(promise, recipe))
    scales = scales_of(bounds, promise, rest_mu, split)
    if promise.phenotypes_are_public:
        scales = replace(scales, phenotype_gram=0.0)
    if recipe.gram_copies > 1:  # the mean of the copies is as precise as one release
        copies = math.sqrt(recipe.gram_copies)
        scales = replace(scales, gram=tuple(rounded_up(sigma * copies) for sigma in scales.gram))
    counts_change = sensitivity.observed_counts(bounds.n_phenotypes + promise.n_is_private)
    eigenvalue_change = eigenvalue_sensitivity(bounds, promise)
    scales = replace(
        scales,
        observed=_scale_at_share(counts_change, mu, counts_share(promise)),
        smallest_eigenvalue=_scale_at_share(eigenvalue_change, mu, recipe.eigenvalue_share),
    )
    return Mechanism(promise, bounds, recipe, split, cost, scales)


def stacked(bounds: PublicBounds, promise: Promise, rest_mu: float, split: float) -> NoiseScales:
    """Return the scales for replace-one, from one Gram matrix of rows (x, k y).

    ``k^2 = t N_x / (2 N_y)``. Blocks whose bounds add up to at most N_x need less noise each.
    Source: docs/maths/sensitivity.md, Theorem 2, cases ``stacked``.
    """
    dense = sensitivity.stacked(bounds.row_norm, split) / rest_mu
    stacking = math.sqrt(split * bounds.row_norm / (2 * bounds.phenotype_norm))
    if bounds.block_norms is None:
        gram = (dense,) * len(bounds.block_sizes)
    else:
        gram = tuple(
            sensitivity.stacked_block(norm, bounds.row_norm, split) / rest_mu
            for norm in bounds.block_norms
        )
    return _jointly(gram, dense / (math.sqrt(2) * stacking), dense / stacking**2)


def _by_block(bounds: PublicBounds, promise: Promise, rest_mu: float, split: float) -> NoiseScales:
    """Return the scales for replace-one and rows clipped in every block and in total.

    Source: docs/maths/sensitivity.md, Theorem 2, case ``by-block``.
    """
    row, outcome, norms = bounds.row_norm, bounds.phenotype_norm, bounds.block_norms or ()
    return _jointly(
        tuple(factor / rest_mu for factor in _block_gram_factors(norms, row, split)),
        sensitivity.cross_factor_by_block(row, outcome, split=split) / rest_mu,
        sensitivity.outcome_gram_factor_by_block(outcome, split=split) / rest_mu,
    )


@lru_cache(maxsize=512)  # a search for a clip or a target repeats few of them
def _block_gram_factors(norms: tuple[int, ...], row: int, split: float) -> tuple[float, ...]:
    return tuple(sensitivity.block_gram_factor(norm, row, split=split) for norm in norms)


def _separate(bounds: PublicBounds, promise: Promise, rest_mu: float, split: float) -> NoiseScales:
    """Return the scales for add-remove, where the shares of the shift add up.

    Source: docs/maths/sensitivity.md, Theorem 2, case ``add-remove``.
    """
    add = Adjacency.ADD_REMOVE
    gram_mu = rest_mu * math.sqrt((1 - SHARES.outcome_gram) / (1 + split))
    cross_mu = gram_mu * math.sqrt(split)
    if bounds.block_norms is None:
        gram = (sensitivity.gram(bounds.row_norm, add) / gram_mu,) * len(bounds.block_sizes)
    else:
        factor, row = sensitivity.block_gram_factor_add_remove, bounds.row_norm
        gram = tuple(factor(norm, row) / gram_mu for norm in bounds.block_norms)
    return _jointly(
        gram,
        sensitivity.cross(bounds.row_norm, bounds.phenotype_norm, add) / cross_mu,
        sensitivity.gram(bounds.phenotype_norm, add) / (rest_mu * math.sqrt(SHARES.outcome_gram)),
    )


def _label(bounds: PublicBounds, promise: Promise, rest_mu: float, split: float) -> NoiseScales:
    """Return the scales for label privacy: noise on X'Y and Y'Y only.

    Y'Y is free beside X'Y under replace-one, and needs a share of mu^2 under add-remove.
    Source: docs/maths/sensitivity.md, Theorem 2, case ``label``.
    """
    if promise.adjacency is Adjacency.REPLACE_ONE:
        cross_mu = rest_mu
        phenotypes = sensitivity.label_phenotype_gram_factor(bounds.phenotype_norm) / rest_mu
    else:
        cross_mu = rest_mu * math.sqrt(1 - SHARES.outcome_gram)
        phenotypes = sensitivity.gram(bounds.phenotype_norm, promise.adjacency)
        phenotypes /= rest_mu * math.sqrt(SHARES.outcome_gram)
    cross = sensitivity.cross(bounds.row_norm, bounds.phenotype_norm, promise.adjacency) / cross_mu
    return _jointly((0.0,) * len(bounds.block_sizes), cross, phenotypes)


def _subsampled(
    scales_of: Scales, bounds: PublicBounds, promise: Promise, recipe: Recipe, split: float
) -> Mechanism:
    """Return the mechanism for X'X of a secret subsample of s people and the rest of all n.

    Half of (epsilon, delta) pays for X'X: a mechanism that is (eps_1, delta_1)-private on the
    subsample is ``(log(1 + (s/n)(e^eps_1 - 1)), (s/n) delta_1)``-private on the cohort.
    Source: docs/maths/subsampling.md, Theorems 1 and 2.
    """
    rest = _of_everybody(scales_of, bounds, promise, recipe, split)
    n, s = bounds.n_samples, recipe.subsample or 0
    epsilon, delta = rest.cost.epsilon, rest.cost.delta
    amplified = math.log1p(math.expm1(epsilon) * n / s)
    if delta * n / s >= 1:
        raise UsageError("the subsample is too small for delta", where=Field("subsample"), value=s)
    gram_mu = calibration.release_mu(amplified * (1 - 1e-12), delta * n / s)
    gram = rounded_up(sensitivity.gram(bounds.row_norm, Adjacency.REPLACE_ONE) / gram_mu)
    return replace(rest, scales=replace(rest.scales, gram=(gram,) * len(bounds.block_sizes)))


def _jointly(gram: tuple[float, ...], cross: float, outcome_gram: float) -> NoiseScales:
    """Return the scales of X'X, X'Y and Y'Y, rounded up; 0 remains."""
    return NoiseScales(
        tuple(rounded_up(sigma) if sigma else 0.0 for sigma in gram),
        rounded_up(cross),
        rounded_up(outcome_gram),
        observed=0.0,
    )


def _scale_at_share(change: float, mu: float, share: float) -> float:
    """Return the scale that spends a share of mu^2, or 0 for a statistic without a share."""
    return rounded_up(change / (mu * math.sqrt(share))) if share else 0.0


def eigenvalue_sensitivity(bounds: PublicBounds, promise: Promise) -> float:
    """Return the sensitivity of the computed smallest eigenvalue of X'X, rounded down.

    Source: docs/maths/sensitivity.md, Theorem 1 (b).
    """
    norms = bounds.block_norms or (bounds.row_norm,)
    return sensitivity.smallest_eigenvalue(
        max(min(norm, bounds.row_norm) for norm in norms),
        n_samples=_MOST_PEOPLE if promise.n_is_private else bounds.n_samples,
        n_columns=max(bounds.block_sizes),
    )


def check_recipe(promise: Promise, recipe: Recipe, bounds: PublicBounds) -> None:
    """Refuse a recipe that has no proof, or no use, under the promise.

    Source: docs/maths/sensitivity.md, Theorem 2; docs/maths/subsampling.md, Theorem 2.
    """
    if promise.unit is PrivacyUnit.LABEL and recipe != Recipe():
        raise UsageError(
            "with label privacy X'X is public, so noise on it gains nothing",
            where="--method" if recipe.subsample is None else Field("subsample"),
            remedy="Use reuse-cov-gauss or reuse-cov-proj-x without a subsample",
        )
    if gram_share(promise, recipe) <= 0:
        raise UsageError(
            "the smallest eigenvalue would take the whole budget",
            where=Field("gamma"),
            value=recipe.eigenvalue_share,
            limit=f"below {1 - counts_share(promise):g}",
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
        raise UsageError("a subsample allows only one noisy X'X", where=Field("subsample"))
    if not 1 <= recipe.subsample < bounds.n_samples:
        raise UsageError(
            "the subsample must be smaller than the cohort",
            where=Field("subsample"),
            value=recipe.subsample,
            limit=bounds.n_samples,
        )


def _check_integer_range(mechanism: Mechanism) -> None:
    """Refuse noise that exceeds the sampler's range, and sums that could overflow.

    Noise on any statistic counts, because it is drawn after the release is paid for.
    """
    gram, *others = astuple(mechanism.scales)
    sigma, bounds = max(*gram, *others), mechanism.bounds
    if sigma > noise.LARGEST_FINE_SIGMA:
        raise UsageError(
            "the noise is too large for 64-bit sampling",
            value=sigma,
            limit=noise.LARGEST_FINE_SIGMA,
            remedy="Lower the scale of the lattice, or raise epsilon or gamma",
        )
    largest_sum = bounds.n_samples * max(bounds.row_norm, bounds.phenotype_norm)
    if largest_sum + _TAIL_SIGMAS * math.ceil(sigma) >= _INT64_LIMIT:
        raise UsageError(
            "sums plus noise would not fit 64-bit integers",
            value=largest_sum,
            limit=_INT64_LIMIT,
            remedy="Lower the scale of the lattice or the public bounds",
        )


def rounded_up(sigma: float) -> float:
    """Return a standard deviation at least as large as in exact arithmetic.

    Source: docs/maths/noise.md, "What rounding changes".
    """
    # The few earlier roundings have a relative error below 2^-53 each and below 2^-50 together.
    return math.nextafter(sigma * (1 + 2.0**-50), math.inf)


Scales = Callable[[PublicBounds, Promise, float, float], NoiseScales]
"""Function of bounds, promise, rest_mu and split that returns the scales of Gram matrices."""


CALIBRATIONS: dict[str, tuple[Callable[[PublicBounds, Promise, Recipe], bool], Scales, bool]] = {
    "label": (lambda bounds, promise, recipe: promise.unit is PrivacyUnit.LABEL, _label, False),
    # X'Y and Y'Y beside a subsampled X'X have the scales of `stacked` at t = 2.
    "subsampled": (
        lambda bounds, promise, recipe: recipe.subsample is not None,
        lambda bounds, promise, rest_mu, split: stacked(
            replace(bounds, block_norms=None), promise, rest_mu, split=2.0
        ),
        False,
    ),
    "add-remove": (
        lambda bounds, promise, recipe: promise.adjacency is Adjacency.ADD_REMOVE,
        _separate,
        True,
    ),
    "stacked": (
        lambda bounds, promise, recipe: (
            bounds.block_norms is None or sum(bounds.block_norms) <= bounds.row_norm
        ),
        stacked,
        True,
    ),
    "by-block": (lambda bounds, promise, recipe: True, _by_block, True),
}
"""Calibrations by name; the first whose condition holds is used.

Each has its condition, the function of its theorem, and whether X'X, with the norms of its blocks,
and X'Y share the shift according to the split. `primo_scale.verify.theorems.THEOREMS` is the
verifier's table of the same names. The verifier shares no code with this module.
"""
