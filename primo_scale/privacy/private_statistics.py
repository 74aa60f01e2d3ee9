"""`privatise`, the only function from `RawStatistics` to `PrivateStatistics` with noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.gaussian import noise, sensitivity
from primo_scale.gaussian.noise import Integers, KeystreamNoise
from primo_scale.ledger.ledger import PaymentStep, announce_step
from primo_scale.machine import n_threads
from primo_scale.outcomes.coding import PhenotypeBounds
from primo_scale.privacy.mechanism import HoldOut, Mechanism, rounded_up
from primo_scale.privacy.planning import Floats
from primo_scale.privacy.shares import SHARES
from primo_scale.storage.block_matrices import BlockMatrices, BlockMatricesWriter, Tile
from primo_scale.storage.groups import is_complete
from primo_scale.verify.held_out_accuracy import N_COUNTS, score_edges, score_ranges

KIND = "private statistics"


@dataclass(frozen=True)
class PrivateStatistics:
    """Statistics that may be post-processed and published."""

    # X'X by blocks, X'Z, Z'Z and the counts of people, each with its noise.
    matrices: BlockMatrices
    # Mechanism whose noise was added. None means exact statistics, whose release is NOT PRIVATE.
    mechanism: Mechanism | None


def not_private(raw: RawStatistics) -> PrivateStatistics:
    """Return the exact statistics without a mechanism, whose release is NOT PRIVATE."""
    return PrivateStatistics(raw.matrices, None)


def privatise(
    raw: RawStatistics,
    mechanism: Mechanism,
    source: KeystreamNoise,
    destination: Path,
    on_block: Callable[[int, int], None],
) -> PrivateStatistics:
    """Add noise to every statistic that the promise protects, and store the result durably.

    The charge for the noise must be durable in the ledger. The `source` cannot be used again.
    `on_block` receives the number of finished blocks and the total number.

    Memory: several copies of one stored piece of X'X or X'Z for each thread, and Z'Z; 120 MiB
    measured for one block of 20,000 variants. The smallest eigenvalue needs whole blocks.
    """
    exact, layout = raw.matrices, raw.matrices.layout
    noisy, copies = NoisyMatrices(mechanism, source), mechanism.recipe.gram_copies
    writer = BlockMatricesWriter(destination, KIND, layout, gram_copies=copies)

    def add_noise(block: int) -> None:
        """Write the noisy X'X and X'Z of one block."""
        for tile, values in exact.gram_tiles(block):
            for copy in range(copies):
                found = noisy.gram_tile(values, tile, block=block, copy=copy)
                writer.write_gram_tile(block, tile, found, copy)
        for number, (panel, values) in enumerate(exact.cross_panels(block)):
            writer.write_cross_panel(block, panel, noisy.cross_panel(values, number, block=block))

    with ThreadPoolExecutor(n_threads()) as threads:
        for done, _ in enumerate(threads.map(add_noise, range(layout.n_blocks)), start=1):
            announce_step(PaymentStep.BLOCK_WRITTEN)
            on_block(done, layout.n_blocks)
    writer.write_outcome_gram(noisy.outcome_gram(exact.outcome_gram()))
    writer.write_observed(noisy.counts(exact.observed()))
    if mechanism.scales.smallest_eigenvalue:
        smallest = smallest_eigenvalue(map(exact.gram, range(layout.n_blocks)))
        writer.write_smallest_eigenvalue(noisy.smallest_eigenvalue(smallest))
    matrices = writer.finish({})
    announce_step(PaymentStep.STATISTICS_STORED)
    return PrivateStatistics(matrices, mechanism)


def reopen_private(path: Path, raw: RawStatistics, mechanism: Mechanism) -> PrivateStatistics:
    """Open the private statistics that an earlier run stored at `path`."""
    return PrivateStatistics(BlockMatrices(path, KIND, raw.matrices.layout), mechanism)


def is_drawn(path: Path) -> bool:
    """Return whether complete private statistics are stored at `path`."""
    return is_complete(path, KIND)


def smallest_eigenvalue(grams: Iterable[Integers]) -> int:
    """Return the computed smallest eigenvalue of X'X, given its blocks, rounded down.

    Memory: 16 d_b^2 bytes for the largest block.
    """
    smallest = [float(np.linalg.eigvalsh(gram.astype(np.float64))[0]) for gram in grams]
    return math.floor(min(smallest))


# ---- Noise on each of the statistics -------------------------------------------------------------
#
# A statistic with scale 0 is public under the promise and is returned unchanged. X'X and X'Z do not
# fit in memory, so the noise on each stored tile and panel is drawn under its own label.


@dataclass(frozen=True, eq=False)
class NoisyMatrices:
    """Noise of one release, which each method adds to an exact statistic."""

    mechanism: Mechanism
    source: KeystreamNoise

    def gram_tile(self, values: Integers, tile: Tile, *, block: int, copy: int) -> Integers:
        """Add noise to a stored tile of a copy of X_b'X_b, smaller off the diagonal than on it."""
        sigma = self.mechanism.scales.gram[block]
        if sigma == 0:
            return values
        label = f"X'X, block {block}, copy {copy}, tile {tile.row}, {tile.column}"
        if tile.on_diagonal:
            return self._symmetric(values, sigma, label)
        return self._noisy(values, noise.off_diagonal_sigma(sigma), label)

    def cross_panel(self, values: Integers, panel: int, *, block: int) -> Integers:
        """Add noise to X'Y in a panel of ``X_b'(C, Y)``; X'C is public under label privacy."""
        fixed, phenotypes = np.split(values, [self._n_fixed(values)], axis=1)
        label = f"X'Y, block {block}, panel {panel}"
        noisy = self._noisy(phenotypes, self.mechanism.scales.phenotype_cross, label)
        return np.hstack([fixed, noisy])

    def outcome_gram(self, gram: Integers) -> Integers:
        """Return Z'Z, shape (q, q), for z = (c, y): noisy Y'Y, and zeros in the place of C'Y.

        C'C is public under label privacy. C'Y is not measured, because phenotypes were adjusted.
        """
        n_fixed = self._n_fixed(gram)
        noisy = np.zeros_like(gram)
        noisy[:n_fixed, :n_fixed] = gram[:n_fixed, :n_fixed]
        noisy[n_fixed:, n_fixed:] = self._symmetric(
            gram[n_fixed:, n_fixed:], self.mechanism.scales.phenotype_gram, "Y'Y"
        )
        return noisy

    def counts(self, observed: Integers) -> Integers:
        """Add noise to the number of people, if it is private, and to those with each phenotype."""
        public, private = np.split(observed, [not self.mechanism.promise.n_is_private])
        noisy = self._noisy(private, self.mechanism.scales.observed, "observed")
        return np.concatenate([public, noisy])

    def smallest_eigenvalue(self, value: int) -> int:
        """Add noise to the smallest eigenvalue of X'X, which is rounded down to an integer."""
        exact, scale = np.array([value], dtype=np.int64), self.mechanism.scales.smallest_eigenvalue
        return int(self._noisy(exact, scale, "smallest eigenvalue")[0])

    def _n_fixed(self, columns: Integers) -> int:
        """Return the number of the outcome columns C, which come before Y."""
        n_fixed = int(columns.shape[1]) - self.mechanism.bounds.n_phenotypes
        if n_fixed and self.mechanism.promise.unit is not sensitivity.PrivacyUnit.LABEL:
            raise ValueError("covariates are in no sum where they are private")
        return n_fixed

    def _noisy(self, values: Integers, sigma: float, label: str) -> Integers:
        if sigma == 0:
            return values
        return noise.add_lattice_noise(values, sigma, source=self.source, label=label)

    def _symmetric(self, gram: Integers, sigma: float, label: str) -> Integers:
        if sigma == 0:
            return gram
        return noise.add_symmetric_noise(gram, sigma, source=self.source, label=label)


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
    counts_mu = math.sqrt(SHARES.hold_out_counts * mu_squared)
    gram_mu = math.sqrt((1 - SHARES.hold_out_counts) * mu_squared)
    scale = rounded_up(sensitivity.held_out_counts(n_phenotypes) / counts_mu)
    gram = rounded_up(sensitivity.held_out_gram(n_phenotypes, row_norm(groups)) / gram_mu)
    noise.check_sigma(gram, where="--hold-out", remedy="Leave it out, or raise epsilon")
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
    people: ScoredPeople,
    hold_out: HoldOut,
    source: KeystreamNoise,
    bind: Callable[[Integers], object],
) -> NoisyHoldOut:
    """Add noise to the counts, choose the ranges of scores by them, and add noise to the sums.

    `bind` records exact integers in the ledger before their noise is drawn.
    """
    add = partial(noise.add_lattice_noise, source=source)
    exact = people.counts()
    bind(exact)
    counts = add(exact, hold_out.scale_sigma, label="held out, counts")
    squares, products = people.sums(*score_ranges(counts, hold_out.scale_sigma, people.residual))
    bind(np.stack([squares, products]))
    beside_sigma = noise.off_diagonal_sigma(hold_out.gram_sigma)
    bits = noise.fine_bits(beside_sigma)
    noisy_squares = add(squares, hold_out.gram_sigma, bits=bits, label="held out, squares")
    noisy_products = add(products, beside_sigma, bits=bits, label="held out, products")
    sums = np.concatenate([noisy_squares, noisy_products], axis=2).reshape(len(squares), -1)
    return NoisyHoldOut(tuple(map(tuple, counts.tolist())), tuple(map(tuple, sums.tolist())))


def _codes(values: Floats) -> Integers:
    """Return values in units of their bound as integers of magnitude up to `UNIT`."""
    codes = np.trunc(np.nan_to_num(np.clip(values, -1.0, 1.0)) * UNIT).astype(np.int64)
    return np.clip(codes, -UNIT, UNIT)
