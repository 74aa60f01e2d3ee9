"""Coverage of the intervals from noisy sums, for normal values whose correlation is known."""

import math

import numpy as np
import pytest
from scipy import stats

from primo_scale.verify.held_out_accuracy import (
    HoldOutScale,
    accuracy_of,
    area_under_curve,
    held_out_accuracy,
)

KAPPA = 0.25
DRAWS, BINARY_DRAWS = 2000, 500


def scale(people, *, ratio=1.0, unit=1.0, prevalence=None):
    return HoldOutScale(KAPPA, people, True, unit, ratio, prevalence)


def sums(random, rho, people, sigma, *, slope=1.0):
    """Return noisy sums in units of the bounds, each at 4 standard deviations."""
    u = random.standard_normal(people)
    r = rho * u + math.sqrt(1 - rho**2) * random.standard_normal(people)
    return noisy(random, u / 4 + 0.02, slope * r / 4, sigma)


def noisy(random, u, r, sigma):
    """Return the noisy sums of scores and residuals in units of their bounds."""
    people = len(u)
    exact = [
        people * KAPPA**2, u @ u, r @ r, KAPPA * u.sum(), KAPPA * r.sum(), u @ r,
    ]  # fmt: skip
    scales = sigma * np.array([1, 1, 1, *[math.sqrt(0.5)] * 3])
    return exact + scales * random.standard_normal(6)


def coverage(drawn, public, rho, sigma, *, draws=DRAWS, counted=1.0):
    """Return how often R^2 and slope are within intervals that count `counted` times the noise."""
    covered = np.zeros(2)
    for _ in range(draws):
        found = held_out_accuracy(drawn(), max(counted * sigma, 1e-9), public)
        slope = found["slope_lower"] is None or found["slope_lower"] <= rho <= found["slope_upper"]
        covered += [found["r2_lower"] <= rho**2 <= found["r2_upper"], slope]
    return covered / draws


def coverage_of_all(rho, people, sigma, **counted):
    random = np.random.default_rng(abs(hash((rho, people, sigma))) % 2**32)
    return coverage(lambda: sums(random, rho, people, sigma), scale(people), rho, sigma, **counted)


def is_95_percent(share):
    """Return whether a share of draws is compatible with 94% to 96.5%."""
    low, high = (stats.binom.ppf(q, DRAWS, p) / DRAWS for q, p in ((1e-5, 0.94), (1 - 1e-5, 0.965)))
    return (low <= share) & (share <= high)


@pytest.mark.parametrize(("rho", "sigma"), [(0.3, 0), (-0.45, 10)])
def test_intervals_cover_the_truth(rho, sigma):
    assert is_95_percent(coverage_of_all(rho, 1000, sigma)).all()


@pytest.mark.slow
def test_intervals_without_noise_would_be_too_short():
    for counted in (1e-3, 2.0):
        assert not is_95_percent(coverage_of_all(0.3, 1000, 10, counted=counted)).any()


def test_without_noise_the_interval_is_about_fishers():
    random = np.random.default_rng(1)
    found = held_out_accuracy(sums(random, 0.5, 20_000, 0), 1e-9, scale(20_000, ratio=2.0))
    r, half = math.sqrt(found["r2"]), 1.96 / math.sqrt(20_000)
    fisher = [math.tanh(math.atanh(r) + side * half) ** 2 for side in (-1, 1)]
    assert [found["r2_lower"], found["r2_upper"]] == pytest.approx(fisher, abs=2e-4)
    se = math.sqrt((1 - r * r) / 20_000)
    assert found["slope_upper"] - found["slope_lower"] == pytest.approx(2 * 2 * 1.96 * se, rel=0.03)
    assert found["slope"] == pytest.approx(2 * r, rel=0.03)


def test_numbers_beyond_what_any_sums_can_be_have_a_result():
    random = np.random.default_rng(4)
    for _ in range(3000):
        found = held_out_accuracy(
            random.normal(0, 1e4, 6), 1.0, scale(5000, prevalence=random.choice([None, 0.1]))
        )
        assert 0 <= found["r2_lower"] <= found["r2_upper"] <= 1
        if found["r2"] is not None:
            assert found["r2_lower"] <= found["r2"] <= found["r2_upper"]
            if found["auc"] is not None:
                assert 0 <= found["auc_lower"] <= found["auc"] <= found["auc_upper"] <= 1
                assert 0 <= found["liability_r2"] <= found["liability_r2_upper"] <= 1


def binary_coverage(liability, people, sigma, *, prevalence, assumed=None, ascertained=None):
    """Return how often the intervals of AUC, liability R^2 and slope contain the truth.

    With `ascertained`, this is the share of cases among the people, and slopes are not compared.
    """
    bound = 1 - prevalence
    slope = 4 * math.sqrt(liability) * stats.norm.pdf(stats.norm.isf(prevalence)) / bound
    random = np.random.default_rng(round(1e6 * liability) + people)
    truth = area_under_curve(liability, prevalence)
    covered = np.zeros(3)
    for _ in range(BINARY_DRAWS):
        n = people if ascertained is None else int(1.3 * people * ascertained / prevalence)
        u = random.standard_normal(n)
        case = math.sqrt(liability) * u + math.sqrt(1 - liability) * random.standard_normal(
            n
        ) > stats.norm.isf(prevalence)
        if ascertained is not None:
            cases = round(people * ascertained)
            chosen = [np.flatnonzero(case)[:cases], np.flatnonzero(~case)[: people - cases]]
            u, case = (values[np.concatenate(chosen)] for values in (u, case))
        found = held_out_accuracy(
            noisy(random, u / 4, (case - prevalence) / bound, sigma), max(sigma, 1e-9),
            scale(len(u), unit=bound, prevalence=assumed or prevalence),
        )  # fmt: skip
        covered += [
            found["auc_lower"] <= truth <= found["auc_upper"],
            found["liability_r2_lower"] <= liability <= found["liability_r2_upper"],
            found["slope_lower"] is None or found["slope_lower"] <= slope <= found["slope_upper"],
        ]
    return covered / BINARY_DRAWS


@pytest.mark.parametrize(
    ("liability", "people", "prevalence", "sigma"), [(0.1, 1000, 0.1, 3), (0.3, 2000, 0.05, 0)]
)
def test_intervals_of_binary_traits_cover_the_truth(liability, people, prevalence, sigma):
    covered = binary_coverage(liability, people, sigma, prevalence=prevalence)
    assert ((covered >= 0.92) & (covered <= 0.98)).all(), covered


@pytest.mark.slow
def test_chosen_cases_are_corrected_for():
    covered = binary_coverage(0.1, 1000, 3, prevalence=0.05, ascertained=0.4)[:2]
    assert ((covered >= 0.92) & (covered <= 0.98)).all(), covered


def test_a_score_that_predicts_the_opposite_has_an_area_below_one_half():
    random = np.random.default_rng(5)
    u = random.standard_normal(4000)
    case = random.random(4000) < 0.2 - 0.1 * np.tanh(u)
    found = held_out_accuracy(
        noisy(random, u / 4, (case - 0.2) / 0.8, 1), 1, scale(4000, unit=0.8, prevalence=0.2)
    )
    assert found["auc_upper"] < 0.5
    exact = stats.mannwhitneyu(u[case], u[~case]).statistic / (case.sum() * (~case).sum())
    assert found["auc"] == pytest.approx(exact, abs=0.02)


PEOPLE = (600, 300, 200)


def grouped(random, rho, sigma, *, kappa=0.5):
    found = []
    for people, mean_u, mean_r in zip(PEOPLE, random.normal(0, 1, 3), (-1, 0.2, 1), strict=True):
        u = random.standard_normal(people)
        r = rho * u + math.sqrt(1 - rho**2) * random.standard_normal(people)
        u, r = (u + mean_u) / 5, (r + mean_r) / 4
        squares = np.array([people * kappa**2, u @ u, r @ r])
        products = np.array([kappa * u.sum(), kappa * r.sum(), u @ r])
        squares += sigma * random.standard_normal(3)
        found.append([*squares, *(products + sigma * math.sqrt(0.5) * random.standard_normal(3))])
    return found


def covered_within(rho, sigma, *, counted=1.0):
    random, public = np.random.default_rng(11), HoldOutScale(0.5, sum(PEOPLE), True, 1.0, 0.8)
    drawn = lambda: np.ravel(grouped(random, rho, sigma))  # noqa: E731
    return coverage(drawn, public, rho, sigma, draws=DRAWS // 2, counted=counted)


@pytest.mark.parametrize(("rho", "sigma"), [(0.3, 0), (0.4, 2), (0.0, 2)])
def test_intervals_within_groups_cover_the_truth(rho, sigma):
    found = covered_within(rho, sigma)
    assert ((found > 0.925) & (found < 0.975)).all(), found


def test_the_noise_on_every_group_is_counted():
    assert (covered_within(0.3, 4, counted=0.5) < 0.92).all()


@pytest.mark.parametrize(("noise", "people"), [(0.0, 4), (3.0, 40)])
def test_small_groups_do_not_count(noise, people):
    """The third group has below 30 people, or five standard deviations of the noise on them."""
    random = np.random.default_rng(2)
    sums = np.rint(np.array(grouped(random, 0.5, 0.0)) * 1e6).astype(int)
    sums[2] = np.rint(sums[2] * people / PEOPLE[2])
    scale_ = 1e6 * noise
    stated = {"residual_bound": 1.0, "counts": [33] * 33 + [0], "sums": np.ravel(sums)}
    public = {"constant": 500, "people": sum(PEOPLE), "unit": 1000}
    found = accuracy_of({"kind": "quantitative"}, stated, public, (1.0, scale_ or 1.0), "ABC")
    within, *_, small = found["groups"]
    assert [each["name"] for each in found["groups"]] == ["within groups", *"ABC"]
    assert small["r2"] is None and within["r2_lower"] <= within["r2"] <= within["r2_upper"]
    both = {**stated, "sums": np.ravel(sums[:2])}
    alone = accuracy_of({"kind": "quantitative"}, both, public, (1.0, scale_ or 1.0), "AB")
    assert alone["groups"][0] == within
    # Over all people the means count too, which differ between the groups.
    assert abs(found["r2"] - within["r2"]) > 0.05
