"""Second round of X'Y: directions of each phenotype's own, and the weights of both rounds.

The first round leaves a posterior of the effects, which is public. In windows of each LD block, the
eigenvectors of the posterior covariance of what a window explains are the directions that are worth
a second measurement. Each phenotype has its own, with the energies that water-filling gives them::

    G_t = sum over people of y_k z_t,    z_t = v_t'x,    k the phenotype of direction t

The codes x have the covariance Sigma: what X'X of the first round says of the components, and what
the panel says of the rest inside every window. For effects beta, ``G_t = v_t' Sigma beta`` with the
same sampling of people as X'Y, and noise of its own. Weights are the posterior mean for both rounds
together. On private statistics all of this is post-processing (docs/maths/rounds.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.kernels.gibbs_sweep import EffectMaps
from primo_scale.kernels.products import LinearMap
from primo_scale.machine import in_threads, usable_cpus
from primo_scale.methods import effects, solve
from primo_scale.methods.effects import Column, Coordinates, EffectPrior
from primo_scale.methods.linear_algebra import Adjustment, Float64, TargetNoise, map_blocks
from primo_scale.panel import components
from primo_scale.privacy.planning import fill

LARGEST_WINDOW = 100
"""Variants of a window, at most: a direction costs as many multiplications for every person."""
_STATES, _SWEEPS_PER_STATE = 180, 2  # draws of the effects from the posterior of the first round
_OF_DRAWS = 0.8  # share of their covariance; the rest takes the effects as independent
_LEAST_VARIANCE = 1e-3  # of a direction that the panel knows, relative to the window's largest
_LEAST_LEFT = 0.3  # share of a phenotype's variance that scores leave, whatever they explain
_LEAST_SCALE = 0.01  # of the only direction of a window that has none worth its noise
_NO_SCORE = 1e-12  # weight in place of 0 where all are, because a map has no row of zeros
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class FirstRound:
    """One LD block after the first round, and what the panel knows beside its components."""

    block: solve.Block  # m components of d_b codes, and X'Y of l phenotypes
    # Covariance of a window's w codes that the components do not have, by the panel, times the
    # number of people, shape (w, w). It is 0 between windows.
    rest: list[Float64]
    windows: tuple[int, ...]  # boundaries among the codes: 0, ..., d_b

    def covariances(self, columns: Float64) -> Float64:
        """Return ``Sigma v`` for codes' directions v in columns, shape (d_b, k)."""
        back = self.block.back
        # Without the floor of its eigenvalues, which would count as covariance of the codes.
        gram = self.block.blend.gram
        found = np.asarray(back @ (gram @ (back.T @ columns)))
        for (start, stop), rest in zip(pairwise(self.windows), self.rest, strict=True):
            found[start:stop] += rest @ columns[start:stop]
        return found


@dataclass(frozen=True, eq=False)
class Phenotype:
    """What the solution assumes of one phenotype, in lattice units, and what was measured of it."""

    number: int
    effect: float  # prior variance of the effect of a code
    residual: float  # variance of a clipped phenotype
    variance: float  # of the phenotype by the noisy statistics, relative to `residual`
    # Directions v of the codes of every block, shape (d_b, k), and the second round's G in them, in
    # the scale of the first round's X'Y, shape (k,); empty in the first round.
    second: tuple[tuple[Float64, Float64], ...] = ()
    noise: float = 0.0  # variance of the noise of the release in these G
    left: float = 1.0  # variance of the residuals that they measure, relative to `residual`


def posterior_of(
    blocks: Sequence[FirstRound],
    phenotype: Phenotype,
    n_samples: float,
    *,
    variance: float,
    noise: float,
) -> tuple[Float64, float, list[Float64], list[Float64]]:
    """Return the posterior of one phenotype, and the directions that are worth their noise.

    The posterior has the means of the effects of the codes, attenuated as the target, shape (d,),
    and the share of the phenotype's variance that they do not explain. Each window has directions
    of unit variance in columns, (w, k), and their energies, shape (k,), which sum to 1 in total.
    `variance` is that of the phenotype, attenuated as the effects, and `noise` that of the noise in
    a direction with all of the energy, of a mean over people.
    """
    maps, column, effect = _column(blocks, phenotype)
    means, _, _, states = effects.sample(maps, column, effect, _SWEEPS_PER_STATE * _STATES, _STATES)
    found, explained, start = list[tuple[Float64, Float64]](), 0.0, 0
    for block in blocks:
        here = slice(start, start + block.windows[-1])
        found += _of_block(block, states[:, here].astype(np.float64), n_samples)
        explained += float(means[here] @ block.covariances(means[here])) / n_samples
        start = here.stop
    left = float(np.clip(1 - explained / variance, _LEAST_LEFT, 1.0))
    signal = np.maximum(np.concatenate([variances for _, variances in found]), _TINY)
    divided = fill(signal, signal, left * phenotype.residual / n_samples, left * noise)
    energies = np.split(divided, np.cumsum([len(variances) for _, variances in found])[:-1])
    vectors = [v[:, energy > 0] for (v, _), energy in zip(found, energies, strict=True)]
    return means, left, vectors, [energy[energy > 0] for energy in energies]


def windows_of(boundaries: tuple[int, ...]) -> tuple[int, ...]:
    """Return the boundaries of the windows, which divide every LD block evenly."""
    cuts = [0]
    for start, stop in pairwise(boundaries):
        number = -(-(stop - start) // LARGEST_WINDOW)
        cuts += [start + (stop - start) * part // number for part in range(1, number + 1)]
    return tuple(cuts)


def choose_directions(
    adjustment: Adjustment,
    prior: EffectPrior,
    panel: solve.PanelComponents,
    windows: Sequence[Float64],
    slopes: Float64,
    *,
    unit: float,
    noise: float,
) -> tuple[list[components.OwnWindow], int, Float64, float]:
    """Choose the directions of the second round.

    Parameters
    ----------
    windows
        Covariances of the codes in every window of `windows_of`, in the panel.
    slopes
        Attenuation of effects by clipping in the first round, shape (l,).
    unit
        Standard deviation of a phenotype.
    noise
        Variance of the noise of the second round in a direction with all of the energy, of a mean
        over people, for phenotypes whose first scores are not subtracted.

    Returns
    -------
    tuple
        Directions and scores of every window; the sum V of the variances of a phenotype's
        directions, rounded up; the share of each phenotype's variance that the scores leave; and
        the degrees of freedom of the squared norm of a phenotype's directions.
    """
    n, cuts = panel.n_samples, windows_of(panel.boundaries)
    blocks = _first_rounds(adjustment, panel, None, cuts, windows)
    phenotypes = _phenotypes(adjustment, prior, n)

    def posterior(phenotype: Phenotype) -> tuple[Float64, float, list[Float64], list[Float64]]:
        variance = float(unit * slopes[phenotype.number]) ** 2
        return posterior_of(blocks, phenotype, n, variance=variance, noise=noise)

    with threadpool_limits(1, user_api="blas"):
        found = in_threads(posterior, phenotypes, usable_cpus())
    means, left, directions, energies = zip(*found, strict=True)
    divided = list(map(np.concatenate, energies))
    norm = components.LARGEST_STANDARD_DEVIATION**2 / max(float(each.max()) for each in divided)
    chosen = []
    for number, covariance in enumerate(windows):
        variants = slice(*cuts[number : number + 2])
        vectors = [each[number] for each in directions]
        scales = [np.sqrt(norm * each[number]) for each in energies]
        if not any(map(len, scales)):  # a column that varies least, as a window has a direction
            vectors[0], scales[0] = np.eye(len(covariance), 1), np.array([_LEAST_SCALE])
        weights = np.stack([each[variants] for each in means]) / slopes[:, None]
        weights[~weights.any(axis=1)] = _NO_SCORE
        window = components.OwnWindow(
            components.component_map(np.hstack(vectors).T, np.concatenate(scales)),
            np.repeat(np.arange(len(found)), list(map(len, scales))),
            components.component_map(weights, np.ones(len(weights))),
            covariance.astype(np.float32),
        )
        chosen.append(window)
    degrees = float(np.mean([1 / (each**2).sum() for each in divided]))
    return chosen, int(np.ceil(norm)), np.array(left), degrees


def solve_two_rounds(
    adjustment: Adjustment,
    inputs: solve.SolveInputs,
    panel: solve.PanelComponents,
    directions: components.OwnDirections,
    values: Float64,
    *,
    sigma: float,
    factors: Float64,
    slopes: Float64,
    ancestry: Float64 | None,
) -> solve.Solution:
    """Return the weights by both rounds, around public scores if there are any.

    Parameters
    ----------
    values, sigma
        Noisy sums of all directions of the second round, shape (m,), and the standard deviation of
        their noise.
    factors
        Factor from these sums to the scale of the first round's X'Y, for the different effects of
        clipping, shape (l,).
    slopes
        Attenuation of effects in the first round, shape (l,).
    ancestry
        Root of what principal components explain of the codes, shape (d, k).
    """
    scores, prior = solve.fitted_scores(adjustment, inputs.prior, panel, inputs.scores)
    covariances = [directions.covariance_of(number) for number in range(len(directions.sizes))]
    blocks = _first_rounds(adjustment, panel, scores, directions.boundaries, covariances)
    phenotypes = _phenotypes(adjustment, prior, panel.n_samples)
    starts = np.searchsorted(panel.boundaries, directions.boundaries[:-1], side="right") - 1
    windows = [np.flatnonzero(starts == number).tolist() for number in range(len(blocks))]

    def measured(phenotype: Phenotype) -> Phenotype:
        """Return a phenotype with its second measurement in every block."""
        own, found = phenotype.number, list[tuple[Float64, Float64]]()
        factor = float(factors[own] * adjustment.rescale[own])
        for number, block in enumerate(blocks):
            rows = slice(*panel.boundaries[number : number + 2])
            vectors, sums, weights = [], [], np.zeros(rows.stop - rows.start)
            for window in windows[number]:
                variants = directions.variants(window)
                inside = slice(variants.start - rows.start, variants.stop - rows.start)
                owned = directions.owners_of(window) == own
                placed = np.zeros((rows.stop - rows.start, int(owned.sum())))
                every = directions.map_of(window)
                placed[inside] = LinearMap(every.matrix[owned], every.multipliers[owned]).real.T
                vectors.append(placed)
                sums.append(values[directions.rows(window)][owned])
                weights[inside] = directions.scores_of(window).real[own]
            # Subtracted before, less the public scores'.
            known = weights * slopes[own] - block.block.outside[:, own]
            directed = np.hstack(vectors)
            whole = np.concatenate(sums) * factor + directed.T @ block.covariances(known)
            found.append((directed, whole))
        if ancestry is not None:
            found = _without_ancestry(found, np.split(ancestry, panel.boundaries[1:-1]))
        noise, left = (sigma * factor) ** 2, directions.residuals[own]
        return replace(phenotype, second=tuple(found), noise=noise, left=left)

    def by_both_rounds(phenotype: Phenotype) -> Float64:
        """Return the posterior means of the effects of the codes on a phenotype by both rounds."""
        maps, column, effect = _column(blocks, measured(phenotype))
        return effects.sample(
            maps, column, effect, effects.sweeps_kept(len(phenotypes), panel.boundaries[-1])
        )[0]

    with threadpool_limits(1, user_api="blas"):
        weights = np.stack(in_threads(by_both_rounds, phenotypes, usable_cpus()), axis=1)
    layout = adjustment.statistics.layout
    explained = np.zeros((layout.n_fixed, layout.n_phenotypes))
    for number, (start, stop) in enumerate(pairwise(panel.boundaries)):
        rows, block = slice(start, stop), blocks[number].block
        weights[rows] += block.outside
        explained += block.fixed_cross.T @ block.on_columns(weights[rows])
    fixed = adjustment.fixed_inverse @ (adjustment.fixed_phenotypes - explained)
    parameters = {
        "effect_variance": float(prior.effect_variance.mean()),
        "residual_variance": float(prior.residual_variance.mean()),
        "genetic_factors": 0.0,
        "point_normal_columns": float(len(phenotypes)),
    }
    return solve.Solution(weights, fixed, parameters, scores=scores)


def _without_ancestry(
    found: Sequence[tuple[Float64, Float64]], roots: Sequence[Float64]
) -> list[tuple[Float64, Float64]]:
    """Return measurements that are orthogonal to what ancestry explains of them, as X'Y is.

    `roots` explain the codes of every block by principal components, shape (d_b, k).
    """
    seen = [vectors.T @ root for (vectors, _), root in zip(found, roots, strict=True)]
    along = np.linalg.lstsq(np.vstack(seen), np.concatenate([values for _, values in found]))[0]
    pairs = zip(found, seen, strict=True)
    return [(vectors, values - part @ along) for (vectors, values), part in pairs]


def _first_rounds(
    adjustment: Adjustment,
    panel: solve.PanelComponents,
    scores: effects.FittedScores | None,
    cuts: tuple[int, ...],
    covariances: Sequence[Float64],
) -> list[FirstRound]:
    n, layout = panel.n_samples, adjustment.statistics.layout

    def first(number: int) -> FirstRound:
        """Return one block; windows cover what its components leave of the codes."""
        block = solve.lattice_block(adjustment, panel, scores, number)
        start, stop = panel.boundaries[number : number + 2]
        windows = tuple(cut - start for cut in cuts if start <= cut <= stop)
        rest = []
        for window, (lower, upper) in enumerate(pairwise(windows), start=cuts.index(start)):
            known = block.back[lower:upper]
            rest.append(n * covariances[window] - known @ block.blend.gram @ known.T)
        return FirstRound(block, rest, windows)

    return map_blocks(first, layout.sizes)


def _phenotypes(adjustment: Adjustment, prior: EffectPrior, n_samples: float) -> list[Phenotype]:
    variances = solve.phenotype_variances(adjustment, prior, n_samples)
    variances = variances * prior.residual_variance.mean() / prior.residual_variance
    pairs = zip(prior.effect_variance, prior.residual_variance, variances, strict=True)
    return [
        Phenotype(number, float(effect), float(residual), float(variance))
        for number, (effect, residual, variance) in enumerate(pairs)
    ]


def _of_block(
    block: FirstRound, states: Float64, n_samples: float
) -> Iterator[tuple[Float64, Float64]]:
    """Yield the directions of every window, (w, k), and the posterior variances in them."""
    for start, stop in pairwise(block.windows):
        inside = slice(start, stop)
        unit = np.zeros((block.windows[-1], stop - start))
        unit[np.arange(start, stop), np.arange(stop - start)] = 1
        covariances = block.covariances(unit) / n_samples  # of the block's codes with the window's
        values, vectors = np.linalg.eigh(covariances[inside])
        known = values > _LEAST_VARIANCE * values.max(initial=_TINY)
        root = vectors[:, known] / np.sqrt(values[known])
        seen = covariances @ root  # of the codes with whitened directions of the window
        draws = states @ seen
        spread = np.cov(draws.T).reshape(draws.shape[1], -1)
        apart = (seen.T * states.var(axis=0)) @ seen
        variances, turned = np.linalg.eigh(_OF_DRAWS * spread + (1 - _OF_DRAWS) * apart)
        yield root @ turned, variances


def _column(blocks: Sequence[FirstRound], phenotype: Phenotype) -> tuple[EffectMaps, Column, float]:
    """Return the coordinates of a phenotype, and the mean variance of its effects."""
    coordinates, matrices = [], []
    for number, block in enumerate(blocks):
        seen, matrix = _coordinates(block, number, phenotype)
        coordinates.append(seen)
        matrices.append(matrix.astype(np.float32))
    variances, prior = np.array([phenotype.variance]), np.ones(1)
    found = effects.own_effects(coordinates, variances, prior)
    (column,) = effects.columns_of(coordinates, variances, found)
    maps = effects.effect_maps(matrices)
    return maps, replace(column, number=phenotype.number), phenotype.effect * column.scale


def _coordinates(
    block: FirstRound, number: int, phenotype: Phenotype
) -> tuple[Coordinates, Float64]:
    """Return the coordinates of one phenotype in a block, for both measurements stacked."""
    first = block.block
    gram = covariance = first.gram  # of the columns
    responses = first.back @ gram  # of X'Y to effects of codes
    target, errors = first.target[:, phenotype.number], first.gram_errors
    noise = np.full(len(target), first.noise.variances[phenotype.number])
    if phenotype.second and len(phenotype.second[number][1]):
        vectors, values = phenotype.second[number]
        of_second = block.covariances(vectors)
        seen = first.back.T @ vectors  # by the components
        between = gram @ seen
        within = seen.T @ between
        # What the directions have beside the components counts as independent between them, so that
        # the covariance stays positive definite.
        beside = (vectors * of_second).sum(axis=0) - within.diagonal()
        within[np.diag_indices_from(within)] += np.maximum(beside, 0)
        left = phenotype.left
        covariance = np.block([[gram, left * between], [left * between.T, left * within]])
        responses = np.hstack([responses, of_second])
        target = np.concatenate([target, values])
        errors = np.concatenate([errors, errors @ seen**2])
        noise = np.concatenate([noise, np.full(len(values), phenotype.noise)])
    return solve.whitened(
        covariance,
        responses,
        target[:, None],
        noise,
        errors,
        phenotype.effect,
        phenotype.residual,
        TargetNoise.of(np.ones(1)),
    )
