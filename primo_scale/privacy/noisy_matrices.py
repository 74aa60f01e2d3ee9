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
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.storage.tiles import Panel, Tile


@dataclass(frozen=True, eq=False)
class NoisyMatrices:
    """Noise of one release, which each method adds to an exact statistic."""

    mechanism: Mechanism
    source: FineNoise

    def gram_tile(self, values: Integers, tile: Tile, *, block: int, copy: int) -> Integers:
        """Add noise to a stored tile of a copy of X_b'X_b, smaller off the diagonal than on it."""
        sigma = self.mechanism.scales.gram[block]
        if sigma == 0:
            return values
        label = f"X'X, block {block}, copy {copy}, tile {tile.row}, {tile.column}"
        if tile.on_diagonal:
            return self._symmetric(values, sigma, label)
        return self._noisy(values, off_diagonal_sigma(sigma), label)

    def cross_panel(self, values: Integers, panel: Panel, *, block: int) -> Integers:
        """Add noise to X'Y in a panel of ``X_b'(C, Y)``; X'C is public under label privacy."""
        fixed, phenotypes = np.split(values, [self._n_fixed(values)], axis=1)
        label = f"X'Y, block {block}, panel {panel.number}"
        noisy = self._noisy(phenotypes, self.mechanism.scales.phenotype_cross, label)
        return np.hstack([fixed, noisy])

    def outcome_gram(self, gram: Integers) -> Integers:
        """Return Z'Z, shape (q, q), for z = (c, y): noisy Y'Y, and zeros in the place of C'Y.

        C'C is public under label privacy. C'Y is not measured, because phenotypes were adjusted.
        """
        n_fixed = self._n_fixed(gram)
        noisy = np.zeros_like(gram)
        noisy[:n_fixed, :n_fixed] = gram[:n_fixed, :n_fixed]
        noisy[n_fixed:, n_fixed:] = self._symmetric(
            gram[n_fixed:, n_fixed:], self.mechanism.scales.phenotype_gram, "Y'Y"
        )
        return noisy

    def counts(self, observed: Integers) -> Integers:
        """Add noise to the number of people, if it is private, and to those with each phenotype."""
        public, private = np.split(observed, [not self.mechanism.promise.n_is_private])
        noisy = self._noisy(private, self.mechanism.scales.observed, "observed")
        return np.concatenate([public, noisy])

    def smallest_eigenvalue(self, value: int) -> int:
        """Add noise to the smallest eigenvalue of X'X, which is rounded down to an integer."""
        exact, scale = np.array([value], dtype=np.int64), self.mechanism.scales.smallest_eigenvalue
        return int(self._noisy(exact, scale, "smallest eigenvalue")[0])

    def _n_fixed(self, columns: Integers) -> int:
        """Return the number of the outcome columns C, which come before Y."""
        n_fixed = int(columns.shape[1]) - self.mechanism.bounds.n_phenotypes
        if n_fixed and self.mechanism.promise.unit is not PrivacyUnit.LABEL:
            raise ValueError("covariates are in no sum where they are private")
        return n_fixed

    def _noisy(self, values: Integers, sigma: float, label: str) -> Integers:
        if sigma == 0:
            return values
        return add_lattice_noise(values, sigma, source=self.source, label=label)

    def _symmetric(self, gram: Integers, sigma: float, label: str) -> Integers:
        if sigma == 0:
            return gram
        return add_symmetric_noise(gram, sigma, source=self.source, label=label)
