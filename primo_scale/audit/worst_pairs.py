"""Mechanisms that an audit examines, and neighbours with the largest distance that proofs allow.

For every promise, docs/maths proves the sensitivity of the statistics and names rows that attain
it. This module constructs such rows in integers: two variants per LD block and two phenotypes. One
pair changes all statistics at once. Further pairs change one statistic alone, so that missing noise
on a small statistic is not hidden by the others. No person's data are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from primo_scale.gaussian.noise import Integers
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.methods.catalogue import METHODS, method_named
from primo_scale.privacy.mechanism import Mechanism, Promise, PublicBounds, Recipe, calibrate
from primo_scale.privacy.private_statistics import smallest_eigenvalue

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

    Source: the worst neighbours in docs/maths/gram.md, blocks.md, label.md, add-remove.md and
    subsampling.md. The mechanism is calibrated to `audit_bounds`; at another split than `SPLIT` its
    pairs are valid and close to the worst.
    """
    promise, rows = mechanism.promise, _Rows(mechanism.bounds)
    replaced = promise.adjacency is Adjacency.REPLACE_ONE
    if promise.unit is PrivacyUnit.LABEL:
        pairs = _labels(rows)
        return pairs if replaced else pairs[-1:]
    if not replaced:
        return _removed(rows, counted=promise.counts_are_private)
    farthest = _farthest_genotypes(mechanism, rows)
    return _replaced(rows, *farthest, counted=promise.counts_are_private)


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


def _farthest_genotypes(mechanism: Mechanism, rows: _Rows) -> tuple[Integers, Integers]:
    """Return the two genotype rows with the largest joint shift for opposite phenotypes.

    Their cosine is t/2 (docs/maths/gram.md, Theorem 1). Rows clipped in blocks have one direction:
    one row is long in the first block and short in the second, and the other row is the reverse
    (docs/maths/blocks.md, Theorem 2). X'X of a subsample is a separate release, in which orthogonal
    rows have the largest distance.
    """
    if mechanism.recipe.subsample is not None:
        return rows.two_genotypes(0.0, _DIAGONAL)
    if mechanism.bounds.block_norms is not None:
        return rows.genotypes(_DIAGONAL), rows.genotypes(_DIAGONAL, last_block_first=True)
    return rows.two_genotypes((mechanism.split or 0.0) / 2, _DIAGONAL)


class _Rows:
    """Rows that attain given bounds in given directions."""

    def __init__(self, bounds: PublicBounds) -> None:
        self._block_norms, left = [], bounds.row_norm
        for norm in bounds.block_norms or (bounds.row_norm,) * len(bounds.block_sizes):
            self._block_norms.append(min(norm, left))
            left -= self._block_norms[-1]
        self._phenotype_norm = bounds.phenotype_norm
        self.no_phenotypes = self.phenotypes(0.0) * 0
        self.others = np.tile(self.genotypes(0.0), (N_SAMPLES - 1, 1))

    def genotypes(self, angle: float, *, last_block_first: bool = False) -> Integers:
        """Return the longest row at an angle to the first variant in every block.

        One block attains its bound, and the other one receives the remainder of the total bound.
        """
        norms = reversed(self._block_norms) if last_block_first else self._block_norms
        return np.concatenate([_in_direction(angle, norm) for norm in norms])

    def two_genotypes(self, cosine: float, centre: float) -> tuple[Integers, Integers]:
        """Return two longest rows with a given cosine, symmetric about the angle `centre`.

        X'X changes on its diagonal if `centre` is `_DIAGONAL`, else off it.
        """
        half = math.acos(cosine) / 2
        return self.genotypes(centre - half), self.genotypes(centre + half)

    def phenotypes(self, angle: float) -> Integers:
        """Return the longest phenotypes at an angle to the first one."""
        return _in_direction(angle, self._phenotype_norm)


def _in_direction(angle: float, norm: int) -> Integers:
    # Rounding toward zero keeps the norm within its bound.
    exact = math.sqrt(norm) * np.array([math.cos(angle), math.sin(angle)])
    return np.trunc(exact).astype(np.int64)


def _person(x: Integers, y: Integers, *, observed: bool = True) -> Person:
    return Person(x, y, np.full(N_PHENOTYPES, int(observed), dtype=np.int64))


def _replaced(rows: _Rows, u: Integers, v: Integers, *, counted: bool) -> tuple[NeighbourPair, ...]:
    """Return pairs of replaced rows; it is private which phenotypes a person has if `counted`."""
    y, others = rows.phenotypes(_DIAGONAL), np.tile(v, (N_SAMPLES - 1, 1))
    joint = NeighbourPair("everything", others, _person(u, y), _person(v, -y))
    x = rows.genotypes(_DIAGONAL) * 0
    absent = _person(x, rows.no_phenotypes, observed=not counted)
    missing = NeighbourPair("phenotypes", rows.others, _person(x, y), absent)
    return joint, *_gram_alone(rows), missing


def _gram_alone(rows: _Rows) -> tuple[NeighbourPair, ...]:
    """Return pairs of orthogonal rows without phenotypes, which change X'X alone."""
    pairs = []
    for name, centre in (("X'X, diagonal", _DIAGONAL), ("X'X, off the diagonal", _OFF_DIAGONAL)):
        before, after = (
            _person(x, rows.no_phenotypes, observed=False) for x in rows.two_genotypes(0.0, centre)
        )
        others = np.tile(after.genotypes, (N_SAMPLES - 1, 1))
        pairs.append(NeighbourPair(name, others, before, after))
    return tuple(pairs)


def _removed(rows: _Rows, *, counted: bool) -> tuple[NeighbourPair, ...]:
    """Return pairs of a present and an absent person, who remains in counts unless `counted`."""
    # A row orthogonal to all others determines the smallest eigenvalue.
    x, y = rows.genotypes(math.pi / 2), rows.phenotypes(_DIAGONAL)
    present = {
        "everything": _person(x, y),
        "X'X": _person(rows.genotypes(_DIAGONAL), rows.no_phenotypes, observed=not counted),
        "phenotypes": _person(x * 0, y),
    }
    nobody = None if counted else _person(x * 0, rows.no_phenotypes)
    return tuple(NeighbourPair(name, rows.others, p, nobody) for name, p in present.items())


def _labels(rows: _Rows) -> tuple[NeighbourPair, ...]:
    """Return pairs of other phenotypes; the last one is of missing phenotypes."""
    x, y, diagonal = rows.genotypes(_DIAGONAL), rows.phenotypes(0.0), rows.phenotypes(_DIAGONAL)
    changes = {
        "reversed": (_person(x, y), _person(x, -y)),
        "turned": (_person(x, y), _person(x, rows.phenotypes(math.pi / 2))),
        "missing": (_person(x, diagonal), _person(x, y * 0, observed=False)),
    }
    return tuple(
        NeighbourPair(f"phenotypes, {name}", rows.others, *pair) for name, pair in changes.items()
    )


# ---- Mechanisms ----------------------------------------------------------------------------------


ALL = "all"
"""Name that stands for every method, privacy unit or adjacency."""


@dataclass(frozen=True)
class Subject:
    """Mechanism calibrated to the bounds of the artificial people, and its methods."""

    methods: tuple[str, ...]
    mechanism: Mechanism


def audit_subjects(
    method: str, privacy: str, adjacency: str, *, epsilon: float, delta: float
) -> Iterator[Subject]:
    """Yield every requested mechanism: method, privacy and adjacency are a name or ``all``.

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
                    yield Subject(tuple(names), calibrate(bounds, promise, recipe, split=SPLIT))
