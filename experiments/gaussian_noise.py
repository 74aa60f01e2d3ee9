"""Noise of the experiments: standard normals from numpy, shared by all methods of a repetition.

This is NOT the product's sampler. The experiments simulate accuracy under fixed seeds; they release
no data and protect no person. Methods with shared draws differ only by their scales, so that the
differences between rows of a table are far more precise than the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Draws:
    """Standard normal noise of one repetition.

    `upper`, shape (d, d), is symmetric with variance 1 on and off the diagonal, the layout of the
    papers. `svec` has variance 1/2 off the diagonal, the layout of the product. `cross`, shape
    (d, l), is the noise of X'Y.
    """

    upper: Float64
    svec: Float64
    cross: Float64


def draw(n_variants: int, n_phenotypes: int, rng: np.random.Generator) -> Draws:
    """Draw the noise of one repetition."""
    upper = symmetric_upper(n_variants, rng)
    off_diagonal = ~np.eye(n_variants, dtype=bool)
    svec = np.where(off_diagonal, upper / np.sqrt(2), upper)
    return Draws(upper, svec, rng.standard_normal((n_variants, n_phenotypes)))


def symmetric_upper(size: int, rng: np.random.Generator) -> Float64:
    """Return a symmetric matrix whose upper triangle is independent standard normal."""
    upper = np.triu(rng.standard_normal((size, size)))
    return np.asarray(upper + np.triu(upper, 1).T)
