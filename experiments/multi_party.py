"""Wu et al.: data release by six parties on their synthetic data (docs/papers/wu.md).

Their section 5.2: d = 10 attributes uniform on [-1, 1], ``w* ~ U[-1/d, 1/d]``, ``y = w* . x``
exactly; five parties of two attributes and one with y alone; delta = 1e-5, nominal and per party.
Error is ``E ||w - w*||`` over data sets. BGM and DGM see the released data only through
X~'X~ and X~'y~, which are drawn here by their exact law without drawing n x 11 entries of noise:
with ``D = Q U``, D'R needs only ``Q'R`` (11 x 11 normals) and the rest of R'R is Wishart on n - 11
degrees of freedom. RMGM mixes the rows for real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from experiments import papers_constants as papers
from experiments.gaussian_noise import Float64

N_ATTRIBUTES = 10
LARGEST_PARTY = 2
DELTA = 1e-5
_ROWS_AT_A_TIME = 1 << 15


def least_squares(gram: Float64, *, debias: float = 0.0) -> Float64:
    """Return the weights from ``D~'D~`` of released rows, y last, shape (d,).

    `debias` is subtracted from the diagonal of the Hessian matrix: ``n sd^2`` for DGM-OLS, else 0.
    It has the units of a sum, as the ridge of Wu et al. that the caller adds.
    """
    hessian = gram[:-1, :-1] - debias * np.eye(len(gram) - 1)
    return np.asarray(np.linalg.solve(hessian, gram[:-1, -1]), np.float64)


def noisy_gram(rows: Float64, sd: float, rng: np.random.Generator) -> Float64:
    """Draw ``(D + R)'(D + R)``, for independent noise of sd `sd`, by its exact law."""
    n, width = rows.shape
    upper = np.linalg.cholesky(rows.T @ rows + 1e-9 * np.eye(width)).T
    inside = sd * rng.standard_normal((width, width))
    cross = upper.T @ inside
    outside = sd**2 * scipy.stats.wishart.rvs(n - width, np.eye(width), random_state=rng)
    return np.asarray(upper.T @ upper + cross + cross.T + inside.T @ inside + outside)


def mixed_gram(rows: Float64, sd: float, n_mixtures: int, rng: np.random.Generator) -> Float64:
    """Draw ``M'M`` of ``M = B D / sqrt(k) + R`` for random signs B, shape (k, n)."""
    mixed = np.zeros((n_mixtures, rows.shape[1]))
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        part = rows[start : start + _ROWS_AT_A_TIME].astype(np.float32)
        bits = np.unpackbits(
            rng.integers(0, 256, (n_mixtures, -(-len(part) // 8)), dtype=np.uint8), axis=1
        )
        signs = 2 * bits[:, : len(part)].astype(np.float32) - 1
        mixed += signs @ part
    released = mixed / math.sqrt(n_mixtures) + sd * rng.standard_normal(mixed.shape)
    return np.asarray(released.T @ released)


@dataclass(frozen=True)
class Trial:
    """Result of one method on one data set."""

    method: str
    weights: Float64  # shape (d,)
    smallest_eigenvalue: float  # magnitude of that of the Hessian matrix, per person


def synthetic_data(n_people: int, rng: np.random.Generator) -> tuple[Float64, Float64]:
    """Return rows (X, y) of the paper's section 5.2, shape (n, d + 1), and w*, shape (d,)."""
    true = rng.uniform(-1 / N_ATTRIBUTES, 1 / N_ATTRIBUTES, N_ATTRIBUTES)
    X = rng.uniform(-1, 1, (n_people, N_ATTRIBUTES))
    return np.column_stack([X, X @ true]), true


def trials(
    rows: Float64, sd: float, mixtures: Sequence[int], rng: np.random.Generator
) -> list[Trial]:
    """Release rows with noise of sd `sd`, and fit the last column by every method.

    RMGM-OLS is run with each number of mixtures in `mixtures`.
    """
    n_people = len(rows)
    ridge = papers.MULTI_PARTY_RIDGE * n_people
    plain = noisy_gram(rows, sd, rng)
    grams = {"OLS": (rows.T @ rows, 0.0), "BGM-OLS": (plain, 0.0)}
    grams["DGM-OLS"] = (plain, n_people * sd**2)
    for count in mixtures:
        name = "RMGM-OLS" if len(mixtures) == 1 else f"RMGM-OLS, k = {count}"
        grams[name] = (mixed_gram(rows, sd, count, rng), 0.0)
    found = []
    for name, (gram, bias) in grams.items():
        hessian = gram[:-1, :-1] - (bias - ridge) * np.eye(len(gram) - 1)
        smallest = float(np.abs(np.linalg.eigvalsh(hessian)).min()) / n_people
        found.append(Trial(name, least_squares(gram, debias=bias - ridge), smallest))
    return found
