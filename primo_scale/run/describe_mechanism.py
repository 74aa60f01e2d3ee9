"""Statement of a calibrated mechanism in release.json: its guarantee and every noisy statistic.

The stated sensitivity is that of a statistic alone. Noise is calibrated jointly, which
`primo_scale.publication.recompute` checks without this code.
"""

from __future__ import annotations

import math
from functools import partial
from importlib.metadata import version

from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.lattice_noise import fine_bits, off_diagonal_sigma
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.privacy.held_out_accuracy import N_COUNTS
from primo_scale.privacy.held_out_sums import row_norm
from primo_scale.privacy.mechanism import (
    HoldOut,
    Mechanism,
    Promise,
    SecondRound,
    calibration_of,
    counts_share,
    eigenvalue_sensitivity,
)
from primo_scale.publication import statement, wording
from primo_scale.publication.recompute_mechanisms import PARTS, SYMMETRIC
from primo_scale.publication.statement_mechanism import (
    StatedMechanism,
    StatedQuery,
    StatedSecondRound,
)
from primo_scale.run.design import PaidAdjustment
from primo_scale.run.forecast import ChosenMethod
from primo_scale.version import __version__

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
        privacy=str(promise.unit),
        unit=wording.unit_in_words(promise.unit, promise.adjacency),
        accountant=statement.Accountant(
            wording.accountant_in_words(subsampled=cost.delta > 0), versions
        ),
    )


def state_cost(cost: Cost) -> statement.StatedCost:
    """Return the statement of a cost."""
    return statement.StatedCost(cost.mu_squared, cost.epsilon, cost.delta)


def state_mechanism(
    mechanism: Mechanism, chosen: ChosenMethod, adjustment: PaidAdjustment, *, n_fixed: int
) -> StatedMechanism:
    """Return the statement of every noisy statistic and of the bounds that its noise rests on.

    `n_fixed` is the number of columns of C, the constant and the covariates.
    """
    promise, bounds, recipe = mechanism.promise, mechanism.bounds, mechanism.recipe
    block_norms = None if mechanism.split is None else bounds.block_norms
    every = _queries(mechanism, block_norms, n_fixed, adjustment)
    noisy = {query.name: query for query in every if any(query.sigma)}
    return StatedMechanism(
        method=chosen.method.name,
        summary=chosen.method.summary,
        reason=chosen.reason,
        calibration=calibration_of(bounds, promise, recipe),
        split=mechanism.split,
        row_norm_squared=bounds.row_norm,
        block_norms_squared=block_norms,
        phenotypes_norm_squared=bounds.phenotype_norm,
        counts_share=counts_share(promise),
        eigenvalue_share=recipe.eigenvalue_share,
        share=promise.share,
        adjustment_norm=adjustment.norm,
        gram_copies=recipe.gram_copies,
        subsample=recipe.subsample,
        exact_parts=tuple(name for name in PARTS if name not in noisy),
        queries=tuple(noisy.values()),
        second_round=(
            None
            if (own := mechanism.second_round) is None
            else StatedSecondRound(own.directions, own.row_norm, own.phenotype_norm)
        ),
        **wording.KEYSTREAM,
    )


def _queries(
    mechanism: Mechanism,
    block_norms: tuple[int, ...] | None,
    n_fixed: int,
    adjustment: PaidAdjustment,
) -> list[StatedQuery]:
    """Return every statistic, exact or noisy; X'X has a part for each of the `block_norms`."""
    bounds, promise, scales = mechanism.bounds, mechanism.promise, mechanism.scales
    apart = mechanism.hold_out or HoldOut(0, 0.0, 0.0, "")
    own = mechanism.second_round or SecondRound(1, 1, 1, 0.0)
    d, f, l = sum(bounds.block_sizes), n_fixed, bounds.n_phenotypes  # noqa: E741
    row, phenotype = bounds.row_norm, bounds.phenotype_norm
    gram = partial(sensitivity.gram, adjacency=promise.adjacency)
    cross = partial(sensitivity.cross, adjacency=promise.adjacency)
    product = cross(row, phenotype)
    if promise.unit is PrivacyUnit.LABEL:
        product = sensitivity.cross_of_clipped_products(row * phenotype, promise.adjacency)

    def whole(name: str, sigma: float, shape: tuple[int, ...], change: float) -> StatedQuery:
        return _query(name, (sigma,), shape, (change,))

    gram_sigmas = scales.gram[:1] if block_norms is None else scales.gram
    gram_changes = tuple(gram(min(norm, row)) for norm in block_norms or (row,))
    adjustment_change = sensitivity.adjustment(adjustment.norm, promise.adjacency)
    columns, counts = l * (f + 1), l + promise.n_is_private
    eigenvalue_change = eigenvalue_sensitivity(bounds, promise)
    counts_change = sensitivity.held_out_counts(l)
    held_out_change = sensitivity.held_out_gram(l, row_norm(apart.groups))
    scored = 3 * l * apart.groups
    own_change = cross(own.row_norm, own.phenotype_norm)
    return [
        _query("gram", gram_sigmas, (d, d), gram_changes),
        whole("phenotype_cross", scales.phenotype_cross, (d, l), product),
        whole("phenotype_gram", scales.phenotype_gram, (l, l), gram(phenotype)),
        whole("observed", scales.observed, (counts,), sensitivity.observed_counts(counts)),
        whole("smallest_eigenvalue", scales.smallest_eigenvalue, (1,), eigenvalue_change),
        whole("adjustment", adjustment.sigma, (columns, columns), adjustment_change),
        whole("second_round", own.sigma, (own.directions,), own_change),
        whole("held_out_counts", apart.scale_sigma, (l, N_COUNTS), counts_change),
        whole("held_out_gram", apart.gram_sigma, (scored, scored), held_out_change),
    ]


def _query(
    name: str, sigmas: tuple[float, ...], shape: tuple[int, ...], changes: tuple[float, ...]
) -> StatedQuery:
    """Return a statistic by its sigmas, one for each part, and the changes by one person."""
    symmetric = name in SYMMETRIC
    beside = tuple(off_diagonal_sigma(sigma) for sigma in sigmas)
    return StatedQuery(
        name=name,
        statistic=wording.STATISTICS[name],
        shape=shape,
        layout="svec" if symmetric else "full",
        sensitivity=changes,
        sigma=sigmas,
        off_diagonal_sigma=beside if symmetric else None,
        fine_bits=tuple(map(fine_bits, beside if symmetric else sigmas)),
    )
