"""Statement of a calibrated mechanism in release.json: its guarantee and every noisy statistic.

The stated sensitivity is that of a statistic alone. Noise is calibrated jointly, which
`primo_scale.publication.recompute` checks without this code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.lattice_noise import fine_bits, off_diagonal_sigma
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.privacy.held_out_accuracy import N_COUNTS
from primo_scale.privacy.held_out_sums import ROW_NORM
from primo_scale.privacy.mechanism import HoldOut, Mechanism, Promise
from primo_scale.privacy.scales import (
    CALIBRATIONS,
    calibration_of,
    counts_share,
    eigenvalue_sensitivity,
)
from primo_scale.publication import statement
from primo_scale.publication.recompute_mechanisms import PARTS
from primo_scale.publication.samplers import KEYSTREAM
from primo_scale.publication.statement_mechanism import StatedMechanism, StatedQuery
from primo_scale.publication.wording import STATISTICS, accountant_in_words, unit_in_words
from primo_scale.run.release_forecast import ChosenMethod
from primo_scale.version import __version__

_SYMMETRIC = ("gram", "fixed_gram", "phenotype_gram", "held_out_gram")
_LIBRARIES = ("scipy", "cryptography")


def state_guarantee(promise: Promise, cost: Cost) -> statement.Guarantee:
    """Return the statement of a promise, given the cost of all charges of the release together."""
    versions = {"primo_scale": __version__, **{name: version(name) for name in _LIBRARIES}}
    return statement.Guarantee(
        epsilon=promise.epsilon,
        delta=promise.delta,
        cost=state_cost(cost),
        mu=math.sqrt(cost.mu_squared),
        adjacency=str(promise.adjacency),
        privacy=str(promise.privacy),
        unit=unit_in_words(promise.privacy, promise.adjacency),
        accountant=statement.Accountant(accountant_in_words(subsampled=cost.delta > 0), versions),
    )


def state_cost(cost: Cost) -> statement.StatedCost:
    """Return the statement of a cost."""
    return statement.StatedCost(cost.mu_squared, cost.epsilon, cost.delta)


def state_mechanism(
    mechanism: Mechanism, chosen: ChosenMethod, *, n_fixed: int, moments_sigma: float = 0.0
) -> StatedMechanism:
    """Return the statement of every noisy statistic and of the bounds that its noise rests on.

    `n_fixed` is the number of columns of C, the constant and the covariates. `moments_sigma` is the
    scale of the noise on phenotype moments, which have a charge of their own; 0 without them.
    """
    promise, bounds, recipe = mechanism.promise, mechanism.bounds, mechanism.recipe
    calibration = calibration_of(bounds, promise, recipe)
    block_norms = bounds.block_norms if CALIBRATIONS[calibration].splits else None
    statistics = _statistics(mechanism, block_norms, n_fixed, moments_sigma)
    return StatedMechanism(
        method=chosen.method.name,
        summary=chosen.method.summary,
        reason=chosen.reason,
        calibration=calibration,
        split=mechanism.split,
        row_norm_squared=bounds.row_norm,
        block_norms_squared=block_norms,
        constant_and_covariates_norm_squared=bounds.fixed_norm,
        phenotypes_norm_squared=bounds.phenotype_norm,
        counts_share=counts_share(promise),
        eigenvalue_share=recipe.eigenvalue_share,
        share=promise.share,
        gram_copies=recipe.gram_copies,
        subsample=recipe.subsample,
        exact_parts=tuple(name for name in PARTS if not any(statistics[name].sigmas)),
        queries=tuple(_query(name, part) for name, part in statistics.items() if any(part.sigmas)),
        sampler=KEYSTREAM.name,
        sampler_exactness=KEYSTREAM.exactness,
        rng=KEYSTREAM.rng,
    )


@dataclass(frozen=True)
class _Statistic:
    """Sigmas of the parts of a statistic (0 without noise), its shape, and its sensitivities."""

    sigmas: tuple[float, ...]
    shape: tuple[int, ...]
    sensitivities: tuple[float, ...]  # how much one person can change each part, taken alone


def _statistics(
    mechanism: Mechanism, block_norms: tuple[int, ...] | None, n_fixed: int, moments_sigma: float
) -> dict[str, _Statistic]:
    """Return every statistic by name; X'X has a part for each of the `block_norms`."""
    bounds, promise, scales = mechanism.bounds, mechanism.promise, mechanism.scales
    apart = mechanism.hold_out or HoldOut(0, 0.0, 0.0, "")
    d, f, l = sum(bounds.block_sizes), n_fixed, bounds.n_phenotypes  # noqa: E741
    row, fixed, phenotype = bounds.row_norm, bounds.fixed_norm, bounds.phenotype_norm
    gram = partial(sensitivity.gram, adjacency=promise.adjacency)
    cross = partial(sensitivity.cross, adjacency=promise.adjacency)
    product = cross(row, phenotype)
    if promise.privacy is PrivacyUnit.LABEL:
        product = sensitivity.cross_of_clipped_products(row * phenotype, promise.adjacency)

    def whole(sigma: float, shape: tuple[int, ...], change: float) -> _Statistic:
        return _Statistic((sigma,), shape, (change,))

    moments_change = sensitivity.phenotype_moments(l, promise.adjacency)
    return {
        "gram": _Statistic(
            scales.gram[:1] if block_norms is None else scales.gram,
            (d, d),
            tuple(gram(min(norm, row)) for norm in block_norms or (row,)),
        ),
        "fixed_cross": whole(scales.fixed_cross, (d, f), cross(row, fixed)),
        "phenotype_cross": whole(scales.phenotype_cross, (d, l), product),
        "fixed_gram": whole(scales.fixed_gram, (f, f), gram(fixed)),
        "fixed_phenotype": whole(scales.fixed_phenotype, (f, l), cross(fixed, phenotype)),
        "phenotype_gram": whole(scales.phenotype_gram, (l, l), gram(phenotype)),
        "observed": whole(scales.observed, (l,), sensitivity.observed_counts(l)),
        "smallest_eigenvalue": whole(
            scales.smallest_eigenvalue, (1,), eigenvalue_sensitivity(bounds, promise)
        ),
        "phenotype_moments": whole(moments_sigma, (3, l), moments_change),
        "held_out_counts": whole(apart.scale_sigma, (l, N_COUNTS), sensitivity.held_out_counts(l)),
        "held_out_gram": whole(
            apart.gram_sigma, (3 * l, 3 * l), sensitivity.held_out_gram(l, ROW_NORM)
        ),
    }


def _query(name: str, statistic: _Statistic) -> StatedQuery:
    symmetric = name in _SYMMETRIC
    beside = tuple(off_diagonal_sigma(sigma) for sigma in statistic.sigmas)
    return StatedQuery(
        name=name,
        statistic=STATISTICS[name],
        shape=statistic.shape,
        layout="svec" if symmetric else "full",
        sensitivity=statistic.sensitivities,
        sigma=statistic.sigmas,
        off_diagonal_sigma=beside if symmetric else None,
        fine_bits=tuple(map(fine_bits, beside if symmetric else statistic.sigmas)),
    )
