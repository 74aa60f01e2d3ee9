"""Recomputation of mu^2 from the numbers in release.json, with one theorem per calibration.

The module shares no code with the calibration of the noise. The theorems and the notation are those
of docs/maths: rows x with ``||x||^2 <= N_x``, and ``<= beta_b`` in block b, and phenotypes y with
N_y. Every result is mu^2, the squared length of the joint shift that one person can cause, in units
of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

from primo_scale.verify.document import Document
from primo_scale.verify.words import KEYSTREAM_DISTANCE

# Statistics of every release, with noise unless the guarantee assumes that they are public.
PARTS = ("gram", "phenotype_cross", "phenotype_gram", "observed")
_EIGENVALUE = "smallest_eigenvalue"
# Statistics of the people held out, who count in no other one.
HELD_OUT = ("held_out_counts", "held_out_gram")
SYMMETRIC = ("gram", "phenotype_gram", "adjustment", "held_out_gram")
# Statistics that each guarantee assumes to be public, which alone may have no noise. With feature
# privacy Y'Y is one of them if nothing was adjusted for and rows are replaced.
PUBLIC_PARTS: Mapping[str, tuple[str, ...]] = {
    "full": (),
    "label": ("gram",),
    "feature": ("observed",),
    "feature, phenotypes as given": ("phenotype_gram", "observed"),
}
_PEOPLE_ALIVE = 8.3e9  # limit of the size of a cohort whose number of people is private


@dataclass(frozen=True)
class Claims:
    """Values in release.json from which the guarantee follows."""

    privacy: str  # privacy unit: ``full``, ``label`` or ``feature``
    replace: bool  # whether neighbours differ by a replacement, not by addition or removal
    row: int  # N_x
    phenotype: int  # N_y
    blocks: tuple[int, ...] | None  # beta_b of every block
    largest_block: int  # number of variants
    people: int | None  # people in the statistics, n less those held out; None if n is private
    held_out_norm: int  # bound on the squared norm of a row of ``held_out_gram``; 0 without one
    adjustment: int  # N of the rows (c, y_j) of a person in the adjustment
    second: tuple[int, int]  # N_x and N_y of a second round; 0 without one
    subsample: int | None  # number of people in X'X; None for all
    split: float | None  # parameter t
    copies: int  # noisy copies of X'X
    stated: Mapping[str, tuple[float, ...]]  # stated sensitivities of each query
    # Standard deviations on the diagonal of each query, or smaller values that correspond to the
    # off-diagonal noise.
    sigma: Mapping[str, tuple[float, ...]]
    shapes: Mapping[str, list[int]]  # required shape of each statistic

    @property
    def public_parts(self) -> tuple[str, ...]:
        """Statistics that may have no noise."""
        as_given = self.shapes["adjustment"][0] == 2 * self.n_phenotypes and self.replace
        alone = self.privacy == "feature" and as_given
        return PUBLIC_PARTS[self.privacy + ", phenotypes as given" * alone]

    @property
    def n_phenotypes(self) -> int:
        """Number l of phenotypes."""
        return self.shapes["phenotype_gram"][0]

    @property
    def block_bounds(self) -> tuple[int, ...]:
        """Bound on ``||x_b||^2`` of each part of X'X: ``min(beta_b, N_x)``, or N_x alone."""
        return tuple(min(norm, self.row) for norm in self.blocks or (self.row,))

    def least(self, name: str) -> float:
        """Return the smallest sigma of a query, or infinity if it was not measured."""
        return min(self.sigma.get(name, ()), default=math.inf)


def column_counts(document: Document) -> tuple[int, ...]:
    """Return the number of columns of X in each LD block: LD components, or variants."""
    cohort = document["cohort"]
    return tuple(cohort["component_sizes"] or cohort["block_sizes"])


def held_out_groups(document: Document) -> list[str]:
    """Return the names of the groups of people held out, none if they are not told apart."""
    public = document["public_inputs"]
    stated = public["panel_populations"]
    if not (document["hold_out"] and stated and public["pc_loadings"]):
        return []
    return [each["name"] for each in stated["populations"]]


def claims_of(document: Document) -> Claims:
    """Return the claims of a private release.json, valid under its schema."""
    cohort, mechanism = document["cohort"], document["mechanism"]
    blocks = mechanism["block_norms_squared"]
    columns = column_counts(document)
    d, l = sum(columns), cohort["n_phenotypes"]  # noqa: E741
    c = 1 + cohort["n_covariates"]
    apart = document["hold_out"] or {"people": 0, "unit": 0, "constant": 0, "phenotypes": []}
    bins = max((len(each["counts"]) for each in apart["phenotypes"]), default=1)
    scored = 3 * l * len(held_out_groups(document) or [""])
    people = cohort["n_samples"]
    second = mechanism["second_round"] or {}
    return Claims(
        privacy=document["guarantee"]["privacy"],
        replace=document["guarantee"]["adjacency"] == "replace-one",
        row=mechanism["row_norm_squared"],
        phenotype=mechanism["phenotypes_norm_squared"],
        blocks=None if blocks is None else tuple(blocks),
        largest_block=max(columns),
        people=None if people is None else people - apart["people"],
        held_out_norm=apart["constant"] ** 2 + 2 * apart["unit"] ** 2,
        adjustment=mechanism["adjustment_norm"],
        second=(second.get("row_norm_squared", 0), second.get("phenotypes_norm_squared", 0)),
        subsample=mechanism["subsample"],
        split=mechanism["split"],
        copies=mechanism["gram_copies"],
        stated={query["name"]: tuple(query["sensitivity"]) for query in mechanism["queries"]},
        sigma={query["name"]: _diagonal_sigmas(query) for query in mechanism["queries"]},
        shapes={
            "gram": [d, d],
            "phenotype_cross": [d, l],
            "phenotype_gram": [l, l],
            "observed": [l + (people is None)],
            "smallest_eigenvalue": [1],
            "adjustment": [l * (c + 1), l * (c + 1)],
            "second_round": [second.get("directions", 0)],
            "held_out_counts": [l, bins],
            "held_out_gram": [scored, scored],
        },
    )


def _diagonal_sigmas(query: Document) -> tuple[float, ...]:
    beside = query["off_diagonal_sigma"]
    if beside is None:
        return tuple(query["sigma"])
    pairs = zip(query["sigma"], beside, strict=True)
    return tuple(min(on, math.sqrt(2) * off) for on, off in pairs)


def calibration_of(claims: Claims) -> str:
    """Return the name of the theorem that applies."""
    return next(name for name, (applies, *_) in THEOREMS.items() if applies(claims))


def sensitivity(claims: Claims, name: str) -> tuple[float, ...]:
    """Return the l2 sensitivities of one statistic alone, one for each of its sigmas.

    The bounds are ``||uu' - vv'||_F <= sqrt2 N`` and ``||uw' - vt'||_F <= 2 sqrt(N M)`` for a
    replaced row, and ``N`` and ``sqrt(N M)`` for an added or removed row.
    """
    gram, cross = (math.sqrt(2), 2.0) if claims.replace else (1.0, 1.0)
    row, phenotype = claims.row, claims.phenotype
    if name == "gram":
        return tuple(gram * norm for norm in claims.block_bounds)
    if name == _EIGENVALUE:
        return (_eigenvalue_change(claims),)
    return (
        {
            "phenotype_cross": cross * math.sqrt(row) * math.sqrt(phenotype),
            "phenotype_gram": gram * phenotype,
            "adjustment": gram * claims.adjustment,
            "second_round": cross * math.sqrt(claims.second[0]) * math.sqrt(claims.second[1]),
            "observed": math.sqrt(claims.shapes["observed"][0]),
            "held_out_counts": math.sqrt(2 * claims.n_phenotypes),
            "held_out_gram": math.sqrt(2 * claims.n_phenotypes) * claims.held_out_norm,
        }[name],
    )


def _eigenvalue_change(claims: Claims) -> float:
    """Return the sensitivity of the smallest eigenvalue.

    It is the largest bound N of a block, plus one for rounding down, plus twice the solver's error
    of at most ``16 d 2^-53 n N``. If n is private, the stated value is accepted if it is sufficient
    for the population of the world.
    """
    people = _PEOPLE_ALIVE if claims.people is None else claims.people
    change = max(claims.block_bounds) * (1 + 32 * claims.largest_block * people / 2.0**53) + 1
    return change if claims.people is not None else max(change, *claims.stated[_EIGENVALUE])


def squared_ratio(claims: Claims, name: str) -> float:
    """Return mu^2 of a statistic whose mu^2 is added to that of the others."""
    if name not in claims.sigma:
        return 0.0
    return (sensitivity(claims, name)[0] / claims.least(name)) ** 2


def joint_shift(claims: Claims) -> float:
    """Return the joint mu^2 of X'X, X'Y and Y'Y, without a subsampled X'X."""
    _, shift, _ = THEOREMS[calibration_of(claims)]
    return shift(claims)


def subsample_shift(claims: Claims) -> float:
    """Return mu^2 of the noisy X'X of a subsample if the members of the subsample are known."""
    return _gram_ratio(claims, 2.0)


def implied_split(claims: Claims) -> float | None:
    """Return t = D/A of the noise for add-remove; None for theorems that take t as an input."""
    if calibration_of(claims) != "add-remove":
        return None
    return _ratios(claims)[0] / _gram_ratio(claims, 1.0)


def _ratios(claims: Claims) -> tuple[float, float]:
    """Return ``N_x N_y / sigma_2^2`` and ``N_y^2 / sigma_3^2`` of the noise on X'Y and Y'Y."""
    cross = claims.row * claims.phenotype / claims.least("phenotype_cross") ** 2
    return cross, claims.phenotype**2 / claims.least("phenotype_gram") ** 2


def _gram_ratio(claims: Claims, factor: float) -> float:
    """Return the largest ``factor k beta_b N_x / sigma_b^2`` for k copies of X'X."""
    pairs = zip(claims.block_bounds, claims.sigma["gram"], strict=True)
    return claims.copies * max(factor * norm * claims.row / sigma**2 for norm, sigma in pairs)


def _stacked(claims: Claims) -> float:
    """Return mu^2 of one Gram matrix of rows (x, k y) with ``k^2 = t N_x/(2 N_y)``.

    Its sensitivity is sqrt2 (N_x + k^2 N_y) (docs/maths/sensitivity.md, Theorem 2). If the beta_b
    add up to at most N_x, the Gram matrix is the mean of such matrices of ``(x_b/sqrt(beta_b),
    k y/sqrt(N_x))`` with weights beta_b/N_x, and sigma_b is smaller by sqrt(beta_b/N_x).
    """
    if claims.split is None:
        return math.inf
    row, outcome = claims.row, claims.phenotype
    squared = claims.split * row / (2 * outcome)  # k^2
    joint = 2 * (row + squared * outcome) ** 2
    return max(
        _gram_ratio(claims, joint / row**2),
        joint / (2 * squared * claims.least("phenotype_cross") ** 2),
        joint / (squared * claims.least("phenotype_gram")) ** 2,
    )


def _by_block(claims: Claims) -> float:
    """Return mu^2 of rows clipped in every block and in total (docs/maths/sensitivity.md).

    With tau = t/2 in (0, 1] and ``K = 2 (1 + tau)^3`` the bundle has mu = 1 at ``sigma_b^2 = K
    beta_b N_x``, ``sigma_2^2 = K N_x N_y / (tau (3 + tau^2))`` and ``sigma_3^2 = K (1 + tau^2)
    N_y^2 / (tau^2 (3 + tau^2))``; at tau = 1 that is 4 sqrt(beta_b N_x), 2 sqrt(N_x N_y) and
    2 sqrt2 N_y.
    """
    if claims.split is None or not 0 < claims.split <= 2:
        return math.inf
    tau = claims.split / 2
    total = 2 * (1 + tau) ** 3
    slope, (cross, square) = tau * (3 + tau**2), _ratios(claims)
    squares = total * (1 + tau**2) / (tau * slope) * square
    return max(_gram_ratio(claims, total), total / slope * cross, squares)


def _add_remove(claims: Claims) -> float:
    """Return mu^2 of a row at all its bounds.

    ``sum_b ||x_b||^4/sigma_b^2 <= max beta_b N_x/sigma_b^2``.
    """
    return _gram_ratio(claims, 1.0) + sum(_ratios(claims))


def _without_gram(claims: Claims) -> float:
    """Return mu^2 of X'Y and Y'Y alone, which for replace-one is the larger of the two.

    With label privacy, rows satisfy ``||x||^2 ||y||^2 <= N_x N_y``. Beside a subsample, which is
    proved for replace-one alone, it is `_stacked` at t = 2 without X'X.
    """
    cross, square = _ratios(claims)
    return max(4 * cross, 8 * square) if claims.replace else cross + square


def _fits_the_row(claims: Claims) -> bool:
    return claims.blocks is None or sum(claims.blocks) <= claims.row


# Theorems by the name of the calibration in release.json, of which the first that applies is used:
# whether it does, its `joint_shift`, and whether the noise rests on a split and may rest on norms
# of LD blocks.
THEOREMS: dict[str, tuple[Callable[[Claims], bool], Callable[[Claims], float], bool]] = {
    "label": (lambda claims: claims.privacy == "label", _without_gram, False),
    "subsampled": (lambda claims: claims.subsample is not None, _without_gram, False),
    "add-remove": (lambda claims: not claims.replace, _add_remove, True),
    "stacked": (_fits_the_row, _stacked, True),
    "by-block": (lambda claims: True, _by_block, True),
}


_ERFCX_OVERFLOWS = 26.0
_HOPELESS_MU = 1e6  # epsilon is above 10^11
# Every sigma is rounded up, and mu down, by at most 1e-12 of its value. The tolerance is wider than
# this rounding and far narrower than any relevant change.
TOLERANCE = 1e-9
# Noise is calibrated to (1 - 1e-6) epsilon; the rest covers the cost of the lattice.
EPSILON_TOLERANCE = 1e-5
# Steps of the noise lattice to a standard deviation: the fewest for which the lattice's cost is
# proved, and the most that the 64-bit integers of the sampler hold.
COARSEST_SIGMA, FINEST_SIGMA = 2.0**32, 2.0**58
MOST_DRAWS = 10**11  # in a release, for which the lattice's cost is proved to be negligible
_ROUNDING = 1e-6  # of numbers that were computed from the same noisy statistics


# Number of noisy values in a release, and least lattice steps per standard deviation.
Lattice = tuple[int, float]


def close(found: float, expected: float) -> bool:
    """Return whether two numbers are equal up to `TOLERANCE`."""
    return math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=1e-300)


def differences(
    numbers: Iterable[tuple[str, float, float]], tolerance: float = TOLERANCE, least: float = 1e-300
) -> list[str]:
    """Return which of some names, recomputed and stated numbers are not equal."""
    return [
        f"{name} is {found:.12g}, stated {stated:.12g}"
        for name, found, stated in numbers
        if not math.isclose(found, stated, rel_tol=tolerance, abs_tol=least)
    ]


def is_about(found: Any, wanted: Any) -> bool:
    """Return whether two JSON values are equal up to the rounding of their numbers."""
    if isinstance(wanted, dict):
        same = isinstance(found, dict) and found.keys() == wanted.keys()
        return same and all(is_about(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        same = isinstance(found, list) and len(found) == len(wanted)
        return same and all(map(is_about, found, wanted))
    if isinstance(wanted, float) and isinstance(found, int | float):
        return math.isclose(found, wanted, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return bool(found == wanted)


def log_delta(epsilon: float, mu: float) -> float:
    """Return the logarithm of the exact privacy profile of the Gaussian mechanism.

    ``delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` (Balle and Wang 2018),
    in a form without cancellation (docs/maths/noise.md).
    """
    if mu == 0:
        return -math.inf
    upper = (epsilon / mu - mu / 2) / math.sqrt(2)
    lower = (epsilon / mu + mu / 2) / math.sqrt(2)
    if upper < -_ERFCX_OVERFLOWS:
        tail = math.exp(epsilon + float(log_ndtr(-lower * math.sqrt(2))))
        return math.log1p(-math.exp(log_ndtr(upper * math.sqrt(2))) - tail)
    difference = float(erfcx(upper) - erfcx(lower))
    if difference <= 0:
        return -math.inf
    return math.log(difference / 2) - upper * upper


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon such that mu-Gaussian privacy is (epsilon, delta)-privacy."""
    if delta <= 0 or mu > _HOPELESS_MU:
        return math.inf
    target = math.log(delta)
    if log_delta(0.0, mu) <= target:
        return 0.0
    high = max(1.0, mu * mu)
    while log_delta(high, mu) > target:
        high *= 2
    low = 0.0
    while low < (middle := (low + high) / 2) < high:  # by bisection, to neighbouring numbers
        low, high = (middle, high) if log_delta(middle, mu) > target else (low, middle)
    return high


def log_delta_on_lattice(epsilon: float, mu: float, delta: float, lattice: Lattice) -> float:
    """Return `log_delta` for noise on a lattice instead of ideal noise.

    m draws at sigma/h or finer cost eta + eta' of epsilon, a factor e^eta of delta, and an event of
    probability e^-a with a free parameter a (docs/maths/noise.md, Theorem 7). The keystream sampler
    costs (1 + e^epsilon) m tau of delta instead. Both costs are included. `delta` is an approximate
    result, by which a is chosen.
    """
    draws, steps = lattice
    eta = draws / (24 * steps**2)
    rare = epsilon + 50 - math.log(delta)
    other_way = eta * (1 + 2 * math.sqrt(rare / draws) + 2 * rare / draws)
    left = epsilon - eta - other_way
    if left <= 0:
        return math.inf
    ideal = np.logaddexp(log_delta(left, mu), left - rare)
    keystream = np.logaddexp(0.0, epsilon) + math.log(draws) + math.log(KEYSTREAM_DISTANCE)
    return float(np.logaddexp(eta + ideal, keystream))
