"""Linear models from the released columns of several parties (Wu et al., Algorithms 1 and 2).

Everything here is public: it post-processes what the parties released. A column is used in units of
half its range about the middle of its bounds, and a constant column is added, which is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from primo_scale.errors import UsageError

Floats = npt.NDArray[np.float64]

_ROWS_AT_A_TIME = 1 << 14


class PartyMethod(StrEnum):
    """Ways from released columns to weights.

    ``bgm`` and ``dgm`` fit rows, without and with the correction for the noise; ``rmgm`` fits
    mixtures as Wu et al. do, and ``rmgm-debiased`` corrects them for the noise too.
    """

    BGM = "bgm"
    DGM = "dgm"
    RMGM = "rmgm"
    RMGM_DEBIASED = "rmgm-debiased"

    @property
    def fits_mixtures(self) -> bool:
        """Whether the method needs mixtures of people; otherwise it needs their rows."""
        return self in (PartyMethod.RMGM, PartyMethod.RMGM_DEBIASED)

    @property
    def is_debiased(self) -> bool:
        """Whether the noise's own part of the Hessian matrix is subtracted."""
        return self in (PartyMethod.DGM, PartyMethod.RMGM_DEBIASED)


@dataclass(frozen=True, eq=False)
class JoinedColumns:
    """Inner products of the released columns of all parties. Public."""

    # Inner products, the constant first, in the units of a sum over people, shape (1 + m, 1 + m).
    gram: Floats
    # Standard deviation of the noise on each value; 0 for the constant, shape (1 + m,).
    noise_sd: Floats
    n_rows: int  # number of released rows: people, or mixtures


@dataclass(frozen=True, eq=False)
class PartyFit:
    """Weights for columns in units of half their range."""

    intercept: float  # expected outcome in the middle of all bounds
    weights: Floats  # weight of each predictor, shape (d,)
    # Eigenvalues of the Hessian matrix as it was estimated, ascending, shape (1 + d,).
    eigenvalues: Floats
    floor: float  # smallest eigenvalue that was used; smaller ones were raised to it


def join_columns(
    parts: Sequence[npt.NDArray[np.int64]],
    scales: Sequence[float],
    noise_sd: Sequence[float],
    constant: Floats,
) -> JoinedColumns:
    """Return the inner products of released columns, read in pieces of rows.

    `parts` are the released values of each party, int64 of shape (rows, columns). `scales` are the
    lattice units of one unit of a value, and `noise_sd` is in units of a value. `constant` is the
    released column of ones: 1 for rows, ``sum of signs / sqrt(k)`` for mixtures.
    """
    widths = [part.shape[1] for part in parts]
    gram = np.zeros((1 + sum(widths),) * 2)
    for start in range(0, len(constant), _ROWS_AT_A_TIME):
        rows = slice(start, start + _ROWS_AT_A_TIME)
        values = [part[rows] / scale for part, scale in zip(parts, scales, strict=True)]
        block = np.column_stack([constant[rows], *values])
        gram += block.T @ block
    return JoinedColumns(gram, np.repeat([0.0, *noise_sd], [1, *widths]), len(constant))


def fit_outcome(
    joined: JoinedColumns,
    outcome: int,
    predictors: Sequence[int],
    *,
    debiased: bool,
    ridge: float | None = None,
) -> PartyFit:
    """Solve for the weights of predictors.

    De-biasing subtracts ``rows * sd^2`` from the diagonal. The matrix can then have eigenvalues
    near zero or below, whose inverses destroy the weights (Wu et al., section 4.1). Eigenvalues
    below the noise of the matrix are therefore raised to it. If `ridge` is given, it is added to
    all eigenvalues instead, in the units of a sum over people. `outcome` and `predictors` are
    indices among the columns without the constant. Linearly dependent predictors are refused.
    """
    used = np.array([0, *(1 + index for index in predictors)])
    variance = joined.noise_sd[used] ** 2
    hessian = joined.gram[np.ix_(used, used)]
    if debiased:
        hessian = hessian - joined.n_rows * np.diag(variance)
    eigenvalues, vectors = np.linalg.eigh(hessian)
    floor = 0.0 if ridge is not None or not debiased else _noise_norm(hessian, variance, joined)
    raised = np.maximum(eigenvalues, floor) + (ridge or 0.0)
    if raised[0] <= len(used) * np.finfo(np.float64).eps * raised[-1]:
        raise UsageError(
            "the released columns do not determine the weights of so many predictors",
            where="--predictors",
            value=len(predictors),
            remedy="Name fewer or other --predictors, or give --ridge above 0",
        )
    solution = vectors @ (vectors.T @ joined.gram[used, 1 + outcome] / raised)
    return PartyFit(float(solution[0]), solution[1:], eigenvalues, floor)


def _noise_norm(hessian: Floats, variance: Floats, joined: JoinedColumns) -> float:
    """Return about the spectral norm of the noise in a de-biased Hessian matrix.

    An entry (i, j) has the variance ``rows s_i^2 s_j^2 + s_i^2 H_jj + s_j^2 H_ii``, and a
    symmetric matrix of m rows with entries of variance v has a norm of about ``2 sqrt(m v)``.
    """
    own = np.clip(np.diag(hessian), 0.0, None)
    entries = joined.n_rows * np.outer(variance, variance)
    entries += np.outer(variance, own) + np.outer(own, variance)
    return 2 * math.sqrt(float(entries.sum(axis=1).max()))
