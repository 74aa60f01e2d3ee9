"""Artificial neighbours: they respect the bounds, differ as permitted, and attain the proofs."""

import itertools
import math

import numpy as np
import pytest
from support.audited_mechanisms import ADD, DELTA, EPSILON, FEATURE, FULL, LABEL, REPLACE, mechanism

from primo_scale.audit.mechanism_audit import N_SAMPLES, stated_shift, statistics_of, worst_pairs
from primo_scale.gaussian.calibration import release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.privacy.mechanism import Recipe
from primo_scale.privacy.shares import SHARES

MU = release_mu(EPSILON, DELTA)
EVERY = pytest.mark.parametrize("unit", list(PrivacyUnit))
BOTH = pytest.mark.parametrize("adjacency", list(Adjacency))
LAYOUTS = pytest.mark.parametrize("by_block", [False, True], ids=["dense", "blocks"])


def mu_of(audited, pair):
    return float(np.linalg.norm(stated_shift(audited, pair)[2]))


def norm(vector):
    return int(vector @ vector)


@EVERY
@BOTH
@LAYOUTS
def test_all_people_are_within_the_bounds(unit, adjacency, by_block):
    audited = mechanism(unit, adjacency, by_block=by_block)
    bounds = audited.bounds
    for pair in worst_pairs(audited):
        people = [p for p in (pair.before, pair.after) if p is not None]
        for x in [*pair.others, *(p.genotypes for p in people)]:
            blocks = np.split(x, np.cumsum(bounds.block_sizes)[:-1])
            assert norm(x) <= bounds.row_norm
            limits = bounds.block_norms or (bounds.row_norm,)
            assert all(norm(b) <= limit for b, limit in zip(blocks, limits, strict=True))
        for person in people:
            assert norm(person.phenotypes) <= bounds.phenotype_norm
            assert not person.phenotypes[person.observed == 0].any()
        assert len(pair.others) == N_SAMPLES - 1
        assert (pair.others == pair.others[0]).all()


@EVERY
@BOTH
def test_neighbours_differ_only_in_the_protected_part(unit, adjacency):
    """With the genotypes and covariates of a person change the residuals of the phenotypes."""
    for pair in worst_pairs(mechanism(unit, adjacency)):
        before, after = pair.before, pair.after
        if unit is FULL:
            assert (after is None) == (adjacency is ADD)
            continue
        if unit is LABEL:
            np.testing.assert_array_equal(before.genotypes, after.genotypes)
            gone = [after.phenotypes, after.observed]
        else:
            np.testing.assert_array_equal(before.observed, after.observed)
            gone = [after.genotypes, after.phenotypes]
        if adjacency is ADD:
            assert not any(part.any() for part in gone)


def test_statistics_are_sums_over_all_people():
    pair = worst_pairs(mechanism(FULL, REPLACE, by_block=True))[0]
    person = pair.before
    found = statistics_of(pair.others, person, (2, 2))
    x = np.vstack([pair.others, person.genotypes]).astype(object)  # Python integers
    y = np.zeros((N_SAMPLES, 2), dtype=object)
    y[-1] = person.phenotypes
    for block, columns in enumerate((slice(0, 2), slice(2, 4))):
        np.testing.assert_array_equal(found.gram[block], x[:, columns].T @ x[:, columns])
        np.testing.assert_array_equal(found.cross[block], x[:, columns].T @ y)
    np.testing.assert_array_equal(found.outcome_gram, y.T @ y)
    np.testing.assert_array_equal(found.observed, [N_SAMPLES, 1, 1])
    # The 2 x 2 characteristic polynomial, in integers; the solver's error is far below N_x.
    roots = []
    for gram in found.gram:
        (a, b), (_, d) = gram.tolist()
        roots.append((a + d) / 2 - math.sqrt(((a - d) / 2) ** 2 + b**2))
    assert abs(found.smallest_eigenvalue - min(roots)) < 10


RECIPES = [Recipe(), Recipe(eigenvalue_share=1 / 3), Recipe(gram_copies=2)]


@pytest.mark.parametrize(
    ("unit", "recipe"), [(LABEL, Recipe()), *itertools.product([FULL, FEATURE], RECIPES)]
)
@BOTH
@LAYOUTS
def test_no_pair_exceeds_mu_and_the_first_nearly_attains_it(unit, recipe, adjacency, by_block):
    audited = mechanism(unit, adjacency, by_block=by_block, recipe=recipe)
    shifts = [mu_of(audited, pair) for pair in worst_pairs(audited)]
    assert max(shifts) == shifts[0] <= MU
    # The worst rows for X'X, X'Y and Y'Y in two blocks hardly change an eigenvalue.
    assert shifts[0] >= (0.79 if by_block and recipe.eigenvalue_share else 0.97) * MU


@pytest.mark.parametrize(
    ("unit", "adjacency", "by_block", "share"),
    [
        (FULL, REPLACE, False, 1 - SHARES.counts),
        (FULL, REPLACE, True, 1 - SHARES.counts),
        (FULL, ADD, False, 1.0),
        (LABEL, REPLACE, False, 1 - SHARES.counts),
        (LABEL, ADD, False, 1.0),
        (FEATURE, REPLACE, False, 1.0),
        (FEATURE, REPLACE, True, 1.0),
    ],
)
def test_the_first_pair_attains_the_proved_shift(unit, adjacency, by_block, share):
    audited = mechanism(unit, adjacency, by_block=by_block)
    found = mu_of(audited, worst_pairs(audited)[0])
    # Rows are integers of 1,000 to 10,000 steps, each below its bound by at most one.
    assert found**2 == pytest.approx(share * MU**2, rel=5e-3)
