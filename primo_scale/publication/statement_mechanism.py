"""Mechanism of a release in release.json: every noisy statistic and its noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from primo_scale.publication.recompute_mechanisms import PARTS, THEOREMS
from primo_scale.publication.recompute_method import METHODS
from primo_scale.publication.schema_types import (
    AtLeastOne,
    Distinct,
    Positive,
    PositiveShare,
    Scale,
    Share,
    Text,
    one_of,
)
from primo_scale.publication.wording import KEYSTREAM, STATISTICS

Layout = Literal["svec", "full"]
_Scales = Annotated[tuple[Scale, ...], AtLeastOne]
_EXACTLY_SYMMETRIC_HAVE_TWO_SIGMAS = Meta(
    extra_json_schema={
        "if": {"properties": {"layout": {"const": "svec"}}},
        "then": {"properties": {"off_diagonal_sigma": {"type": "array"}}},
        "else": {"properties": {"off_diagonal_sigma": {"type": "null"}}},
    }
)


@dataclass(frozen=True)
class StatedQuery:
    """One noisy statistic of genotypes X and phenotypes Y."""

    name: Annotated[str, one_of(STATISTICS)]  # name of the statistic, a key of `STATISTICS`
    # Description of the statistic, the value of that key.
    statistic: Annotated[str, one_of(STATISTICS.values())]
    # Shape of the statistic; of the dense d x d matrix for ``gram``.
    shape: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=2)]
    # ``svec`` for a symmetric matrix with off-diagonal noise `off_diagonal_sigma`; ``full`` if all
    # entries have equal noise.
    layout: Layout
    # Largest l2 distance between the values of this statistic on neighbouring cohorts, in lattice
    # units: one number, or one per LD block if blocks have their own bounds.
    sensitivity: _Scales
    sigma: _Scales  # standard deviations of the noise in lattice units, as many as sensitivities
    # Standard deviations of the noise outside the diagonal of a symmetric matrix.
    off_diagonal_sigma: _Scales | None
    # The noise was drawn on multiples of 2^-fine_bits, and the sum rounded to integers.
    fine_bits: Annotated[tuple[Annotated[int, Meta(ge=0, le=62)], ...], AtLeastOne]


@dataclass(frozen=True)
class StatedSecondRound:
    """Bounds of a second round: ``sum_k y_k^2 ||x_k||^2 <= N_x N_y`` of every person."""

    directions: Positive  # of all phenotypes together
    row_norm_squared: Positive  # N_x
    phenotypes_norm_squared: Positive  # N_y


@dataclass(frozen=True)
class StatedMechanism:
    """Calibration of the noise (docs/maths)."""

    method: Annotated[str, one_of(METHODS)]  # name in docs/methods.md
    summary: Text  # description of the method
    reason: Text  # reason of the choice: ``as given``, or the rule that chose the method
    # Theorem that composes the queries.
    calibration: Annotated[str, one_of(THEOREMS)]
    # Parameter t, the division of the shift between X'X and X'Y: D/A for one dense X'X, and 2
    # tau with tau^3 + 3 tau = D/Q for LD blocks (docs/maths/blocks.md); None if nothing is divided.
    split: Annotated[float, Meta(ge=1e-12, le=1e12)] | None
    # N_x: every genotype row on the lattice satisfies ``||x||^2 <= N_x``; with label privacy
    # ``||x||^2 ||y||^2 <= N_x N_y`` instead.
    row_norm_squared: Positive
    # beta_b of every LD block, if the noise is also based on ``||x_b||^2 <= beta_b``; else None.
    block_norms_squared: Annotated[tuple[Positive, ...], AtLeastOne] | None
    phenotypes_norm_squared: Positive  # N_y
    counts_share: Share  # share of the statistics' mu^2 spent on ``observed``
    eigenvalue_share: Share  # share of the statistics' mu^2 spent on ``smallest_eigenvalue``
    # Share of the release's mu^2 that the adjustment of the phenotypes leaves for the statistics.
    share: PositiveShare
    # N: the rows v_j = (c, y_j) of a person satisfy ``sum_j |v_j|^4 <= N^2`` in the adjustment of
    # the phenotypes.
    adjustment_norm: Positive
    gram_copies: Positive  # noisy copies of X'X, with independent noise
    # Number of people in the secret subsample over which X'X is summed; None for everybody.
    subsample: Positive | None
    # Statistics that the guarantee assumes to be public and that have no noise.
    exact_parts: Annotated[tuple[Annotated[str, one_of(PARTS)], ...], Distinct]
    # All statistics that were measured on the cohort with noise.
    queries: Annotated[
        tuple[Annotated[StatedQuery, _EXACTLY_SYMMETRIC_HAVE_TWO_SIGMAS], ...], AtLeastOne
    ]
    # Sampler of the noise, its distance to the ideal distribution, and its source of randomness
    # (`primo_scale.publication.wording`).
    sampler: Annotated[str, one_of([KEYSTREAM["sampler"]])]
    sampler_exactness: Annotated[str, one_of([KEYSTREAM["sampler_exactness"]])]
    rng: Annotated[str, one_of([KEYSTREAM["rng"]])]
    second_round: StatedSecondRound | None = None  # a second measurement, or None without one
