"""Sums over people who are held out, which measure released weights (docs/maths/hold-out.md).

For each phenotype, a person has a score u, from the weights of the variants, and a residual r: the
phenotype, both without what the covariates explain of them. Both are clipped to a range and coded
as integers of magnitude up to `UNIT`. Two noisy statistics are released: the numbers of people by
their score, which choose the range of the scores, or with a residual too large for its range, and
the Gram matrix of (kappa, u, r) of each group of people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.lattice_noise import (
    FineNoise,
    Integers,
    add_lattice_noise,
    check_sigma,
    fine_bits,
    lattice_noise,
    off_diagonal_sigma,
)
from primo_scale.outcomes.coding import PhenotypeBounds
from primo_scale.privacy.mechanism import SHARES, HoldOut, rounded_up
from primo_scale.privacy.planning import Floats
from primo_scale.verify.held_out_accuracy import N_COUNTS, score_edges, score_ranges

UNIT = 1 << 16
"""Code of a score or residual at its bound."""
_CONSTANT, _GROUP_CONSTANT = 1 << 14, 1 << 15
_RESIDUAL_SDS = 3.0


def code_of_people(groups: int) -> int:
    """Return the code kappa of a person with the phenotype; a person without it has 0.

    Means are subtracted in each of several groups, which needs the numbers of people in these more
    precisely.
    """
    return _CONSTANT if groups == 1 else _GROUP_CONSTANT


def row_norm(groups: int) -> int:
    """Return the bound N on the squared norm of a row (kappa, u, r)."""
    return code_of_people(groups) ** 2 + 2 * UNIT**2


def residual_bounds(phenotypes: tuple[PhenotypeBounds, ...]) -> Floats:
    """Return the public bound R on the residual of each phenotype, shape (l,).

    It is the limit on residuals, or the farther bound if that is less.
    """
    farthest = [max(p.upper - p.mean, p.mean - p.lower) for p in phenotypes]
    return np.minimum(residual_limits(phenotypes), farthest)


def residual_limits(phenotypes: tuple[PhenotypeBounds, ...]) -> Floats:
    """Return the size from which a residual counts as too large, shape (l,).

    It is three standard deviations. No residual of a binary phenotype is too large: covariates
    alone bring it beyond the farther value.
    """
    return np.array([np.inf if p.kind == "binary" else _RESIDUAL_SDS * p.sd for p in phenotypes])


def hold_out_noise(
    n_phenotypes: int, people: int, mu_squared: float, fit: str, groups: int = 1
) -> HoldOut:
    """Return the noise with which both statistics together have a shift of `mu_squared`.

    Source: docs/maths/hold-out.md, Theorem 2. A UsageError is raised if it cannot be drawn.
    """
    counts_mu, gram_mu = (
        math.sqrt(s * mu_squared) for s in (SHARES.hold_out_counts, 1 - SHARES.hold_out_counts)
    )
    scale = rounded_up(sensitivity.held_out_counts(n_phenotypes) / counts_mu)
    gram = rounded_up(sensitivity.held_out_gram(n_phenotypes, row_norm(groups)) / gram_mu)
    check_sigma(gram, where="--hold-out", remedy="Leave it out, or raise epsilon")
    return HoldOut(people, scale, gram, fit, groups)


ScoredBatch = tuple[Floats, Floats, npt.NDArray[np.bool_], npt.NDArray[np.intp]]
"""Scores, residuals, and whether the phenotype is observed, each of shape (people, l), and the
group of each person, shape (people,)."""


@dataclass(frozen=True, eq=False)
class ScoredPeople:
    """People who are held out. PRIVATE: only `noisy_hold_out` may use them."""

    residual: Floats  # bounds R, shape (l,)
    limit: Floats  # from which a residual counts as too large, shape (l,)
    batches: Callable[[], Iterable[ScoredBatch]]  # all people, again at each call
    groups: int = 1  # number of groups

    def counts(self) -> Integers:
        """Return the number of people between the edges of scores, shape (l, `N_COUNTS`).

        People with a residual that is too large count in the last number instead.
        """
        edges = score_edges(self.residual)
        counts = np.zeros((len(self.residual), N_COUNTS), dtype=np.int64)
        for scores, residuals, observed, _ in self.batches():
            bins = (scores > edges[:, None]).sum(axis=0)
            bins[np.abs(residuals) > self.limit] = N_COUNTS - 1
            for bin_ in range(N_COUNTS):
                counts[:, bin_] += (observed & (bins == bin_)).sum(axis=0)
        return counts

    def sums(self, centre: Floats, half_width: Floats) -> tuple[Integers, Integers]:
        """Return the sums of kappa^2, u^2, r^2, and of kappa u, kappa r, u r, each (l, groups, 3).

        The range of the scores of each phenotype has the shape (l,).
        """
        squares, products = np.zeros((2, self.groups, len(self.residual), 3), dtype=np.int64)
        for scores, residuals, observed, group in self.batches():
            constant = np.where(observed, code_of_people(self.groups), 0)
            u = np.where(observed, _codes((scores - centre) / half_width), 0)
            r = np.where(observed, _codes(residuals / self.residual), 0)
            pairs = ((constant, u), (constant, r), (u, r))
            np.add.at(squares, group, np.stack([a * a for a in (constant, u, r)], axis=2))
            np.add.at(products, group, np.stack([a * b for a, b in pairs], axis=2))
        return squares.swapaxes(0, 1), products.swapaxes(0, 1)


@dataclass(frozen=True)
class NoisyHoldOut:
    """Noisy statistics of the people who are held out; they may be published.

    One tuple for each phenotype.
    """

    counts: tuple[tuple[int, ...], ...]  # people by their score, and with too large a residual
    # Sums of kappa^2, u^2, r^2, kappa u, kappa r and u r, in this order, for each group.
    sums: tuple[tuple[int, ...], ...]


def noisy_hold_out(
    people: ScoredPeople, noise: HoldOut, source: FineNoise, bind: Callable[[Integers], object]
) -> NoisyHoldOut:
    """Add noise to the counts, choose the ranges of scores by them, and add noise to the sums.

    `bind` records exact integers in the ledger before their noise is drawn.
    """
    label = "held out"
    exact = people.counts()
    bind(exact)
    counts = add_lattice_noise(exact, noise.scale_sigma, source=source, label=f"{label}, counts")
    squares, products = people.sums(*score_ranges(counts, noise.scale_sigma, people.residual))
    bind(np.stack([squares, products]))
    beside_sigma = off_diagonal_sigma(noise.gram_sigma)
    bits = fine_bits(beside_sigma)
    parts = []
    for name, sums, sigma in (
        ("squares", squares, noise.gram_sigma),
        ("products", products, beside_sigma),
    ):
        part = f"{label}, {name}"
        drawn = lattice_noise(sums.size, sigma, bits=bits, source=source, label=part)
        parts.append(sums + drawn.reshape(sums.shape))
    sums = np.concatenate(parts, axis=2).reshape(len(squares), -1)
    return NoisyHoldOut(tuple(map(tuple, counts.tolist())), tuple(map(tuple, sums.tolist())))


def _codes(values: Floats) -> Integers:
    """Return values in units of their bound as integers of magnitude up to `UNIT`."""
    codes = np.trunc(np.nan_to_num(np.clip(values, -1.0, 1.0)) * UNIT).astype(np.int64)
    return np.clip(codes, -UNIT, UNIT)
