"""Noise on each of the statistics, from arrays to arrays.

A statistic with scale 0 is public under the promise and is returned unchanged. X'X and X'Z do not
fit in memory, so the noise on each stored tile and panel is drawn under its own label.
"""

from __future__ import annotations

import numpy as np

from primo_scale.gaussian.lattice_noise import (
    FineNoise,
    Integers,
    add_lattice_noise,
    add_symmetric_noise,
    off_diagonal_sigma,
)
from primo_scale.privacy.mechanism import NoiseScales
from primo_scale.storage.tiles import Panel, Tile


def noisy_gram_tile(
    values: Integers, tile: Tile, scales: NoiseScales, *, block: int, copy: int, source: FineNoise
) -> Integers:
    """Add noise to a stored tile of a copy of X_b'X_b, smaller off the diagonal than on it."""
    sigma = scales.gram[block]
    if sigma == 0:
        return values
    label = f"X'X, block {block}, copy {copy}, tile {tile.row}, {tile.column}"
    if tile.on_diagonal:
        return add_symmetric_noise(values, sigma, source=source, label=label)
    return add_lattice_noise(values, off_diagonal_sigma(sigma), source=source, label=label)


def noisy_cross_panel(
    values: Integers,
    panel: Panel,
    scales: NoiseScales,
    n_fixed: int,
    *,
    block: int,
    source: FineNoise,
) -> Integers:
    """Add noise to a panel of ``X_b'(C, Y)``, whose first `n_fixed` columns are X_b'C."""
    fixed, phenotypes = values[:, :n_fixed], values[:, n_fixed:]
    label = f"X'Z, block {block}, panel {panel.number}"
    return np.hstack(
        [
            _noisy(fixed, scales.fixed_cross, source=source, label=f"{label}, fixed"),
            _noisy(phenotypes, scales.phenotype_cross, source=source, label=label),
        ]
    )


def noisy_outcome_gram(
    gram: Integers, scales: NoiseScales, n_fixed: int, *, source: FineNoise
) -> Integers:
    """Add noise to Z'Z, shape (q, q), for z = (c, y); C'C, C'Y and Y'Y have their own scales."""
    fixed, phenotypes = slice(0, n_fixed), slice(n_fixed, len(gram))
    noisy = gram.copy()
    noisy[fixed, fixed] = _noisy_square(
        gram[fixed, fixed], scales.fixed_gram, source=source, label="C'C"
    )
    noisy[fixed, phenotypes] = _noisy(
        gram[fixed, phenotypes], scales.fixed_phenotype, source=source, label="C'Y"
    )
    noisy[phenotypes, fixed] = noisy[fixed, phenotypes].T
    noisy[phenotypes, phenotypes] = _noisy_square(
        gram[phenotypes, phenotypes], scales.phenotype_gram, source=source, label="Y'Y"
    )
    return noisy


def noisy_counts(observed: Integers, scales: NoiseScales, *, source: FineNoise) -> Integers:
    """Add noise to the numbers of people with each phenotype, shape (l,)."""
    return _noisy(observed, scales.observed, source=source, label="observed")


def noisy_smallest_eigenvalue(value: int, scales: NoiseScales, *, source: FineNoise) -> int:
    """Add noise to the smallest eigenvalue of X'X, which is rounded down to an integer."""
    exact = np.array([value], dtype=np.int64)
    scale = scales.smallest_eigenvalue
    return int(_noisy(exact, scale, source=source, label="smallest eigenvalue")[0])


def _noisy(values: Integers, sigma: float, *, source: FineNoise, label: str) -> Integers:
    return values if sigma == 0 else add_lattice_noise(values, sigma, source=source, label=label)


def _noisy_square(gram: Integers, sigma: float, *, source: FineNoise, label: str) -> Integers:
    return gram if sigma == 0 else add_symmetric_noise(gram, sigma, source=source, label=label)
