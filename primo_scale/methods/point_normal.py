"""Posterior mean of effects of which many are zero, from coordinates of LD blocks.

Effects beta of the variants are 0 with probability ``1 - pi`` and otherwise normal. The coordinates
of a block are ``h = M beta + noise`` (`primo_scale.methods.genetic_factors`). The posterior mean is
that of a Gibbs sampler, which draws pi and the variance of the effects as well. Its random numbers
are public: they follow from the number of the column. The sampler also gives Stein's unbiased
estimate of the loss, so that the result is used only where it is better than that of normal
effects. On private statistics all of this is post-processing: docs/maths/genetic-factors.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.interruption import check
from primo_scale.kernels.gibbs_sweep import Chain, EffectMaps, information, sweep
from primo_scale.machine import usable_cpus
from primo_scale.methods.genetic_factors import (
    Coordinates,
    EffectCovariance,
    projected,
    shown_variances,
    shrunk,
)
from primo_scale.methods.shrinkage import Float64
from primo_scale.storage.tiles import in_threads

# Sweeps before the means are taken, and those before pi and the variance are drawn.
_DISCARDED, _FIXED = 100, 5
# Sweeps over which means are taken, and the draws of effects in them: as many as take a minute.
_FEWEST_KEPT, _MOST_KEPT, _DRAWS = 200, 2_000, 300_000_000
_SWEEPS_PER_STATE = 2
_FIRST_SHARE = 0.1  # of variants with an effect
_LEAST_SHARE = 1e-5
_LEAST_GAIN = 1.0  # in standard errors
# Effects are sampled of phenotypes or factors whose variance is at least this share of the largest.
_LEAST_OF_LARGEST = 0.05
_ROUNDING = 1e-9  # of a phenotype that does not vary, without noise
# Largest factor between the variance of a factor and that of the coordinates that its eigenvector
# was computed from. Where these differ more, sampled effects would fit noise.
_MOST_OVERFITTED = 2.0


@dataclass(frozen=True, eq=False)
class Column:
    """Coordinates of one phenotype or genetic factor in all LD blocks, each of shape (m,)."""

    number: int
    exposures: Float64  # variance D of the signal for an effect variance of 1 (relative)
    sampling: Float64  # share of the noise that is due to the sampling of people
    values: Float64  # coordinates h
    noise: Float64  # variances of their noise
    scale: float  # effect variance w, relative to the prior's


def sample_effects(
    blocks: Sequence[Coordinates],
    matrices: Sequence[npt.NDArray[np.float32]],
    effects: EffectCovariance,
    phenotype_covariance: Float64,
    effect_variance: float,
) -> dict[int, Float64]:
    """Return point-normal effects of all variants, by the number of the factor that they predict.

    `matrices` are the transposed matrices M of the blocks, each of shape (d_b, m_b), and
    `effect_variance` is the mean prior variance of the effects. `blocks` and `phenotype_covariance`
    are those of `fit_effects`, and `effects` is its result.
    """
    maps = effect_maps(matrices)
    exposures = np.concatenate([block.exposures for block in blocks])
    sampling = np.concatenate([block.sampling for block in blocks])
    values = np.concatenate([effects.rotated(block.values) for block in blocks])
    errors = np.concatenate([block.errors for block in blocks])
    squares, noise = projected(blocks, phenotype_covariance, effects)
    suited = effects.scales > _LEAST_OF_LARGEST * effects.scales.max()
    suited &= squares.sum(axis=0) > _ROUNDING * noise.sum(axis=0)
    if effects.basis is not None:
        shown = shown_variances(exposures + errors, squares, noise, effects.scales)
        suited &= (shown <= _MOST_OVERFITTED * effects.scales) & (
            effects.scales <= _MOST_OVERFITTED * shown
        )
    columns = np.flatnonzero(suited).tolist()
    noise += np.outer(errors, effects.scales)
    kept = sweeps_kept(len(columns), int(maps.variants[-1]))

    def sampled(number: int) -> Float64 | None:
        column = Column(
            number, exposures, sampling, values[:, number], noise[:, number], effects.scales[number]
        )
        return point_normal_effects(maps, column, effect_variance * column.scale, kept)

    found = zip(columns, in_threads(sampled, columns, usable_cpus()), strict=True)
    return {number: each for number, each in found if each is not None}


def sweeps_kept(n_columns: int, n_variants: int) -> int:
    """Return the number of sweeps over which means are taken: as many as take a minute."""
    most = _DRAWS // max(1, n_columns * n_variants)
    return min(max(most, _FEWEST_KEPT), _MOST_KEPT)


def point_normal_effects(
    maps: EffectMaps, column: Column, effect_variance: float, kept: int
) -> Float64 | None:
    """Return the effects of all variants, or None if normal effects predict as well.

    `effect_variance` is the mean variance of the effects, and `kept` the number of sweeps over
    which means are taken.
    """
    effects, residual, spread, _ = _sampled(maps, column, effect_variance, kept)
    factors = shrunk(column.exposures, column.noise, column.scale)
    normal = ((1 - factors) * column.values) ** 2 + 2 * factors * column.noise
    gains = (normal - residual**2 - 2 * spread) / column.sampling
    return effects if gains.sum() > _LEAST_GAIN * np.linalg.norm(gains) else None


def point_normal_means(
    maps: EffectMaps, column: Column, effect_variance: float, kept: int
) -> Float64:
    """Return the posterior means of the effects of all variants; parameters as before."""
    return _sampled(maps, column, effect_variance, kept)[0]


def posterior_states(
    maps: EffectMaps, column: Column, effect_variance: float, n_states: int
) -> tuple[Float64, npt.NDArray[np.float32]]:
    """Return the posterior means of the effects, and draws of them, shape (n_states, d)."""
    kept = _SWEEPS_PER_STATE * n_states
    means, _, _, states = _sampled(maps, column, effect_variance, kept, n_states)
    return means, states


def effect_maps(matrices: Sequence[npt.NDArray[np.float32]]) -> EffectMaps:
    """Return the transposed matrices M of all blocks, each of shape (d_b, m_b), as one array."""
    return EffectMaps(
        entries=np.concatenate([matrix.ravel() for matrix in matrices]),
        starts=np.cumsum([0, *(matrix.size for matrix in matrices[:-1])]),
        variants=np.cumsum([0, *(len(matrix) for matrix in matrices)]),
        coordinates=np.cumsum([0, *(matrix.shape[1] for matrix in matrices)]),
    )


def _sampled(
    maps: EffectMaps, column: Column, effect_variance: float, kept: int, n_states: int = 0
) -> tuple[Float64, Float64, Float64, npt.NDArray[np.float32]]:
    """Return the posterior means of the effects, and of ``h - M beta`` with its variance.

    The last result has so many states of the chain, evenly spaced.
    """
    rng = np.random.Generator(np.random.SFC64(column.number))
    precisions, n_variants = 1 / column.noise, int(maps.variants[-1])
    informations = information(maps, precisions)
    chain = Chain(column.values * precisions, *np.zeros((2, n_variants)))
    share, start = _FIRST_SHARE, effect_variance / _FIRST_SHARE
    variance = start
    total, squares = np.zeros((2, len(precisions)))
    states = np.empty((n_states, n_variants), dtype=np.float32)
    draws = np.empty((2, n_variants))
    for number in range(_DISCARDED + kept):
        check()
        rng.random(out=draws[0])
        rng.standard_normal(out=draws[1])
        sweep(maps, precisions, informations, chain, draws, (share, variance))
        if number >= _FIXED:
            count = np.count_nonzero(chain.effects)
            share = float(np.clip(rng.beta(1 + count, 1 + n_variants - count), _LEAST_SHARE, 0.999))
            squared = float((chain.effects**2).sum())  # BLAS would share it among its threads
            variance = (start + squared) / float(rng.chisquare(1 + count))
        if number == _DISCARDED - 1:
            chain.means[:] = 0
        if number >= _DISCARDED:
            residual = chain.residual * column.noise
            total += residual
            squares += residual**2
            if n_states and (number - _DISCARDED) % (kept // n_states) == 0:
                states[(number - _DISCARDED) // (kept // n_states)] = chain.effects
    mean = total / kept
    return chain.means / kept, mean, np.maximum(squares / kept - mean**2, 0.0), states
