"""Accuracy of weights from the noisy sums over people who are held out (docs/maths/hold-out.md).

Everything here is computed from noisy statistics and public numbers. The intervals have a level of
95% and count both the sampling of the people and the noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

Floats = npt.NDArray[np.float64]
# Name of the group of all people.
EVERYBODY = "all"
# Name of the people of all groups, less the means of each person's group.
WITHIN_GROUPS = "within groups"

# Number of public numbers between which people are counted by their score.
N_EDGES = 32
# Number of sums of each group.
N_SUMS = 6
# Number of counts of people: those between the edges, and last those with too large a residual.
N_COUNTS = N_EDGES + 2
_LARGEST_EDGE = 4.0  # in units of the bound on residuals
_QUARTILES = 2.4  # half width of the range of scores, in units of the distance of their quartiles
# A range of scores that cuts more than this share of people is too small.
_CUT, _SIGNIFICANCE = 0.005, 3.0
_NUMBERS = [
    name + end
    for name in ("r2", "slope", "auc", "liability_r2")
    for end in ("", "_lower", "_upper")
]
# Width of an interval of R^2 below which that of a single group is told.
NARROW = 0.05
# 97.5% quantile of the normal distribution.
NORMAL_QUANTILE = 1.959963984540054
# Share of people with too large a residual above which no accuracy is stated (normal: 0.3%).
MOST_BEYOND = 0.01
_ERRORS_BEYOND = 2.0  # standard deviations of the noise on their number
# Sums of squares that are not this many standard deviations of the noise above 0 measure nothing.
_LEAST_SIGNIFICANCE = 3.0
_LEAST_PEOPLE = 30
# Least number of people of a group that counts, in standard deviations of the noise on the number.
_LEAST_GROUP = 5.0
# Ends of the interval of a slope that is precise enough to correct weights, one over the other.
_PRECISE = 2.0
# Range of slopes outside of which weights are called too large or too small.
USUAL_SLOPES = 0.5, 2.0


def score_edges(residual: Floats) -> Floats:
    """Return the increasing public numbers between which people are counted, (`N_EDGES`, l).

    They are symmetric about 0, and magnitudes grow by sqrt(2) up to four times the bounds
    `residual` on residuals, shape (l,).
    """
    steps = np.arange(N_EDGES // 2) / 2
    magnitudes = _LARGEST_EDGE * 2.0 ** -steps[:, None] * residual
    return np.concatenate([-magnitudes, magnitudes[::-1]])


def score_ranges(
    counts: npt.NDArray[np.int64], sigma: float, residual: Floats
) -> tuple[Floats, Floats]:
    """Return the centre and the half width of the range of scores, each of shape (l,).

    The noisy `counts` of people, shape (l, `N_COUNTS`), have noise of `sigma`. The centre is that
    of the two middle quarters of the people, and the half width 2.4 times their width, 3.2 standard
    deviations of normal scores. A wider range is chosen where the number of people cut is above
    0.5% by three standard deviations of its noise.
    """
    ranges = []
    for between, edges in zip(counts[:, :-1], score_edges(residual).T, strict=True):
        total, below = between.sum(), np.maximum.accumulate(between.cumsum()[:-1])
        lower, upper = np.interp([total / 4, 3 * total / 4], below, edges)
        centre = (lower + upper) / 2
        half_width = max(_QUARTILES * (upper - lower), edges[N_EDGES // 2])
        for _ in range(N_EDGES):
            outside = np.append(edges, np.inf) <= centre - half_width
            outside |= np.append(-np.inf, edges) >= centre + half_width
            allowed = _CUT * total + _SIGNIFICANCE * sigma * math.sqrt(outside.sum())
            if between[outside].sum() <= allowed:
                break
            half_width *= math.sqrt(2)
        ranges.append((centre, half_width))
    centres, half_widths = np.array(ranges).T
    return centres, half_widths


def fits_its_range(counts: Sequence[int], sigma: float) -> bool:
    """Return whether few enough residuals of a phenotype are too large to state its accuracy.

    The noisy `counts` of people, of length `N_COUNTS`, have noise of `sigma`.
    """
    return counts[-1] <= MOST_BEYOND * sum(counts) + _ERRORS_BEYOND * sigma


def corrects_weights(slope: float | None, lower: float | None, upper: float | None) -> bool:
    """Return whether weights become better by a factor of the slope with this interval.

    The interval is above 0, and it excludes 1 or is narrow: other slopes are less certain than the
    scale of the weights. A slope outside of `USUAL_SLOPES` has a cause, such as population
    structure, that one factor does not remove.
    """
    if slope is None or lower is None or upper is None or lower <= 0:
        return False
    if not USUAL_SLOPES[0] <= slope <= USUAL_SLOPES[1]:
        return False
    return not lower <= 1 <= upper or upper <= _PRECISE * lower


@dataclass(frozen=True)
class HoldOutScale:
    """Public numbers that give the sums of one phenotype their units."""

    constant: int  # code kappa
    people: int  # number of people held out
    fits: bool  # whether the range of residuals fits the phenotype (`fits_its_range`)
    unit: float  # residual of one lattice unit, in units of the phenotype
    ratio: float  # bound on the residuals divided by that on the scores
    prevalence: float | None = None  # public share of cases of a binary phenotype


def accuracy_of(
    phenotype: Mapping[str, Any],
    measured: Mapping[str, Any],
    hold_out: Mapping[str, Any],
    sigma: tuple[float, float],
    groups: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the range of scores and the accuracies, as release.json states them.

    The arguments are entries of release.json: of the phenotype in public_inputs and in hold_out,
    and hold_out itself. `sigma` has the standard deviations of the noise on counts and on sums. The
    accuracies are that over all people and, if there are `groups`, which have sums of their own,
    those within the groups together and within each.
    """
    counts_sigma, sums_sigma = sigma
    bound, counts = measured["residual_bound"], measured["counts"]
    ranges = score_ranges(np.array([counts]), counts_sigma, np.array([bound]))
    centre, half_width = (float(numbers[0]) for numbers in ranges)
    scale = HoldOutScale(
        hold_out["constant"],
        hold_out["people"],
        fits_its_range(counts, counts_sigma),
        unit=bound / hold_out["unit"],
        ratio=bound / half_width,
        prevalence=public_prevalence(phenotype),
    )
    sums = np.reshape(measured["sums"], (-1, N_SUMS))
    overall = held_out_accuracy(sums.sum(axis=0).tolist(), sums_sigma * math.sqrt(len(sums)), scale)
    least = max(_LEAST_PEOPLE * scale.constant**2, _LEAST_GROUP * sums_sigma)
    large = [each if each[0] >= least else [] for each in sums.tolist()]
    parts = [(WITHIN_GROUPS, [*itertools.chain(*large)]), *zip(groups, large, strict=False)]
    of_groups = []
    for name, part in parts if groups else ():
        accuracy = held_out_accuracy(part, sums_sigma, scale)
        of_groups.append({"name": name} | {each: accuracy[each] for each in _NUMBERS[:6]})
    score_range = {"score_centre": centre, "score_bound": half_width}
    return {**score_range, **overall, "groups": of_groups}


def decisive(measured: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the accuracy that decides about a phenotype: within groups, where there are groups."""
    groups: list[Mapping[str, Any]] = measured.get("groups") or [measured]
    return groups[0]


def told_of(measured: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what release.json tells of a phenotype: names of groups and their accuracies.

    It is first that within all groups, then that over all people, and then those of single groups
    whose interval of R^2 excludes 0 or is narrow. Without groups, it is that over all people,
    without a name.
    """
    groups = measured.get("groups") or []
    if not groups:
        return [("", measured)]
    told = [g for g in groups[1:] if g["r2_lower"] > 0 or g["r2_upper"] < NARROW]
    return [(WITHIN_GROUPS, groups[0]), (EVERYBODY, measured), *((g["name"], g) for g in told)]


def public_prevalence(phenotype: Mapping[str, Any]) -> float | None:
    """Return the public share of cases of a phenotype in release.json.

    It is None for a quantitative phenotype, and for a share outside of (0, 1).
    """
    if phenotype["kind"] != "binary":
        return None
    share = round(float(phenotype["mean"] - phenotype["lower"]), 12)  # 1.2 - 1 is 0.2
    return share if 0 < share < 1 else None


# People with the phenotype, and the centred sums uu, ur and rr of scores u and residuals r in code
# units.
_Moments = tuple[float, float, float, float]
# Variance of ``a uu + b ur + c rr`` by noise, to first order.
_NoiseVariance = Callable[[float, float, float], float]


def held_out_accuracy(
    sums: Sequence[int], sigma: float, scale: HoldOutScale
) -> dict[str, float | None]:
    """Return the accuracy from one phenotype's noisy sums, in the order of `NoisyHoldOut`.

    It has R^2 and slope and, of a binary phenotype, area under the ROC curve and R^2 of the
    liability for a normal score and liability; None for a number about which the sums say nothing.
    `sums` are those of one group or of several, whose means are subtracted in each. `sigma` is the
    standard deviation of the noise on the first three sums of a group; that on the others is
    smaller by sqrt(2).
    """
    found = dict.fromkeys(_NUMBERS) | {"r2_lower": 0.0, "r2_upper": 1.0}
    if scale.prevalence is not None:
        found |= {f"{name}_lower": 0.0 for name in ("auc", "liability_r2")}
        found |= {f"{name}_upper": 1.0 for name in ("auc", "liability_r2")}
    measured = _moments(sums, sigma, scale)
    if measured is None or not scale.fits:
        return found
    moments, variance = measured
    n, uu, ur, rr = moments
    if min(uu, rr) <= max(0.0, _LEAST_SIGNIFICANCE * sigma * math.sqrt(len(sums) // N_SUMS)):
        return found
    lower, upper = _correlation_interval(moments, variance)
    least, most = sorted((lower**2, upper**2))
    least, r2 = 0.0 if lower < 0 < upper else least, min(ur**2 / (uu * rr), 1.0)
    found |= {"r2": r2, "r2_lower": least, "r2_upper": most, "slope": scale.ratio * ur / uu}
    slopes = _slope_interval(moments, variance, scale)
    if slopes is not None:
        found |= {"slope_lower": scale.ratio * slopes[0], "slope_upper": scale.ratio * slopes[1]}
    if scale.prevalence is not None:
        share = _case_share(rr / n * scale.unit**2, scale.prevalence)
        rho = math.copysign(math.sqrt(r2), ur)
        for end, r, squared in (("", rho, r2), ("_lower", lower, least), ("_upper", upper, most)):
            area = area_under_curve(liability_r2(r**2, share, scale.prevalence), scale.prevalence)
            found[f"auc{end}"] = 0.5 + math.copysign(area - 0.5, r)
            found[f"liability_r2{end}"] = liability_r2(squared, share, scale.prevalence)
    return found


def _moments(
    sums: Sequence[int], sigma: float, scale: HoldOutScale
) -> tuple[_Moments, _NoiseVariance] | None:
    """Return the moments within groups together, or None of too few people.

    `sigma` is that of the noise on sums of squares; that on products is smaller by sqrt(2).
    """
    kappa = scale.constant or math.inf  # a forged one may be 0
    kk, uu, rr, ku, kr, ur = np.reshape(sums, (-1, N_SUMS)).T.astype(np.float64)
    n = np.minimum(kk / kappa**2, scale.people)
    if min(n, default=0) < _LEAST_PEOPLE:
        return None
    u, r = ku / kappa / n, kr / kappa / n
    uu, ur, rr = (part.sum() for part in (uu - n * u * u, ur - n * u * r, rr - n * r * r))

    def variance(a: float, b: float, c: float) -> float:
        by_sum_u, by_sum_r = -2 * a * u - b * r, -2 * c * r - b * u
        by_n = a * u**2 + b * u * r + c * r**2
        squares, products = a * a + c * c, b * b / 2
        by_sums = (by_sum_u**2 + by_sum_r**2) / (2 * kappa**2)
        variances = squares + products + by_sums + by_n**2 / kappa**4
        return sigma**2 * float(variances.sum())

    return (min(float(n.sum()), scale.people), uu, ur, rr), variance


def _case_share(variance: float, prevalence: float) -> float:
    """Return the share of cases P with P(1 - P) = Var(r), on the side of the prevalence."""
    half_range = math.sqrt(max(0.25 - variance, 0.0))
    return 0.5 + math.copysign(half_range, prevalence - 0.5)


def _correlation_interval(moments: _Moments, variance: _NoiseVariance) -> tuple[float, float]:
    """Return the correlations that a test at 5% does not reject (docs/maths/hold-out.md)."""
    n, uu, ur, rr = moments
    size, root = math.sqrt(uu * rr), math.sqrt(rr / uu)

    def rejection(rho: float) -> float:
        """Return a number that is positive if the correlation `rho` is rejected."""
        sampling = uu * rr / n * (1 - rho**2) ** 2
        noise = variance(-rho * root / 2, 1.0, -rho / root / 2)
        return (ur - rho * size) ** 2 - NORMAL_QUANTILE**2 * (sampling + noise)

    nearest = min(max(ur / size, -1 + 1e-9), 1 - 1e-9)
    if rejection(nearest) > 0:  # the estimate is beyond 1, and so is what noise explains
        return (nearest, 1.0) if nearest > 0 else (-1.0, nearest)
    lower = -1.0 if rejection(-1.0) <= 0 else scipy.optimize.brentq(rejection, -1.0, nearest)
    upper = 1.0 if rejection(1.0) <= 0 else scipy.optimize.brentq(rejection, nearest, 1.0)
    return lower, upper


def _slope_interval(
    moments: _Moments, variance: _NoiseVariance, scale: HoldOutScale
) -> tuple[float, float] | None:
    """Return Fieller's interval of the slope ur / uu, or None if it is unbounded."""
    n, uu, ur, rr = moments
    z = NORMAL_QUANTILE**2
    slope = ur / uu
    residual = max(rr - slope * ur, 0.0) * uu / n  # by sampling
    if scale.prevalence is not None:  # the variance of residuals is not the same at every score
        share = _case_share(rr / n * scale.unit**2, scale.prevalence)
        r2 = liability_r2(min(ur**2 / (uu * rr), 1.0), share, scale.prevalence)
        residual *= residual_spread(r2, share, scale.prevalence)

    def rejection(b: float) -> float:
        return (ur - b * uu) ** 2 - z * (residual + variance(-b, 1.0, 0.0))

    # The rejection is a parabola in b: its coefficients follow from three of its values.
    at = [rejection(b) for b in (-1.0, 0.0, 1.0)]
    square, linear = (at[0] + at[2]) / 2 - at[1], (at[2] - at[0]) / 2
    if square <= 0:
        return None
    root = math.sqrt(max(linear**2 - 4 * square * at[1], 0.0))
    return (-linear - root) / (2 * square), (-linear + root) / (2 * square)


# ---- The scale of the liability ------------------------------------------------------------------
# A person is a case of a binary trait if the liability exceeds a threshold, and score and liability
# are jointly normal in the population.

_NORMAL = NormalDist()
_GRID = np.linspace(-9, 9, 3601)  # of a standard normal score
_LARGEST_R2 = 1 - 1e-9


def liability_r2(observed: float, case_share: float, prevalence: float) -> float:
    """Return R^2 of the liability from R^2 of the 0/1 trait (Lee et al. 2012, equation 15).

    It corrects for the share of cases in the sample. If that equals the prevalence in the
    population, it is the scale of Dempster and Lerner (1950). The function increases, up to 1,
    which scores that are not normal could exceed.
    """
    threshold = -_NORMAL.inv_cdf(prevalence)
    density = _NORMAL.pdf(threshold)
    mean_of_cases = density / prevalence  # of the liability
    excess = mean_of_cases * (case_share - prevalence) / (1 - prevalence)
    theta = excess * (excess - threshold)
    scale = (prevalence * (1 - prevalence) / density) ** 2 / (case_share * (1 - case_share))
    return min(observed * scale / (1 + observed * theta * scale), 1.0)


def share_of_codes(prevalence: float) -> float:
    """Return R^2 of the 0/1 trait over that of the liability (Dempster and Lerner 1950)."""
    return _NORMAL.pdf(_NORMAL.inv_cdf(prevalence)) ** 2 / (prevalence * (1 - prevalence))


def residual_spread(r2: float, case_share: float, prevalence: float) -> float:
    """Return ``E[u^2 e^2] / (E[u^2] E[e^2])`` for the residuals e of the 0/1 trait on the score u.

    It is 1 if residuals have the same variance at every score; those of a rare trait vary more at
    high scores. `r2` is that of the liability. Source: docs/maths/hold-out.md, "Binary phenotypes".
    """
    probability, density = _cases_by_score(r2, prevalence)
    cases = density * probability
    controls = density - cases
    cases *= case_share / cases.sum()
    controls *= (1 - case_share) / controls.sum()
    people = cases + controls
    centred = _GRID - people @ _GRID
    slope = (cases @ centred) / (people @ centred**2)
    squares = cases * (1 - case_share - slope * centred) ** 2
    squares += controls * (case_share + slope * centred) ** 2
    return float(squares @ centred**2 / (squares.sum() * (people @ centred**2)))


def area_under_curve(r2: float, prevalence: float) -> float:
    """Return the probability that a case has a higher score than a control.

    `r2` is that of the liability. The distributions of the score among cases and controls are
    summed on a grid, without the normal approximation of Wray et al. (2010).
    """
    probability, density = _cases_by_score(r2, prevalence)
    cases, controls = density * probability, density * (1 - probability)
    below = np.cumsum(controls) - controls / 2
    return min(float(cases @ below / (cases.sum() * controls.sum())), 1.0)


def _cases_by_score(r2: float, prevalence: float) -> tuple[Floats, Floats]:
    """Return the share of cases at every score of the grid, and the density of scores."""
    r2 = min(max(r2, 0.0), _LARGEST_R2)
    threshold = -_NORMAL.inv_cdf(prevalence)
    probability = scipy.special.ndtr((math.sqrt(r2) * _GRID - threshold) / math.sqrt(1 - r2))
    return probability, np.exp(-(_GRID**2) / 2)
