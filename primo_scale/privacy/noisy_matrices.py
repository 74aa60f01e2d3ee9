"""Noise on each of the statistics, from arrays to arrays.

A statistic with scale 0 is public under the promise and is returned unchanged. X'X and X'Z do not
fit in memory, so the noise on each stored tile and panel is drawn under its own label.
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class NoisyMatrices:
    """Noise of one release, which each method adds to an exact statistic."""

    scales: NoiseScales
    n_fixed: int  # number of the outcome columns C, which come before Y
    source: FineNoise

    def gram_tile(self, values: Integers, tile: Tile, *, block: int, copy: int) -> Integers:
        """Add noise to a stored tile of a copy of X_b'X_b, smaller off the diagonal than on it."""
        sigma = self.scales.gram[block]
        if sigma == 0:
            return values
        label = f"X'X, block {block}, copy {copy}, tile {tile.row}, {tile.column}"
        if tile.on_diagonal:
            return self._symmetric(values, sigma, label)
        return self._noisy(values, off_diagonal_sigma(sigma), label)

    def cross_panel(self, values: Integers, panel: Panel, *, block: int) -> Integers:
        """Add noise to a panel of ``X_b'(C, Y)``."""
        fixed, phenotypes = values[:, : self.n_fixed], values[:, self.n_fixed :]
        label = f"X'Z, block {block}, panel {panel.number}"
        noisy_fixed = self._noisy(fixed, self.scales.fixed_cross, f"{label}, fixed")
        return np.hstack([noisy_fixed, self._noisy(phenotypes, self.scales.phenotype_cross, label)])

    def outcome_gram(self, gram: Integers) -> Integers:
        """Add noise to Z'Z, shape (q, q), for z = (c, y), whose parts have their own scales."""
        fixed, phenotypes = slice(0, self.n_fixed), slice(self.n_fixed, len(gram))
        scales, noisy = self.scales, gram.copy()
        noisy[fixed, fixed] = self._symmetric(gram[fixed, fixed], scales.fixed_gram, "C'C")
        noisy[fixed, phenotypes] = self._noisy(
            gram[fixed, phenotypes], scales.fixed_phenotype, "C'Y"
        )
        noisy[phenotypes, fixed] = noisy[fixed, phenotypes].T
        noisy[phenotypes, phenotypes] = self._symmetric(
            gram[phenotypes, phenotypes], scales.phenotype_gram, "Y'Y"
        )
        return noisy

    def counts(self, observed: Integers) -> Integers:
        """Add noise to the numbers of people with each phenotype, shape (l,)."""
        return self._noisy(observed, self.scales.observed, "observed")

    def smallest_eigenvalue(self, value: int) -> int:
        """Add noise to the smallest eigenvalue of X'X, which is rounded down to an integer."""
        exact, scale = np.array([value], dtype=np.int64), self.scales.smallest_eigenvalue
        return int(self._noisy(exact, scale, "smallest eigenvalue")[0])

    def _noisy(self, values: Integers, sigma: float, label: str) -> Integers:
        if sigma == 0:
            return values
        return add_lattice_noise(values, sigma, source=self.source, label=label)

    def _symmetric(self, gram: Integers, sigma: float, label: str) -> Integers:
        if sigma == 0:
            return gram
        return add_symmetric_noise(gram, sigma, source=self.source, label=label)
