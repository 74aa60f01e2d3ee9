"""Mosaics against closed forms, which a right generator exceeds with a chance of `FALSE_ALARM`."""

import numpy as np
import pytest
from scipy import stats

from primo_scale.simulation import cohort as mosaic_module
from primo_scale.simulation.cohort import Mosaic, population_variance, score_people

FALSE_ALARM = 1e-6
DOSAGE = np.array([2.0, np.nan, 1.0, 0.0])


def telltale(n_variants: int, mean_segment: float, starts: tuple[int, ...] = (0,)) -> Mosaic:
    """Return four members, each with a constant genotype that identifies the copied member."""
    chromosome_starts = np.zeros(n_variants, dtype=bool)
    chromosome_starts[list(starts)] = True
    return Mosaic(
        codes=np.arange(4, dtype=np.uint8)[None, :],
        panel_row=np.zeros(n_variants, dtype=np.int32),
        chromosome_starts=chromosome_starts,
        mean_segment=mean_segment,
        missing_rate=0,
        seed=11,
    )


def largest_z(n_checks):
    return float(stats.norm.isf(FALSE_ALARM / (2 * n_checks)))


@pytest.mark.slow
def test_without_segment_switches_every_person_copies_one_panel_member(
    panel, mosaic_of, raw_values
):
    n_people = 34_300
    values = raw_values(mosaic_of(mean_segment=1e12), n_people)
    member_of = {genotypes.tobytes(): i for i, genotypes in enumerate(panel.codes[:400].T)}
    assert len(member_of) == 343  # 400 variants distinguish all members
    drawn = [member_of[genotypes.tobytes()] for genotypes in values.T]
    counts = np.bincount(drawn, minlength=343)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize(("mean_segment", "lag"), [(1, 1), (1.5, 1), (20, 1), (20, 10), (20, 60)])
def test_segment_lengths_are_geometric(mean_segment, lag, raw_values):
    """A new segment copies another member with chance 3/4, independently of everything else."""
    values = raw_values(telltale(201, mean_segment), 40_000)
    same = int((values[100] == values[100 + lag]).sum())
    chance = 0.25 + 0.75 * (1 - 1 / mean_segment) ** lag
    assert stats.binomtest(same, 40_000, chance).pvalue > FALSE_ALARM


def test_every_person_starts_a_chromosome_with_a_new_member(raw_values):
    values = raw_values(telltale(20, 1e12, starts=(0, 13)), 40_000)
    assert (values[:13] == values[0]).all()
    assert (values[13:] == values[13]).all()
    same = int((values[12] == values[13]).sum())
    assert stats.binomtest(same, 40_000, 0.25).pvalue > FALSE_ALARM


def test_frequencies_and_ld_match_the_panel(panel, mosaic_of, raw_values):
    n_people, mean_segment = 8_000, 200
    values = raw_values(mosaic_of(n_variants=1_000, mean_segment=mean_segment), n_people)
    common = np.minimum(panel.a1_frequency, 1 - panel.a1_frequency)[:1_000] > 0.05
    neighbours = np.flatnonzero(common[1:] & common[:-1])
    x, reference = DOSAGE[values], DOSAGE[panel.codes[:1_000]]
    x -= reference.mean(axis=1, keepdims=True)
    reference -= reference.mean(axis=1, keepdims=True)
    z = (x.mean(axis=1) * np.sqrt(n_people))[common] / reference.std(axis=1)[common]
    assert np.abs(z).max() < largest_z(len(z))
    assert z.std() > 0.5  # sampled, not copied

    products = x[neighbours] * x[neighbours + 1]
    expected = (1 - 1 / mean_segment) * (reference[neighbours] * reference[neighbours + 1]).mean(1)
    z = (products.mean(1) - expected) / (products.std(1) / np.sqrt(n_people))
    assert np.abs(z).max() < largest_z(len(z))


@pytest.mark.parametrize(
    ("n_people", "people_per_stripe", "slab_bytes"),
    [
        (9_001, 1 << 20, 1),
        (9_001, 5_000, 5_000),
        (9_001, 8_192, 100_000),
        (4_097, 1 << 20, 1 << 24),
        (4_095, 4_000, 1 << 24),
        (101, 4, 100_000),
        (1, 4, 1 << 24),
    ],
)
def test_a_person_does_not_depend_on_slabs_stripes_or_cohort_size(
    n_people, people_per_stripe, slab_bytes, mosaic_of, raw_values, monkeypatch
):
    mosaic = mosaic_of(missing_rate=0.02, mean_segment=20)
    expected = raw_values(mosaic, 9_001)[:, :n_people]
    monkeypatch.setattr(mosaic_module, "PEOPLE_PER_STRIPE", people_per_stripe)
    monkeypatch.setattr(mosaic_module, "SLAB_BYTES", slab_bytes)
    np.testing.assert_array_equal(raw_values(mosaic, n_people), expected)


def random_scores(panel, mosaic, n_entries):
    rng = np.random.default_rng(5)
    variant = np.sort(rng.choice(mosaic.n_variants, n_entries, replace=False))
    centred = np.nan_to_num(DOSAGE - 2 * panel.a1_frequency[mosaic.panel_row[variant]][:, None])
    value = centred * rng.standard_normal((n_entries, 1))
    return variant, np.zeros(n_entries, dtype=np.int64), value


def test_scores_are_sums_over_the_genotypes_written(panel, mosaic_of, raw_values):
    mosaic = mosaic_of(n_variants=3_500, mean_segment=30)  # the last 500 are a second tile
    scores = random_scores(panel, mosaic, 200)
    values = raw_values(mosaic, 5_000)
    variant, _, value = scores
    expected = np.take_along_axis(value, values[variant], axis=1).sum(axis=0)
    np.testing.assert_allclose(score_people(mosaic, range(5_000), scores, 1)[:, 0], expected)
    some = score_people(mosaic, range(4_000, 4_010), scores, 1)
    np.testing.assert_allclose(some[:, 0], expected[4_000:4_010])


def test_population_variance_is_the_quadratic_form_of_the_population_covariance(panel, mosaic_of):
    mosaic = mosaic_of(n_variants=3_500, mean_segment=30)
    scores = random_scores(panel, mosaic, 200)
    variant, _, value = scores
    row = mosaic.panel_row[variant]
    contributions = np.take_along_axis(value, panel.codes[row].astype(np.intp), axis=1)
    covariance = np.cov(contributions, bias=True)
    distance = np.abs(np.subtract.outer(variant, variant))
    tile = variant // 3_000
    same_tile = np.equal.outer(tile, tile)
    expected = (covariance * (1 - 1 / 30) ** distance * same_tile).sum()
    np.testing.assert_allclose(population_variance(mosaic, scores), expected, rtol=1e-10)

    # The variance of 40,000 people agrees within 5 standard errors.
    people = score_people(mosaic, range(40_000), scores, 1)[:, 0] ** 2
    assert abs(people.mean() - expected) < largest_z(1) * people.std() / np.sqrt(40_000)
