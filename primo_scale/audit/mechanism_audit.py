"""Audit of a mechanism: a test of its noise by an attack on two artificial neighbouring cohorts.

An audit draws the noise of a release many times over the exact statistics of the two cohorts and
runs the adversary who distinguishes them. The success rate of the adversary is a lower bound on
epsilon. No person's data are read, so no budget is spent. docs/audit.md explains what an audit can
and cannot show.

The adversary decides "after" if a score exceeds a threshold. T is the probability of this decision
over the cohort after the change, and F the probability over the cohort before the change. An
(epsilon, delta)-private mechanism has ``T <= e^epsilon F + delta``, also with exchanged cohorts. A
mu-Gaussian private mechanism has ``T <= Phi(Phi^-1(F) + mu)``. Exact binomial confidence limits on
T and F (Clopper and Pearson, 1934) give lower bounds on epsilon and mu. The first half of the runs
selects the score and the threshold, and the second half evaluates only this choice. Trying many
scores and thresholds therefore costs no confidence.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import SimpleNamespace
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import beta

from primo_scale.gaussian.calibration import epsilon_for
from primo_scale.gaussian.noise import KEY_BYTES, Integers, KeystreamNoise, off_diagonal_sigma
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.interruption import check
from primo_scale.methods.catalogue import METHODS, method_named
from primo_scale.privacy.mechanism import Mechanism, Promise, PublicBounds, Recipe, calibrate
from primo_scale.privacy.private_statistics import NoisyMatrices, smallest_eigenvalue
from primo_scale.storage.block_matrices import upper_tiles

Floats = npt.NDArray[np.float64]
NoiseOfRun = Callable[[], KeystreamNoise]
Scores = tuple[Floats, Floats]
"""Scores, shape (runs,), over each cohort; high values indicate the cohort after the change."""

# Number of runs whose noise is drawn in one call.
_POOLED_RUNS = 1024
# Number of thresholds, which are dense in both tails, where likelihood ratios are large.
_THRESHOLDS = 300
# Variance of a direction, in units of the stated noise, below which it counts as free of noise.
_NO_VARIANCE = 1e-6
# Larger values of mu are practically certain to distinguish, and epsilon_for would overflow.
_LARGEST_MU = 30.0


WITHIN = "within the claim"
SHORT = "LESS NOISE THAN STATED"
EXCEEDED = "EXCEEDS THE CLAIM"
"""Verdicts of an audit."""


@dataclass(frozen=True)
class Audit:
    """Result of an audit of one mechanism with its stated noise.

    Each pair of neighbours has a name, the exact mu of this pair under the stated noise, and the
    lower bounds on epsilon and mu that the runs show. The mu of a subsample is None, because it is
    not a Gaussian mechanism.
    """

    mechanism: Mechanism
    pairs: tuple[tuple[str, float | None, float, float], ...]

    @property
    def attainable(self) -> float | None:
        """Largest epsilon that these pairs can show if the noise is as stated."""
        return self._epsilon_of([mu for _, mu, *_ in self.pairs if mu is not None])

    @property
    def epsilon(self) -> float:
        """Lower bound on epsilon at the promised delta, for any mechanism."""
        return max(epsilon for _, _, epsilon, _ in self.pairs)

    @property
    def gaussian_epsilon(self) -> float | None:
        """Lower bound on epsilon for a Gaussian mechanism; None for a subsample."""
        return self._epsilon_of([shown for _, mu, _, shown in self.pairs if mu is not None])

    @property
    def verdict(self) -> str:
        """Verdict on the promise, and on the stated noise of every pair."""
        found = (self.epsilon, self.gaussian_epsilon or 0.0, self.attainable or 0.0)
        if max(found) > self.mechanism.promise.epsilon:
            return EXCEEDED
        short = any(mu is not None and shown > mu for _, mu, _, shown in self.pairs)
        return SHORT if short else WITHIN

    def _epsilon_of(self, mus: list[float]) -> float | None:
        if not mus:
            return None
        mu = max(mus)
        return math.inf if mu > _LARGEST_MU else epsilon_for(mu, self.mechanism.promise.delta)


def audit(
    mechanism: Mechanism,
    pairs: tuple[NeighbourPair, ...],
    *,
    runs: int,
    false_alarm: float,
    noise: NoiseOfRun | None = None,
) -> Audit:
    """Return lower bounds on the epsilon of a mechanism, from its draws over pairs of neighbours.

    The mechanism is calibrated to the bounds of the pairs. So many `runs` are drawn over each
    cohort of each pair, each with a result of `noise`, by default of the product's sampler. A sound
    mechanism fails with a probability of at most `false_alarm`. Source: docs/audit.md.
    """
    delta, noise, audited = mechanism.promise.delta, noise or pooled_noise(), []
    for pair in pairs:
        scale, once, shift = stated_shift(mechanism, pair)
        observed = [
            _observe(mechanism, pair, person, runs, noise) for person in (pair.before, pair.after)
        ]
        before, after = ((numbers - observed[0].mean(axis=0)) / scale for numbers in observed)
        # The log-likelihood ratio of the stated noise is linear in the numbers; so is that of a
        # large subsample, nearly.
        stated = before[:, once] @ shift, after[:, once] @ shift
        scores = [stated, _learned_scores(before, after)]
        mu = None if mechanism.recipe.subsample else float(np.linalg.norm(shift))
        shown = evidence(scores, delta=delta, false_alarm=false_alarm / len(pairs))
        audited.append((pair.name, mu, *shown))
    return Audit(mechanism, tuple(audited))


def pooled_noise(source: KeystreamNoise | None = None) -> NoiseOfRun:
    """Return a function that yields the noise of each run, by default of the product's sampler.

    Independent draws for many runs are requested in bulk.
    """
    sampler = source or KeystreamNoise(os.urandom(KEY_BYTES))
    dealt: dict[tuple[str, int, float], Iterator[Integers]] = {}

    def deal(label: str, size: int, scale: float) -> Iterator[Integers]:
        for pool in count():
            name = f"{label}, {size} draws of {scale!r}, pool {pool}"
            yield from sampler.draw(name, _POOLED_RUNS * size, scale).reshape(-1, size)

    def draw(label: str, size: int, scale: float) -> Integers:
        """Return draws as the sampler does, any number of times for each label."""
        if size == 0:
            return np.empty(0, dtype=np.int64)
        key = (label, size, scale)
        if key not in dealt:
            dealt[key] = deal(*key)
        return next(dealt[key])

    return lambda: cast("KeystreamNoise", SimpleNamespace(draw=draw))


def publish(
    exact: CohortStatistics, mechanism: Mechanism, source: KeystreamNoise
) -> list[Integers]:
    """Return statistics in memory with the noise of a release, as `privatise` adds it."""
    noisy, published = NoisyMatrices(mechanism, source), []
    for block, (gram, cross) in enumerate(zip(exact.gram, exact.cross, strict=True)):
        (tile,) = upper_tiles(len(gram))  # a block is one piece
        for copy in range(mechanism.recipe.gram_copies):
            published.append(noisy.gram_tile(gram, tile, block=block, copy=copy))
        published.append(noisy.cross_panel(cross, 0, block=block))
    published.append(noisy.outcome_gram(exact.outcome_gram))
    published.append(noisy.counts(exact.observed))
    if mechanism.scales.smallest_eigenvalue:
        published.append(np.array([noisy.smallest_eigenvalue(exact.smallest_eigenvalue)]))
    return published


def stated_shift(
    mechanism: Mechanism, pair: NeighbourPair
) -> tuple[Floats, npt.NDArray[np.bool_], Floats]:
    """Return the stated noise of every number of `publish`, which count, and the shift of those.

    The standard deviation is 1 for numbers without noise. Entries below the diagonal of symmetric
    matrices do not count, because they repeat those above it. The shift is that of the exact
    numbers of all people, in units of the noise.
    """
    scales, n_phenotypes = mechanism.scales, mechanism.bounds.n_phenotypes
    stated, once = list[Floats](), list[npt.NDArray[np.bool_]]()

    def add(shape: tuple[int, ...], sigma: float | Floats, *, symmetric: bool = False) -> None:
        part, counted = np.full(shape, sigma, dtype=np.float64), np.ones(shape, dtype=bool)
        if symmetric:
            part[:] = off_diagonal_sigma(float(sigma)) if sigma else 0.0
            np.fill_diagonal(part, sigma)
            counted = np.triu(counted)
        stated.append(part.ravel())
        once.append(counted.ravel())

    for size, sigma in zip(mechanism.bounds.block_sizes, scales.gram, strict=True):
        for _ in range(mechanism.recipe.gram_copies):
            add((size, size), sigma, symmetric=True)
        add((size, n_phenotypes), scales.phenotype_cross)
    add((n_phenotypes, n_phenotypes), scales.phenotype_gram, symmetric=True)
    add((1,), scales.observed * mechanism.promise.n_is_private)
    add((n_phenotypes,), scales.observed)
    if scales.smallest_eigenvalue:
        add((1,), scales.smallest_eigenvalue)
    scale, chosen = np.concatenate(stated), np.concatenate(once)
    scale = np.where(scale > 0, scale, 1.0)
    before, after = (
        _flat(publish(statistics_of(pair.others, person, mechanism.bounds.block_sizes), mechanism,
                      _NO_NOISE))
        for person in (pair.before, pair.after)
    )  # fmt: skip
    return scale, chosen, ((after - before) / scale)[chosen]


_NO_NOISE = cast(
    "KeystreamNoise",
    SimpleNamespace(draw=lambda label, count, scale: np.zeros(count, dtype=np.int64)),
)


def _flat(parts: list[Integers]) -> Integers:
    return np.concatenate([part.ravel() for part in parts])


def _observe(
    mechanism: Mechanism, pair: NeighbourPair, person: Person | None, runs: int, noise: NoiseOfRun
) -> Floats:
    """Return the published numbers of every run, shape (runs, numbers)."""
    sizes, subsample = mechanism.bounds.block_sizes, mechanism.recipe.subsample
    exact = statistics_of(pair.others, person, sizes)
    rows = cohort_genotypes(pair.others, person)
    seen = []
    for _ in range(runs):
        check()
        if subsample is not None:  # every release has a fresh secret subsample
            members = random.SystemRandom().sample(range(len(rows)), subsample)
            exact = replace(exact, gram=grams(rows[members], sizes))
        seen.append(_flat(publish(exact, mechanism, noise())))
    return np.array(seen, dtype=np.float64)


def _learned_scores(before: Floats, after: Floats) -> Scores:
    """Return the scores of Fisher's linear discriminant, fitted to the first half of the runs.

    It assumes no model: it detects less noise than stated, noise that two numbers share, and
    numbers without noise.
    """
    half = len(before) // 2
    first = before[:half], after[:half]
    difference = first[1].mean(axis=0) - first[0].mean(axis=0)
    covariance = sum(np.cov(sample, rowvar=False) for sample in first) / 2
    variances, directions = np.linalg.eigh(covariance)
    along = directions.T @ difference
    weights = directions @ (along / (np.maximum(variances, 0) + _NO_VARIANCE))
    return before @ weights, after @ weights


# ---- Evidence ------------------------------------------------------------------------------------


def evidence(scores: Sequence[Scores], *, delta: float, false_alarm: float) -> tuple[float, float]:
    """Return lower bounds on epsilon at delta, and on the mu of Gaussian privacy.

    Source: docs/audit.md, "Bounds"; confidence limits of Clopper and Pearson (1934).

    The statistics that score the runs may depend on the first half of the runs. The probability
    that one of the bounds exceeds the true value is at most `false_alarm`.
    """
    level = false_alarm / 4  # for each of the two probabilities in each of the two bounds

    def one_way(right: Integers, wrong: Integers, runs: int) -> Floats:
        ratio = np.maximum(rate_at_least(right, runs, level) - delta, 0)
        return np.asarray(np.log(np.maximum(ratio / rate_at_most(wrong, runs, level), 1)))

    def epsilon(before: Integers, after: Integers, runs: int) -> Floats:
        return np.stack((one_way(after, before, runs), one_way(runs - before, runs - after, runs)))

    def mu(before: Integers, after: Integers, runs: int) -> Floats:
        shift = ndtri(rate_at_least(after, runs, level)) - ndtri(rate_at_most(before, runs, level))
        return np.asarray(np.maximum(shift, 0))[None]

    return _judged(scores, epsilon), _judged(scores, mu)


def rate_at_least(successes: Integers, runs: int, false_alarm: float) -> Floats:
    """Return the exact lower confidence limit on a probability (Clopper and Pearson)."""
    limit = beta.ppf(false_alarm, np.maximum(successes, 1), runs - successes + 1)
    return np.where(successes > 0, limit, 0.0)


def rate_at_most(successes: Integers, runs: int, false_alarm: float) -> Floats:
    """Return the exact upper confidence limit on a probability (Clopper and Pearson)."""
    return 1 - rate_at_least(runs - successes, runs, false_alarm)


def _judged(scores: Sequence[Scores], bound: Callable[[Integers, Integers, int], Floats]) -> float:
    """Return the bound of the best choice on the first half, computed from the second half."""
    best, shown = 0.0, 0.0
    for before, after in scores:
        half = len(before) // 2
        first, second = ((before[part], after[part]) for part in (np.s_[:half], np.s_[half:]))
        thresholds = _thresholds(np.concatenate(first))
        values = bound(*_above(first, thresholds), half)
        if values.size and values.max() > best:
            row, column = np.unravel_index(np.argmax(values), values.shape)
            best = float(values.max())
            chosen = _above(second, thresholds[[column]])
            shown = float(bound(*chosen, len(second[0]))[row, 0])
    return shown


def _thresholds(scores: Floats) -> Floats:
    """Return thresholds between the scores that occur."""
    values = np.unique(scores)
    gaps = len(values) - 1
    if gaps < 1:
        return np.empty(0)
    from_either_end = np.geomspace(1, gaps, _THRESHOLDS // 3).astype(np.int64) - 1
    even = np.linspace(0, gaps - 1, _THRESHOLDS // 3).astype(np.int64)
    below = np.unique(np.concatenate([from_either_end, gaps - 1 - from_either_end, even]))
    return np.asarray(values[below] + (values[below + 1] - values[below]) / 2)


def _above(cohorts: Scores, thresholds: Floats) -> tuple[Integers, Integers]:
    """Return the numbers of runs over each cohort that exceed each threshold."""
    before, after = (
        len(values) - np.searchsorted(np.sort(values), thresholds, side="right")
        for values in cohorts
    )
    return before, after


# Bounds of the artificial rows, which are large, so that directions are exact to 1e-4.
_ROW_NORM, _PHENOTYPE_NORM = 10**8, 4 * 10**6
_BLOCK_SIZE = 2
N_PHENOTYPES = 2
# Split of the audited mechanisms, at which X'X and X'Z both contribute to the shift.
SPLIT = 0.5
# Bound of each of two blocks, which just admits the worst neighbours at this split.
_BLOCK_NORM = math.floor(_ROW_NORM / (1 + (SPLIT / 2) ** 2))
N_SAMPLES = 40
# Half of the people: a smaller subsample needs a delta_1 outside the range that is proved.
SUBSAMPLE = N_SAMPLES // 2
_DIAGONAL, _OFF_DIAGONAL = math.pi / 4, 0.0


@dataclass(frozen=True)
class Person:
    """Record of one person within the bounds.

    The genotypes x have shape (d,). The two phenotypes are 0 if not observed, and `observed` is 1
    or 0.
    """

    genotypes: Integers
    phenotypes: Integers
    observed: Integers


@dataclass(frozen=True)
class NeighbourPair:
    """Two cohorts that differ in one person, who may be absent.

    The name is that of the statistics that differ. All other people are equal and have no outcomes;
    their genotypes have shape (n - 1, d).
    """

    name: str
    others: Integers
    before: Person | None
    after: Person | None


@dataclass(frozen=True)
class CohortStatistics:
    """Exact statistics of an artificial cohort.

    X_b'X_b and X_b'Y, shape (d_b, 2), of every block; Y'Y, shape (2, 2); numbers of people and of
    those with each phenotype, shape (3,); smallest eigenvalue of X'X, rounded down.
    """

    gram: tuple[Integers, ...]
    cross: tuple[Integers, ...]
    outcome_gram: Integers
    observed: Integers
    smallest_eigenvalue: int


def audit_bounds(*, by_block: bool) -> PublicBounds:
    """Return the bounds of the artificial rows: one dense X'X, or two bounded LD blocks."""
    n_blocks = 2 if by_block else 1
    return PublicBounds(
        row_norm=_ROW_NORM,
        block_norms=(_BLOCK_NORM,) * n_blocks if by_block else None,
        phenotype_norm=_PHENOTYPE_NORM,
        block_sizes=(_BLOCK_SIZE,) * n_blocks,
        n_samples=N_SAMPLES,
        n_phenotypes=N_PHENOTYPES,
    )


def worst_pairs(mechanism: Mechanism) -> tuple[NeighbourPair, ...]:
    """Return the pairs for the audit of a mechanism.

    Source: the worst neighbours in docs/maths/sensitivity.md and subsampling.md. The mechanism is
    calibrated to `audit_bounds`; at another split than `SPLIT` its pairs are valid and close to the
    worst.
    """
    promise, bounds = mechanism.promise, mechanism.bounds
    replaced = promise.adjacency is Adjacency.REPLACE_ONE
    if promise.unit is PrivacyUnit.LABEL:
        pairs = _labels(bounds)
        return pairs if replaced else pairs[-1:]
    if not replaced:
        return _removed(bounds, counted=promise.counts_are_private)
    return _replaced(mechanism)


def statistics_of(
    others: Integers, person: Person | None, block_sizes: tuple[int, ...]
) -> CohortStatistics:
    """Return the statistics of a cohort."""
    rows = cohort_genotypes(others, person)
    boundaries = np.cumsum(block_sizes)[:-1]
    if person is None:
        y = np.zeros(N_PHENOTYPES, dtype=np.int64)
        x, observed = np.zeros(rows.shape[1], dtype=np.int64), y
    else:
        x, y, observed = person.genotypes, person.phenotypes, person.observed
    gram = grams(rows, block_sizes)
    return CohortStatistics(
        gram=gram,
        cross=tuple(np.split(np.outer(x, y), boundaries)),
        outcome_gram=np.outer(y, y),
        observed=np.append(len(rows), observed),
        smallest_eigenvalue=smallest_eigenvalue(gram),
    )


def cohort_genotypes(others: Integers, person: Person | None) -> Integers:
    """Return the genotypes of the cohort, with the person in the first row."""
    return others if person is None else np.vstack([person.genotypes, others])


def grams(rows: Integers, block_sizes: tuple[int, ...]) -> tuple[Integers, ...]:
    """Return X_b'X_b of every block."""
    parts = np.split(rows, np.cumsum(block_sizes)[:-1], axis=1)
    return tuple(part.T @ part for part in parts)


def _farthest_genotypes(mechanism: Mechanism) -> tuple[Integers, Integers]:
    """Return the two genotype rows with the largest joint shift for opposite phenotypes.

    Their cosine is t/2. Rows clipped in blocks have one direction: one row is long in the first
    block and short in the second, and the other row is the reverse (docs/maths/sensitivity.md,
    Theorem 2). X'X of a subsample is a separate release, in which orthogonal rows have the largest
    distance.
    """
    bounds = mechanism.bounds
    if mechanism.recipe.subsample is not None:
        return _two_genotypes(bounds, 0.0, _DIAGONAL)
    if bounds.block_norms is not None:
        return _genotypes(bounds, _DIAGONAL), _genotypes(bounds, _DIAGONAL, last_block_first=True)
    return _two_genotypes(bounds, (mechanism.split or 0.0) / 2, _DIAGONAL)


def _genotypes(bounds: PublicBounds, angle: float, *, last_block_first: bool = False) -> Integers:
    """Return the longest row at an angle to the first variant in every block.

    One block attains its bound, and the other one receives the remainder of the total bound.
    """
    rows, left = [], bounds.row_norm
    for norm in bounds.block_norms or (bounds.row_norm,) * len(bounds.block_sizes):
        rows.append(_in_direction(angle, min(norm, left)))
        left -= min(norm, left)
    return np.concatenate(rows[::-1] if last_block_first else rows)


def _two_genotypes(bounds: PublicBounds, cosine: float, centre: float) -> tuple[Integers, Integers]:
    """Return two longest rows with a given cosine, symmetric about the angle `centre`.

    X'X changes on its diagonal if `centre` is `_DIAGONAL`, else off it.
    """
    half = math.acos(cosine) / 2
    return _genotypes(bounds, centre - half), _genotypes(bounds, centre + half)


def _in_direction(angle: float, norm: int) -> Integers:
    # Rounding toward zero keeps the norm within its bound.
    exact = math.sqrt(norm) * np.array([math.cos(angle), math.sin(angle)])
    return np.trunc(exact).astype(np.int64)


def _person(x: Integers, y: Integers | None = None, *, observed: bool = True) -> Person:
    none = np.zeros(N_PHENOTYPES, dtype=np.int64)
    return Person(x, none if y is None else y, none + observed)


def _others(row: Integers) -> Integers:
    """Return the genotypes of all other people, which are equal."""
    return np.tile(row, (N_SAMPLES - 1, 1))


def _replaced(mechanism: Mechanism) -> tuple[NeighbourPair, ...]:
    """Return pairs of replaced rows.

    Between the first and the last are pairs of orthogonal rows without phenotypes, which change X'X
    alone.
    """
    bounds, counted = mechanism.bounds, mechanism.promise.counts_are_private
    (u, v), y = _farthest_genotypes(mechanism), _in_direction(_DIAGONAL, bounds.phenotype_norm)
    pairs = [NeighbourPair("everything", _others(v), _person(u, y), _person(v, -y))]
    for name, centre in (("X'X, diagonal", _DIAGONAL), ("X'X, off the diagonal", _OFF_DIAGONAL)):
        two = _two_genotypes(bounds, 0.0, centre)
        people = (_person(x, observed=False) for x in two)
        pairs.append(NeighbourPair(name, _others(two[1]), *people))
    # It is private which phenotypes a person has if they are counted.
    before, after = _person(u * 0, y), _person(u * 0, observed=not counted)
    return *pairs, NeighbourPair("phenotypes", _others(_genotypes(bounds, 0.0)), before, after)


def _removed(bounds: PublicBounds, *, counted: bool) -> tuple[NeighbourPair, ...]:
    """Return pairs of a present and an absent person, who remains in counts unless `counted`."""
    # A row orthogonal to all others determines the smallest eigenvalue.
    others, x = _others(_genotypes(bounds, 0.0)), _genotypes(bounds, math.pi / 2)
    y = _in_direction(_DIAGONAL, bounds.phenotype_norm)
    present = {
        "everything": _person(x, y),
        "X'X": _person(_genotypes(bounds, _DIAGONAL), observed=not counted),
        "phenotypes": _person(x * 0, y),
    }
    nobody = None if counted else _person(x * 0)
    return tuple(NeighbourPair(name, others, each, nobody) for name, each in present.items())


def _labels(bounds: PublicBounds) -> tuple[NeighbourPair, ...]:
    """Return pairs of other phenotypes; the last one is of missing phenotypes."""
    x, others = _genotypes(bounds, _DIAGONAL), _others(_genotypes(bounds, 0.0))
    y, turned, diagonal = (
        _in_direction(angle, bounds.phenotype_norm) for angle in (0.0, math.pi / 2, _DIAGONAL)
    )
    changes = {
        "reversed": (_person(x, y), _person(x, -y)),
        "turned": (_person(x, y), _person(x, turned)),
        "missing": (_person(x, diagonal), _person(x, observed=False)),
    }
    return tuple(
        NeighbourPair(f"phenotypes, {name}", others, *pair) for name, pair in changes.items()
    )


# ---- Mechanisms ----------------------------------------------------------------------------------


ALL = "all"
"""Name that stands for every method, privacy unit or adjacency."""


def audit_subjects(
    method: str, privacy: str, adjacency: str, *, epsilon: float, delta: float
) -> Iterator[tuple[tuple[str, ...], Mechanism]]:
    """Yield every requested mechanism, after the names of its methods.

    `method`, `privacy` and `adjacency` are a name or ``all``.

    A UsageError is raised if the only method has no such privacy, or if the parameters are outside
    the proved range.
    """
    for unit in PrivacyUnit:
        for relation in Adjacency:
            if privacy not in (unit, ALL) or adjacency not in (relation, ALL):
                continue
            if method != ALL and (privacy != ALL or method not in METHODS):
                method_named(method, unit)
            promise = Promise(epsilon, delta, unit, relation)
            methods = [m for m in METHODS.values() if method in (m.name, ALL) and unit in m.privacy]
            if ALL in (method, adjacency) and relation is Adjacency.ADD_REMOVE:
                methods = [m for m in methods if not m.subsamples]
            # With label privacy X'X is public, and blocks change nothing.
            for by_block in (False,) if unit is PrivacyUnit.LABEL else (False, True):
                recipes: dict[Recipe, list[str]] = {}
                for each in methods:
                    if not (by_block and each.subsamples):  # whose rows are not clipped in blocks
                        recipe = each.recipe(N_PHENOTYPES, SUBSAMPLE if each.subsamples else None)
                        recipes.setdefault(recipe, []).append(each.name)
                for recipe, names in recipes.items():
                    bounds = audit_bounds(by_block=by_block)
                    yield tuple(names), calibrate(bounds, promise, recipe, split=SPLIT)
