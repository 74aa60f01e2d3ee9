"""The rows of the accuracy table of docs/maths.md, section 8, each a method on one cohort."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from experiments import product_methods as ours
from experiments import published_methods as published
from experiments.calibration_figures import DELTA, EPSILON
from experiments.gaussian_noise import Draws
from experiments.haplotypes import Cohort, Float64
from primo_scale.privacy.mechanism import Promise
from primo_scale.privacy.sensitivity import PrivacyUnit

N_PHENOTYPES = (1, 11, 101, 1001)
_NOT_FOR_NAIVE = 1001  # docs/maths.md has no figure there, and the row would be a ruin


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes
    ----------
    name
        In words.
    stated
        R^2 of docs/maths.md by number of phenotypes; "-" where it has none.
    ours
        Whether it is one of the product's, which have to land where docs/maths.md says.
    """

    name: str
    stated: tuple[str, str, str, str]
    ours: bool = False


NOT_STATED = ("-", "-", "-", "-")
ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "ols": Row("OLS (non-private)", (".311", ".340", ".350", ".329")),
        "algorithm 1": Row(
            "Algorithm 1 as printed (truly eps = 6.85)", (".295", ".225", "-.74", "-12.9")
        ),
        "projection x": Row(
            "label DP, Proj_X with the stated set K and sqrt(l) max abs y",
            (".297", ".066", "-2.24", "-28.9"),
        ),
        "projection x, small": Row(
            "Proj_X with radius sqrt(n) max abs y", (".297", ".066", ".089", ".016")
        ),
        "projection y": Row(
            "Proj_Y with the sqrt(l) max abs y noise", (".295", ".225", "-.098", ".132")
        ),
        "naive": Row("naive l x SSP, GDP, oracle ridge", (".287", ".233", ".076", "-")),
        "full": Row(
            "joint calibration + row clip + James-Stein: full DP",
            (".304", ".326", ".312", ".213"),
            ours=True,
        ),
        "full, even": Row(
            "the same at t = 1, which docs/maths.md seems to have used",
            (".304", ".326", ".312", ".213"),
            ours=True,
        ),
        "label": Row("the same, label DP", (".308", ".330", ".319", ".224"), ours=True),
        "feature": Row(
            "feature DP, Proj_Y, joint calibration", (".299", ".320", ".297", ".276"), ours=True
        ),
        "full, known noise": Row("full DP, weights for known noise (the default)", NOT_STATED),
        "full, planned": Row("full DP, known noise and the planner's clip", NOT_STATED),
        "full, ridge": Row("full DP, James-Stein on a ridge at the noise norm", NOT_STATED),
        "label, known noise": Row("label DP, weights for known noise (the default)", NOT_STATED),
        "label, planned": Row("label DP, known noise and the planner's clip", NOT_STATED),
        "feature, known noise": Row("feature DP, Proj_Y, weights for known noise", NOT_STATED),
        "feature, plain": Row("feature DP, weights for known noise, no projection", NOT_STATED),
    }
)


def all_weights(
    cohort: Cohort, draws: Draws, rng: np.random.Generator, *, noise_factor: float = 1.0
) -> dict[str, Float64]:
    """Weights of every row on one cohort, by key of `ROWS`.

    Parameters
    ----------
    cohort, draws
        Data, and noise that all rows share.
    rng
        For the copies of X'X of the naive row.
    noise_factor
        Multiplies the sigmas of our rows; 1 but in tests.
    """
    weights = {**_published(cohort, draws), **_ours(cohort, draws, noise_factor)}
    if cohort.cross.shape[1] < _NOT_FOR_NAIVE:
        weights["naive"] = published.naive(cohort, draws, EPSILON, DELTA, rng)
    return weights


def _published(cohort: Cohort, draws: Draws) -> dict[str, Float64]:
    noise = published.PrintedNoise(cohort, EPSILON, DELTA)
    small = math.sqrt(cohort.n) * noise.largest_value
    stated = small * math.sqrt(cohort.cross.shape[1])
    return {
        "ols": published.least_squares(cohort),
        "algorithm 1": published.algorithm_1(cohort, draws, noise),
        "projection x": published.projection_x(cohort, draws, noise, radius=stated),
        "projection x, small": published.projection_x(cohort, draws, noise, radius=small),
        "projection y": published.projection_y(cohort, draws, noise),
    }


def _ours(cohort: Cohort, draws: Draws, noise_factor: float) -> dict[str, Float64]:
    full, label, feature = (
        ours.release(cohort, draws, Promise(EPSILON, DELTA, unit), noise_factor=noise_factor)
        for unit in (PrivacyUnit.FULL, PrivacyUnit.LABEL, PrivacyUnit.FEATURE)
    )
    even = ours.release(
        cohort, draws, Promise(EPSILON, DELTA), split=1.0, noise_factor=noise_factor
    )
    projected = ours.projected_on_phenotypes(feature, cohort)
    return {
        "full": ours.james_stein_weights(full, floor=full.noise_norm, penalty=0.0),
        "full, even": ours.james_stein_weights(even, floor=even.noise_norm, penalty=0.0),
        "label": ours.james_stein_weights(label, floor=0.0, penalty=0.0),
        "feature": ours.ridge_weights(projected, projected.usual_noise_norm),
        "full, known noise": ours.known_noise_weights(full),
        "full, planned": _planned(cohort, draws, PrivacyUnit.FULL),
        "full, ridge": ours.james_stein_weights(full, floor=0.0, penalty=full.noise_norm),
        "label, known noise": ours.known_noise_weights(label),
        "label, planned": _planned(cohort, draws, PrivacyUnit.LABEL),
        "feature, known noise": ours.known_noise_weights(projected),
        "feature, plain": ours.known_noise_weights(feature),
    }


def _planned(cohort: Cohort, draws: Draws, unit: PrivacyUnit) -> Float64:
    promise = Promise(EPSILON, DELTA, unit)
    bound = ours.planned_phenotype_bound(cohort, promise)
    return ours.known_noise_weights(ours.release(cohort, draws, promise, phenotype_bound=bound))
