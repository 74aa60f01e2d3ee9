"""State a calibrated mechanism: the guarantee and every noisy statistic, as release.json has them.

The sensitivities stated are those of each statistic alone; noise is calibrated jointly, which
`primo_scale.publication.recompute` checks without this code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.noise import fine_bits, off_diagonal_sigma
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.privacy.mechanism import Mechanism, Promise
from primo_scale.privacy.scales import (
    CALIBRATIONS,
    calibration_of,
    counts_share,
    eigenvalue_sensitivity,
)
from primo_scale.publication import statement as said
from primo_scale.publication.recompute_mechanisms import PARTS
from primo_scale.publication.samplers import KEYSTREAM
from primo_scale.publication.statement_mechanism import StatedMechanism, StatedQuery
from primo_scale.publication.wording import STATISTICS, accountant_in_words, unit_in_words
from primo_scale.version import __version__

_SYMMETRIC = ("gram", "fixed_gram", "phenotype_gram")
_LIBRARIES = ("scipy", "cryptography")


@dataclass(frozen=True)
class Stated:
    """What is stated besides the mechanism itself.

    Attributes
    ----------
    method, summary, reason
        Name of the method, what it does, and why it was used.
    n_fixed
        Columns of C: the constant and the covariates.
    moments_sigma
        Sigma of the noise on phenotype moments, which have a charge of their own, or None.
    """

    method: str
    summary: str
    reason: str
    n_fixed: int
    moments_sigma: float | None = None


def state_guarantee(promise: Promise, cost: Cost) -> said.Guarantee:
    """State the promise.

    Parameters
    ----------
    promise
        Promise of the release.
    cost
        Cost of all charges of the release together.
    """
    versions = {"primo_scale": __version__, **{name: version(name) for name in _LIBRARIES}}
    return said.Guarantee(
        epsilon=promise.epsilon,
        delta=promise.delta,
        cost=said.StatedCost(cost.mu_squared, cost.epsilon, cost.delta),
        mu=math.sqrt(cost.mu_squared),
        adjacency=str(promise.adjacency),
        privacy=str(promise.privacy),
        unit=unit_in_words(promise.privacy, promise.adjacency),
        accountant=said.Accountant(accountant_in_words(subsampled=cost.delta > 0), versions),
    )


def state_mechanism(mechanism: Mechanism, also: Stated) -> StatedMechanism:
    """State every noisy statistic and what its noise rests on."""
    promise, bounds, recipe = mechanism.promise, mechanism.bounds, mechanism.recipe
    block_norms, noise = _block_norms(mechanism), _noise(mechanism, also)
    return StatedMechanism(
        method=also.method,
        summary=also.summary,
        reason=also.reason,
        calibration=_calibration(mechanism),
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
        exact_parts=tuple(name for name in PARTS if not any(noise[name])),
        queries=tuple(
            _query(name, sigmas, mechanism, also.n_fixed)
            for name, sigmas in noise.items()
            if any(sigmas)
        ),
        sampler=KEYSTREAM.name,
        sampler_exactness=KEYSTREAM.exactness,
        rng=KEYSTREAM.rng,
    )


def _calibration(mechanism: Mechanism) -> str:
    return calibration_of(mechanism.bounds, mechanism.promise, mechanism.recipe)


def _block_norms(mechanism: Mechanism) -> tuple[int, ...] | None:
    """The bounds on single blocks, where noise rests on them."""
    splits = CALIBRATIONS[_calibration(mechanism)].splits
    return mechanism.bounds.block_norms if splits else None


def _noise(mechanism: Mechanism, also: Stated) -> dict[str, tuple[float, ...]]:
    """Sigmas of every statistic by name; 0 where there is no noise."""
    scales = mechanism.scales
    same = _block_norms(mechanism) is None
    return {
        "gram": scales.gram[:1] if same else scales.gram,
        "fixed_cross": (scales.fixed_cross,),
        "phenotype_cross": (scales.phenotype_cross,),
        "fixed_gram": (scales.fixed_gram,),
        "fixed_phenotype": (scales.fixed_phenotype,),
        "phenotype_gram": (scales.phenotype_gram,),
        "observed": (scales.observed,),
        "smallest_eigenvalue": (scales.smallest_eigenvalue,),
        "phenotype_moments": (also.moments_sigma or 0.0,),
    }


def _query(name: str, sigmas: Sequence[float], mechanism: Mechanism, n_fixed: int) -> StatedQuery:
    symmetric = name in _SYMMETRIC
    beside = tuple(off_diagonal_sigma(sigma) for sigma in sigmas)
    drawn = beside if symmetric else sigmas
    return StatedQuery(
        name=name,
        statistic=STATISTICS[name],
        shape=_shape(name, mechanism, n_fixed),
        layout="svec" if symmetric else "full",
        sensitivity=_sensitivities(name, mechanism),
        sigma=tuple(sigmas),
        off_diagonal_sigma=beside if symmetric else None,
        fine_bits=tuple(fine_bits(sigma) for sigma in drawn),
    )


def _shape(name: str, mechanism: Mechanism, n_fixed: int) -> tuple[int, ...]:
    bounds = mechanism.bounds
    d, l = sum(bounds.block_sizes), bounds.n_phenotypes  # noqa: E741
    return {
        "gram": (d, d),
        "fixed_cross": (d, n_fixed),
        "phenotype_cross": (d, l),
        "fixed_gram": (n_fixed, n_fixed),
        "fixed_phenotype": (n_fixed, l),
        "phenotype_gram": (l, l),
        "observed": (l,),
        "smallest_eigenvalue": (1,),
        "phenotype_moments": (3, l),
    }[name]


def _sensitivities(name: str, mechanism: Mechanism) -> tuple[float, ...]:
    """What one person can change each statistic by, alone."""
    bounds, promise = mechanism.bounds, mechanism.promise
    row, fixed, phenotype = bounds.row_norm, bounds.fixed_norm, bounds.phenotype_norm
    adjacency = promise.adjacency
    match name:
        case "gram":
            norms = _longest_rows(mechanism)
            return tuple(sensitivity.gram(norm, adjacency) for norm in norms)
        case "fixed_cross":
            return (sensitivity.cross(row, fixed, adjacency),)
        case "phenotype_cross" if promise.privacy is PrivacyUnit.LABEL:
            return (sensitivity.cross_of_clipped_products(row * phenotype, adjacency),)
        case "phenotype_cross":
            return (sensitivity.cross(row, phenotype, adjacency),)
        case "fixed_gram":
            return (sensitivity.gram(fixed, adjacency),)
        case "fixed_phenotype":
            return (sensitivity.cross(fixed, phenotype, adjacency),)
        case "phenotype_gram":
            return (sensitivity.gram(phenotype, adjacency),)
        case "observed":
            return (sensitivity.observed_counts(bounds.n_phenotypes),)
        case "smallest_eigenvalue":
            return (eigenvalue_sensitivity(bounds, promise),)
        case _:
            return (sensitivity.phenotype_moments(bounds.n_phenotypes, adjacency),)


def _longest_rows(mechanism: Mechanism) -> list[int]:
    """What bounds ``||x_b||^2`` in every block, or ``||x||^2`` where blocks have no bounds."""
    row = mechanism.bounds.row_norm
    return [min(norm, row) for norm in _block_norms(mechanism) or (row,)]
