"""Small cohorts, their statistics in memory, and noise on them."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from primo_scale.methods.catalogue import ESTIMATORS, METHODS, estimator_for
from primo_scale.methods.effects import EffectPrior
from primo_scale.methods.linear_algebra import TargetNoise
from primo_scale.methods.solve import SolveInputs, solve_statistics
from primo_scale.privacy.mechanism import NoiseScales, PublicBounds, Recipe, no_noise
from primo_scale.storage.block_matrices import BlockLayout


@dataclass(frozen=True)
class MemoryStatistics:
    """In-memory substitute for `BlockMatrices`."""

    layout: BlockLayout
    grams: tuple[tuple[np.ndarray, ...], ...]
    crosses: tuple[np.ndarray, ...]
    outcomes: np.ndarray
    eigenvalue: int | None = None
    path: Path = Path()
    kind: str = "in memory"

    @property
    def gram_copies(self):
        return len(self.grams[0])

    def gram(self, block, copy=0):
        return self.grams[block][copy]

    def cross(self, block):
        return self.crosses[block]

    def outcome_gram(self):
        return self.outcomes

    def smallest_eigenvalue(self):
        return self.eigenvalue


def statistics_of(X, fixed, Y, boundaries=None):
    boundaries = boundaries or (0, X.shape[1])
    layout = BlockLayout(tuple(boundaries), fixed.shape[1], Y.shape[1])
    Z = np.hstack([fixed, Y])
    parts = [X[:, layout.variants(block)] for block in range(layout.n_blocks)]
    return MemoryStatistics(
        layout, tuple((x.T @ x,) for x in parts), tuple(x.T @ Z for x in parts), Z.T @ Z
    )


def symmetric_noise(size, sigma, rng):
    """Return noise in the svec layout: sigma on the diagonal, sigma / sqrt2 off the diagonal."""
    entries = rng.normal(0, sigma, (size, size))
    return (entries + entries.T) / 2


def independent_noise(variances):
    return TargetNoise(np.asarray(variances, dtype=float), np.zeros((0, len(variances))))


def with_noise(exact, scales: NoiseScales, rng, *, copies=1):
    """Return statistics with rounded Gaussian noise, but exact ones of fixed columns."""
    layout, f = exact.layout, exact.layout.n_fixed

    def noisy(values, noise):
        return values + np.rint(noise).astype(np.int64)

    outcomes = exact.outcomes.copy()
    phenotypes = symmetric_noise(layout.n_phenotypes, scales.phenotype_gram, rng)
    outcomes[f:, f:] = noisy(outcomes[f:, f:], phenotypes)
    grams = tuple(
        tuple(noisy(gram[0], symmetric_noise(len(gram[0]), sigma, rng)) for _ in range(copies))
        for gram, sigma in zip(exact.grams, scales.gram, strict=True)
    )
    column_sigmas = np.repeat([0.0, scales.phenotype_cross], [f, layout.n_phenotypes])
    crosses = tuple(
        noisy(cross, rng.standard_normal(cross.shape) * column_sigmas) for cross in exact.crosses
    )
    eigenvalue = None
    if scales.smallest_eigenvalue:
        smallest = min(np.linalg.eigvalsh(gram[0])[0] for gram in exact.grams)
        eigenvalue = round(smallest + rng.normal(0, scales.smallest_eigenvalue))
    return MemoryStatistics(layout, grams, crosses, outcomes, eigenvalue)


def inputs_for(statistics, n_samples, **changes):
    """Inputs without noise, missing values or clipping; `changes` replace fields."""
    layout = statistics.layout
    n_phenotypes = layout.n_phenotypes
    row_norm = max(1, int(max(np.abs(g[0]).max() for g in statistics.grams)))
    inputs = SolveInputs(
        bounds=PublicBounds(row_norm, None, 10**12, layout.sizes, n_samples, n_phenotypes),
        scales=no_noise(layout.n_blocks),
        recipe=Recipe(),
        delta=1e-6,
        unit=1,
        rescale=np.ones(n_phenotypes),
        prior=EffectPrior(np.full(n_phenotypes, 1.0), np.full(n_phenotypes, 1.0)),
        n_samples=n_samples,
        penalty=0.0,
    )
    return replace(inputs, **changes)


def solved(statistics, inputs, method="reuse-cov-gauss", estimator=None):
    chosen = METHODS[method]
    rule = None if estimator is None else ESTIMATORS[estimator]
    return solve_statistics(statistics, inputs, chosen, estimator_for(chosen, rule))


def ridge_weights(statistics, n_samples, penalty):
    inputs = inputs_for(statistics, n_samples, penalty=penalty)
    return solved(statistics, inputs, estimator="ridge")


def integer_cohort(n, d, n_covariates, n_phenotypes, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, (n, d))
    covariates = rng.integers(-400, 400, (n, n_covariates))
    effects = rng.normal(0, 30, (d, n_phenotypes))
    Y = (X @ effects + rng.normal(100, 300, (n, n_phenotypes))).astype(np.int64)
    Y += covariates.sum(axis=1, keepdims=True)
    return X, covariates, Y
