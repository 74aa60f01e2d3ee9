"""Sensitivity and noise of the measurement in people held out (docs/maths/hold-out.md)."""

import itertools
import math

import numpy as np
import pytest
from support.noise_checks import KEY, has_scale

from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.noise import KeystreamNoise
from primo_scale.genotypes.tables import SampleTable
from primo_scale.outcomes.coding import PhenotypeBounds, code_outcomes
from primo_scale.outcomes.store import align_outcomes, choose_held_out
from primo_scale.privacy.private_statistics import (
    UNIT,
    ScoredPeople,
    code_of_people,
    hold_out_noise,
    noisy_hold_out,
    residual_bounds,
    residual_limits,
    row_norm,
)
from primo_scale.verify.held_out_accuracy import accuracy_of, score_ranges


def svec_distance(one, other):
    """Return the Frobenius distance of the sums over phenotypes of vv'."""
    pairs = zip(one, other, strict=True)
    squares = (np.sum((np.outer(v, v) - np.outer(w, w)) ** 2) for v, w in pairs)
    return math.sqrt(sum(squares))


@pytest.mark.parametrize(
    ("constant", "scores", "residuals"),
    [
        (0, (-2, 2), (-2, 2)),
        (1, (-2, 2), (-2, 2)),
        (1, (-1, 3), (-2, 0)),  # bounds that are not symmetric
        (2, (0, 0), (-3, 1)),  # weights of zero
        (1, (-2, 2), (0, 0)),  # a phenotype without range
        (0, (0, 0), (0, 0)),
    ],
)
@pytest.mark.parametrize("groups", [1, 3])
def test_no_pair_of_rows_moves_the_sums_further(constant, scores, residuals, groups):
    """A row counts in the matrix of one group, and may come to count in that of another."""
    spans = [range(low, high + 1) for low, high in (scores, residuals)]
    own = [(constant, u, r) for u, r in itertools.product(*spans)] + [(0, 0, 0)]
    rows = [np.kron(np.eye(groups)[g], v) for g in range(groups) for v in own]
    norm = constant**2 + sum(max(abs(low), abs(high)) ** 2 for low, high in (scores, residuals))
    alone = max(svec_distance([v], [w]) for v, w in itertools.product(rows, rows))
    assert alone <= sensitivity.held_out_gram(1, norm)
    # Rows (0, 2, 2) and (0, 2, -2) are orthogonal, and rows of two groups too, so that nothing
    # smaller than the bound holds.
    attained = alone >= 0.999 * sensitivity.held_out_gram(1, norm)
    assert attained == (constant == 0 or (groups > 1 and norm == max(v @ v for v in rows)))
    farthest = max(
        itertools.product(rows, rows), key=lambda pair: svec_distance([pair[0]], [pair[1]])
    )
    both = svec_distance([farthest[0]] * 3, [farthest[1]] * 3)
    assert math.isclose(both, math.sqrt(3) * alone) and both <= sensitivity.held_out_gram(3, norm)


BOUNDS, LIMITS = np.array([3.0, 0.5]), np.array([3.0, np.inf])
VALUES = (0.0, -0.0, 1e-3, -0.5, 0.5, 3.0, -12.0, 1e300, math.inf, -math.inf, math.nan)


OTHERS = np.array([[0.1, -0.2], [2.0, 0.4]])


def people_with(score, residual, observed=(True, True), group=0, groups=1):
    """Return three people, of whom the first two are always the same."""
    batches = [
        (OTHERS, -OTHERS, np.ones((2, 2), dtype=bool), np.arange(2) % groups),
        (np.array([score]), np.array([residual]), np.array([observed]), np.array([group])),
    ]
    return ScoredPeople(BOUNDS, LIMITS, lambda: batches, groups)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(("centre", "half_width"), [(0.0, 3.0), (-1.0, 0.2)])
def test_no_neighbour_moves_a_measurement_further(centre, half_width, groups):
    """Every value that a float can have is coded within the bounds."""
    random = np.random.default_rng(5)
    measured = []
    for _ in range(80):
        person = people_with(
            random.choice(VALUES, 2), random.choice(VALUES, 2), random.random(2) < 0.8,
            random.integers(groups), groups,
        )  # fmt: skip
        measured.append((person.counts(), *person.sums(np.full(2, centre), half_width)))
    most, counts_most = (
        sensitivity.held_out_gram(2, row_norm(groups)),
        sensitivity.held_out_counts(2),
    )
    largest = largest_counts = 0.0
    for one, other in itertools.combinations(measured, 2):
        counts, squares, products = (
            np.linalg.norm((a - b).astype(float)) for a, b in zip(one, other, strict=True)
        )
        largest = max(largest, math.hypot(squares, math.sqrt(2) * products))
        largest_counts = max(largest_counts, counts)
    assert 0.8 * most < largest <= most
    assert largest_counts == pytest.approx(counts_most) and largest_counts <= counts_most


def test_one_person_moves_one_group_alone(tmp_path):
    ids = np.array([f"p{i}" for i in range(12)], dtype=object)
    samples = SampleTable(ids, ids)
    coding = code_outcomes([PhenotypeBounds("y", -2, 2, 0, 1, "quantitative")], [])
    apart = choose_held_out(samples, 4, KEY)
    assert apart.sum() == 4

    def store(number, values):
        file = tmp_path / f"{number}.tsv"
        rows = (f"{i} {i} {y}\n" for i, y in zip(ids, values, strict=True))
        file.write_text("FID IID y\n" + "".join(rows))
        path = tmp_path / f"{number}.zarr"
        found = align_outcomes(path, samples, [file], coding, scratch=tmp_path, held_out=apart)
        held = found.read_held_out(slice(0, 12)).tolist()
        return held, [found.read_rows(slice(0, 12)).tolist(), found.observed.tolist()]

    values = np.linspace(-2, 2, 12).tolist()
    held, summed = store("all", values)
    for person in range(12):
        for value in (0.77, "NA"):
            changed = store(person, [value if i == person else y for i, y in enumerate(values)])
            moved = [changed[0] != held, changed[1] != summed]
            assert moved == [apart[person], not apart[person]]


def test_the_noise_has_the_stated_law():
    l = 200  # noqa: E741
    noise = hold_out_noise(l, 1000, 0.7, "fit")
    assert noise.scale_sigma == pytest.approx(math.sqrt(2 * l / 0.07))
    assert noise.gram_sigma == pytest.approx(math.sqrt(2 * l / 0.63) * (2**28 + 2**33))
    exact = ScoredPeople(np.ones(l), np.ones(l), lambda: [])
    noisy = noisy_hold_out(exact, noise, KeystreamNoise(KEY), len)
    counts, sums = np.array(noisy.counts), np.array(noisy.sums, dtype=float)
    assert has_scale(counts, noise.scale_sigma) and not has_scale(counts, 1.1 * noise.scale_sigma)
    for part, sigma in (
        (sums[:, :3], noise.gram_sigma),
        (sums[:, 3:], noise.gram_sigma / math.sqrt(2)),
    ):
        assert has_scale(part, sigma) and not has_scale(part, 1.2 * sigma)
    again = noisy_hold_out(exact, noise, KeystreamNoise(KEY), len)
    assert again == noisy
    other = noisy_hold_out(exact, noise, KeystreamNoise(KEY[::-1]), len)
    assert other.sums != noisy.sums


@pytest.mark.parametrize("groups", [1, 2])
def test_the_sums_are_those_of_the_coded_values_in_the_chosen_range(groups):
    random = np.random.default_rng(3)
    scores, residuals = (
        random.normal([1, 0], [0.2, 0.05], (5000, 2)),
        random.normal(0, 1, (5000, 2)),
    )
    observed = random.random((5000, 2)) < 0.9
    parts = np.array_split(np.arange(5000), 7)
    group = random.integers(0, groups, 5000)
    batches = [(scores[p], residuals[p], observed[p], group[p]) for p in parts]
    people = ScoredPeople(BOUNDS, LIMITS, lambda: batches, groups)
    noise = hold_out_noise(2, 5000, 1e10, "fit", groups)  # with a negligible noise
    noisy = noisy_hold_out(people, noise, KeystreamNoise(KEY), len)
    ranges = score_ranges(np.array(noisy.counts), noise.scale_sigma, BOUNDS)
    for j, (centre, half_width) in enumerate(zip(*ranges, strict=True)):
        here = observed[:, j]
        values, sd = scores[here, j], scores[here, j].std()
        assert abs(centre - values.mean()) < sd and 2.6 < half_width / sd < 5
        expected, kappa = [], code_of_people(groups) / UNIT
        for number in range(groups):
            in_group = here & (group == number)
            u = np.clip((scores[in_group, j] - centre) / half_width, -1, 1)
            r = np.clip(residuals[in_group, j] / BOUNDS[j], -1, 1)
            expected += [len(u) * kappa**2, u @ u, r @ r, kappa * u.sum(), kappa * r.sum(), u @ r]
        np.testing.assert_allclose(np.array(noisy.sums[j]) / UNIT**2, expected, atol=0.2)


def test_the_bound_on_residuals_is_public():
    phenotypes = (
        PhenotypeBounds("y", -50, 50, 0, 2, "quantitative"),
        PhenotypeBounds("half range", 0, 10, 5, 5, "quantitative"),
        PhenotypeBounds("cc", 1, 2, 1.01, 0.1, "binary"),
    )
    np.testing.assert_allclose(residual_bounds(phenotypes), [6, 5, 0.99])
    np.testing.assert_allclose(residual_limits(phenotypes), [6, 15, np.inf])


def measured(residuals, noise, people=5000):
    """Return what the sums tell of standard normal scores and residuals beside them."""
    scores = np.random.default_rng(4).normal(size=(people, 1))
    everybody, group = np.ones((people, 1), dtype=bool), np.zeros(people, dtype=int)
    batches = [(0.3 * scores, residuals(scores)[:people], everybody, group)]
    phenotype = PhenotypeBounds("y", -50, 50, 0, 1, "quantitative")
    bounds = residual_bounds((phenotype,))
    exact = ScoredPeople(bounds, residual_limits((phenotype,)), lambda: batches)
    noisy = noisy_hold_out(exact, noise, KeystreamNoise(KEY), len)
    return accuracy_of(
        {"kind": "quantitative"},
        {"residual_bound": bounds[0], "counts": noisy.counts[0], "sums": noisy.sums[0]},
        {"constant": code_of_people(1), "people": people, "unit": UNIT},
        (noise.scale_sigma, noise.gram_sigma),
    )


def residuals_of(sd=1.0, mean=0.0, *, skewed=False):
    """Return a function of scores: phenotypes of these moments by the public sd of 1."""

    def residuals(scores):
        rest = np.random.default_rng(9).normal(size=scores.shape)
        whole = 0.3 * scores + math.sqrt(1 - 0.3**2) * rest
        if skewed:
            whole = (np.exp(whole) - math.exp(0.5)) / math.sqrt(math.exp(2) - math.exp(1))
        return sd * whole + mean

    return residuals


def test_accuracy_is_stated_if_the_public_moments_fit():
    noise = hold_out_noise(1, 5000, 0.6, "fit")
    found = measured(residuals_of(), noise)
    assert found["r2_lower"] < 0.3**2 < found["r2_upper"] and found["r2_upper"] < 0.2
    assert measured(residuals_of(sd=0.5), noise)["r2"] is not None


@pytest.mark.parametrize(
    "residuals",
    [residuals_of(sd=2), residuals_of(mean=2), residuals_of(mean=-3), residuals_of(skewed=True)],
)
def test_accuracy_of_clipped_phenotypes_is_not_stated(residuals):
    """A public sd or mean that is wrong, or a long tail, changes R^2 and the slope."""
    noise = hold_out_noise(1, 5000, 0.6, "fit")
    found = measured(residuals, noise)
    assert [found[name] for name in ("r2", "r2_lower", "r2_upper", "slope")] == [None, 0, 1, None]
