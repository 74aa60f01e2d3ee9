"""Accuracy of the weights in the people held out, in release.json (docs/maths/hold-out.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from primo_scale.publication.schema_types import (
    Amount,
    AtLeastOne,
    Number,
    Positive,
    PositiveAmount,
    Text,
)

_NoisySum = Annotated[int, Meta(ge=-(2**62), le=2**62)]
_UpToOne = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True)
class HeldOutPhenotype:
    """Accuracy of one phenotype's score, and the noisy statistics that it follows from.

    The score is that of the weights of the variants, and the residual is the phenotype less its
    public mean and less what the weights of the covariates explain.
    """

    name: Text
    residual_bound: PositiveAmount  # R, in units of the phenotype
    # Middle of the range of scores, and its half width U, in units of the phenotype. They follow
    # from `counts`.
    score_centre: Number
    score_bound: PositiveAmount
    # People between the public edges -4 R, ..., -4 R 2^(-k/2), ..., 4 R 2^(-k/2), ..., 4 R.
    counts: Annotated[tuple[_NoisySum, ...], AtLeastOne]
    # Sums of kappa^2, u^2, r^2, kappa u, kappa r and u r.
    sums: Annotated[tuple[_NoisySum, ...], Meta(min_length=6, max_length=6)]
    r2: _UpToOne | None  # squared correlation of score and residual; None if noise hides it
    r2_lower: _UpToOne  # ends of the 95% interval, which counts sampling and noise
    r2_upper: _UpToOne
    slope: Number | None  # of the residual on the score, 1 for calibrated weights
    slope_lower: Number | None
    slope_upper: Number | None
    calibration: Amount  # factor that the weights were multiplied by afterwards; 1 if they were not
    # Of a binary phenotype, for a score and a liability that are jointly normal: area under the ROC
    # curve, and R^2 of the liability, by the public prevalence.
    auc: _UpToOne | None
    auc_lower: _UpToOne | None
    auc_upper: _UpToOne | None
    liability_r2: _UpToOne | None
    liability_r2_lower: _UpToOne | None
    liability_r2_upper: _UpToOne | None


@dataclass(frozen=True)
class HeldOut:
    """Measurement of the weights in people who count in no other statistic."""

    people: Positive  # number of people held out
    unit: Positive  # code of a score or a residual at its bound
    constant: Positive  # code kappa of a person with the phenotype
    phenotypes: Annotated[tuple[HeldOutPhenotype, ...], AtLeastOne]  # in the order of the weights
