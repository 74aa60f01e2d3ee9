"""Weights of every phenotype from statistics of LD blocks, for known noise.

The columns of X are components ``x~ = T x`` of the codes x of each LD block; without LD components
T is the identity, and the columns are the variants. An effect of variance t on every code is, on
component i, an effect of variance ``L_i = t / ||T_i||^2``, because the rows of T are orthogonal.
For residual variance v and noise of variance s^2 in X'Y, the best linear prediction of the effects
is ::

    W = L S (S L S + Delta + v S + s^2 I)^-1 G,    weights of the codes T'W

S and G are adjusted for the fixed columns C (`methods.linear_algebra`), and S is blended with what
is expected of it, by their precisions: LD components are uncorrelated in the panel's population,
with known variances, and variants have correlations whose mean square is that of the noisy S
without its noise. The diagonal matrix Delta has the variances that errors of S add to G. The
eigenvalues of S are then raised to a share of the noise norm, but not for what public scores
predict (`primo_scale.methods.effects`).

In coordinates ``h = Q'G`` signal and noise are uncorrelated, for variants exactly and for
components with an average phenotype's variances, so that each coordinate is shrunk by itself. There
are up to three passes over the LD blocks: for the slopes of public scores, for estimators that fit
the effects (`primo_scale.methods.effects`), and for the weights. The weights of C are ::

    B = (C'C)^-1 (C'Y - sum over blocks of C'X W)

On private statistics all of this is post-processing: docs/maths/weights.md (Theorems 3
and 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np
import numpy.typing as npt
import scipy

from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.methods import linear_algebra
from primo_scale.methods.catalogue import Estimator, Method, load
from primo_scale.methods.effects import (
    Coordinates,
    EffectCovariance,
    EffectPrior,
    FittedScores,
    PublicScores,
    ScoreSums,
    fit_effects,
    fit_scores,
    kept_share,
    noise_of,
    own_effects,
    sample_effects,
)
from primo_scale.methods.linear_algebra import Adjustment, Float64, TargetNoise, map_blocks
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.privacy import mechanism, planning
from primo_scale.storage.block_matrices import BlockMatrices

# Smallest eigenvalue relative to the largest, so that X'X without noise can be inverted.
_LEAST_EIGENVALUE = 1e-9
# Smallest eigenvalue of the phenotypes' covariance, of which noise would leave negative ones.
_LEAST_OF_PHENOTYPES = 0.1
# Factor by which the variance of a phenotype may differ from that of its public bounds.
_OTHER_VARIANCE = 2.0
_TINY = float(np.finfo(np.float64).tiny)
Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PanelComponents:
    """LD components that were summed over, and what is expected of them."""

    # Function from the number of an LD block to its real map T, shape (m_b, d_b).
    map_of: Callable[[int], Float64]
    variances: Float64  # expected square of each component, in squared lattice units, shape (m,)
    squared_norms: Float64  # of the rows of T, shape (m,)
    n_known: float  # size of a sample whose covariances are as precise as those known of components
    n_samples: float  # number of people of the cohort, noisy where it is private
    boundaries: tuple[int, ...]  # boundaries of the LD blocks among the variants: 0, ..., d


@dataclass(frozen=True)
class SolveInputs:
    """Parameters of a solution besides the statistics; public except the counts in `rescale`."""

    # Bounds on the rows, and the number of people: nominal where the true number is private.
    bounds: mechanism.PublicBounds
    # Standard deviations of the noise in the statistics; `no_noise` for exact statistics.
    scales: mechanism.NoiseScales
    recipe: mechanism.Recipe  # description of the noisy measurements
    delta: float  # of the promise
    unit: int  # lattice steps per unit of the genotype coding
    rescale: Float64  # noisy factor on each phenotype that corrects for missing values, shape (l,)
    prior: EffectPrior
    n_samples: float  # number of people, noisy where it is private
    penalty: float  # of the estimator ``ridge``, in squared lattice units
    components: PanelComponents | None = None  # that take the place of the variants, or None
    scores: PublicScores | None = None  # prior mean of the effects; None stands for 0
    # Root of what the principal components explain of X'X, shape (d, k), or None.
    ancestry: Float64 | None = None


@dataclass(frozen=True)
class Solution:
    """Weights and a description of how they were computed; public if the statistics are private."""

    genotypes: Float64  # weights W of the coded variants, shape (d, l)
    # Weights B of the coded fixed columns: the constant and the covariates, shape (1 + c, l).
    fixed: Float64
    parameters: dict[str, float]  # parameters of the estimator, by name
    # Ridge penalty of every copy of X'X in every block, in squared lattice units; empty if the
    # estimator is not a ridge.
    penalties: tuple[float, ...] = ()
    scores: FittedScores | None = None  # slopes of the public scores, if there are any
    n_limited: int = 0  # number of phenotypes whose estimated effect variance was too large


def solve_statistics(
    statistics: BlockMatrices, inputs: SolveInputs, method: Method, estimator: Estimator
) -> Solution:
    """Solve every phenotype with the estimator that `catalogue.estimator_for` returns.

    The statistics are private, or exact for a release stamped NOT PRIVATE.
    """
    solver = load(method.solver or estimator.solver)
    solution: Solution = solver(adjusted(statistics, inputs), inputs, estimator)
    return solution


def adjusted(statistics: BlockMatrices, inputs: SolveInputs) -> Adjustment:
    """Return the statistics, adjusted for the fixed columns."""
    subsample = inputs.recipe.subsample
    factor = 1.0 if subsample is None else inputs.bounds.n_samples / subsample
    return linear_algebra.adjust(
        statistics, inputs.scales, inputs.rescale, gram_factor=factor, ancestry=inputs.ancestry
    )


def solve(adjustment: Adjustment, inputs: SolveInputs, estimator: Estimator) -> Solution:
    """Return the posterior mean of the effects, around public scores if there are any."""
    layout, panel = adjustment.statistics.layout, inputs.components
    scores, prior = fitted_scores(adjustment, inputs.prior, panel, inputs.scores)
    mean, residual = float(prior.effect_variance.mean()), float(prior.residual_variance.mean())
    block_of = partial(lattice_block, adjustment, panel, scores)

    def decomposed(number: int) -> tuple[Block, Coordinates, Coordinates, Float64]:
        block = block_of(number)
        return block, *coordinates_of(block, mean, residual)

    if layout.n_blocks == 1:  # decomposed once for all passes
        decomposed = cache(decomposed)
    boundaries = layout.boundaries if panel is None else panel.boundaries
    covariance, relative = prior.residual_variance / residual, prior.effect_variance / mean
    effects, sampled = EffectCovariance(relative), dict[int, Float64]()
    if estimator.fits_variances:
        measured = phenotype_covariance if estimator.fits_factors else phenotype_variances
        covariance = measured(adjustment, prior, inputs.n_samples)
        sampling = estimator.samples_effects_of(boundaries[-1], len(covariance))

        def visible(number: int) -> tuple[Coordinates, Coordinates, Float32]:
            """Return the coordinates of a block, for the sampler and the fit, and the matrix M'."""
            _, coordinates, shown, matrix = decomposed(number)
            if not sampling:
                matrix = matrix[:0, :0]
            return coordinates, shown, matrix.astype(np.float32)

        coordinates, shown, maps = zip(*map_blocks(visible, layout.sizes), strict=True)
        fit = fit_effects if estimator.fits_factors else own_effects
        effects = fit(shown, covariance, relative)
        if sampling:
            sampled = sample_effects(coordinates, maps, effects, covariance, mean)
        del coordinates, shown, maps
    weights = np.empty((boundaries[-1], layout.n_phenotypes))
    start = np.zeros((layout.n_fixed, layout.n_phenotypes))

    def solve_block(number: int) -> Float64:
        """Set the weights of a block, and return what its columns explain of C'Y."""
        block, seen, _, matrix = decomposed(number)
        rows = slice(*boundaries[number : number + 2])
        variances = noise_of(seen, covariance, effects)
        variances += (seen.exposures + seen.errors)[:, None] * effects.scales
        # Exposures, and therefore the means, are relative to the prior's mean variance.
        found = matrix @ (effects.scales * effects.rotated(seen.values) / variances) * mean
        for factor, values in sampled.items():
            found[:, factor] = values[rows]
        weights[rows] = block.outside + effects.back(found)
        return np.asarray(block.fixed_cross.T @ block.on_columns(weights[rows]))

    explained = sum(map_blocks(solve_block, layout.sizes), start)
    fixed = adjustment.fixed_inverse @ (adjustment.fixed_phenotypes - explained)
    variances = effects.variances(covariance) * residual
    parameters = {
        "effect_variance": float(effects.scales.mean()) * mean,
        "residual_variance": float(variances.mean()),
    }
    if estimator.fits_factors:
        parameters["genetic_factors"] = effects.n_factors
        parameters["point_normal_columns"] = float(len(sampled))
    return Solution(weights, fixed, parameters, scores=scores, n_limited=effects.n_limited)


# ---- LD blocks -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Blend:
    """Posterior mean of X'X of one LD block, given the noisy one and what a panel expects."""

    gram: Float64  # shape (m, m)
    # Weights of the noisy entries, whose noise has this share left, shape (m, m); or one weight of
    # all entries, shape (1, 1).
    kept: Float64
    expected: Float64  # expected diagonal, shape (m,)
    sigma: float  # standard deviation of the noise on the diagonal of the noisy X'X

    def variance_of(self, effects: Float64) -> Float64:
        """Return the variance of ``b'S b`` for each column b, shape (k,)."""
        squares = effects**2
        return np.asarray(self.sigma**2 * (squares * self._summed(squares)).sum(axis=0))

    def product_variances(self, squares: Float64) -> Float64:
        """Return the variances of the entries of ``S b``, shape (m, k).

        `squares` are those of the effects b in columns, or their means if b is random.
        """
        shares = self._summed(squares) + self.kept.diagonal()[:, None] * squares
        return np.asarray(self.sigma**2 / 2 * shares)

    def mean_covariance(self, effects: Float64) -> Float64:
        """Return the covariance of the columns of ``S b``, the mean over rows, shape (k, k)."""
        means = self.kept.mean(axis=0) + self.kept.diagonal() / len(self.gram)
        return np.asarray(self.sigma**2 / 2 * (effects.T * means) @ effects)

    def _summed(self, squares: Float64) -> Float64:
        """Return the sums over columns of kept shares times squares, shape (m, k) or (1, k)."""
        every = len(self.kept) > 1
        return np.asarray(self.kept @ squares if every else self.kept * squares.sum(axis=0))

    def raised(self, values: Float64) -> Float64:
        """Return ascending eigenvalues of X'X, raised to a floor."""
        norm = linear_algebra.noise_norm(self.sigma, len(values)) * float(self.kept.mean())
        return np.maximum(
            values,
            max(linear_algebra.FLOOR_SHARE * norm, _LEAST_EIGENVALUE * max(float(values[-1]), 1.0)),
        )


def blended(noisy: Float64, sigma: float, expected: Float64, n_known: float) -> Blend:
    """Return X'X of one block, blended with its expectation.

    `sigma` is the standard deviation of the noise on the diagonal, whose expectation is `expected`,
    shape (m,). Entry (i, j) without noise has the variance ``expected[i] expected[j] / n_known``
    around its expectation, as in a sample of `n_known` people.
    """
    noise = np.full_like(noisy, sigma**2 / 2)
    np.fill_diagonal(noise, sigma**2)
    kept = np.outer(expected, expected) / n_known
    kept /= kept + noise
    gram = kept * noisy
    gram[np.diag_indices_from(gram)] += (1 - kept.diagonal()) * expected
    return Blend(gram, kept, expected, sigma)


@dataclass(frozen=True, eq=False)
class Block:
    """One LD block of m columns and d_b codes, and the prior mean of its effects."""

    real: Float64 | None  # map T, shape (m, d_b); None for variants, whose map is the identity
    squared_norms: Float64  # of the rows of T, shape (m,)
    blend: Blend  # X'X
    cross: Float64  # adjusted X'Y, shape (m, l)
    noise: TargetNoise  # in a row of X'Y, without what the prior mean explains
    fixed_cross: Float64  # denoised X'C, shape (m, f)
    outside: Float64  # prior mean of the effects of codes, shape (d_b, l)

    @cached_property
    def target(self) -> Float64:
        """Adjusted X'Y, without what the prior mean explains, shape (m, l)."""
        if not self.outside.any():
            return self.cross
        return self.cross - self.blend.gram @ self.on_columns(self.outside)

    @cached_property
    def gram(self) -> Float64:
        """X'X with eigenvalues above the floor, shape (m, m)."""
        values, vectors = np.linalg.eigh(self.blend.gram)
        return np.asarray((vectors * self.blend.raised(values)) @ vectors.T)

    @cached_property
    def gram_errors(self) -> Float64:
        """Variances that errors of X'X add to the target, for effect variance 1, shape (m,)."""
        return self.blend.product_variances(1 / self.squared_norms[:, None])[:, 0]

    @cached_property
    def back(self) -> Float64:
        """Pseudoinverse of T, because its rows are orthogonal, shape (d_b, m)."""
        if self.real is None:
            return np.eye(len(self.squared_norms))
        return np.asarray(self.real.T / self.squared_norms)

    def on_columns(self, effects: Float64) -> Float64:
        """Return the effects on columns, shape (m, k), of effects on codes, shape (d_b, k)."""
        return effects if self.real is None else self.back.T @ effects


def lattice_block(
    adjustment: Adjustment, panel: PanelComponents | None, scores: FittedScores | None, number: int
) -> Block:
    """Return an LD block, around the public scores if there are any."""
    layout = adjustment.statistics.layout
    columns, (fixed_cross, target, noise) = layout.variants(number), adjustment.block(number)
    noisy, _ = adjustment.gram(fixed_cross, number)
    sigma = adjustment.gram_sigma(number)
    if panel is None:
        level = np.full(len(noisy), noisy.trace() / len(noisy))
        rows, real, squared_norms = columns, None, np.ones(len(noisy))
        blend = Blend(noisy, np.ones((1, 1)), level, sigma)
    else:
        rows = slice(*panel.boundaries[number : number + 2])
        real, squared_norms = panel.map_of(number), panel.squared_norms[columns]
        blend = blended(noisy, sigma, panel.n_samples * panel.variances[columns], panel.n_known)
    outside = np.zeros((rows.stop - rows.start, layout.n_phenotypes))
    block = Block(real, squared_norms, blend, target, noise, fixed_cross, outside)
    if scores is None:
        return block
    effects = scores.scores.effects[rows]
    errors = blend.mean_covariance(block.on_columns(effects))
    noise = noise.with_errors(errors, scores.slopes)
    return replace(block, noise=noise, outside=effects @ scores.slopes)


# ---- Coordinates ---------------------------------------------------------------------------------


def coordinates_of(
    block: Block, effect: float, residual: float
) -> tuple[Coordinates, Coordinates, Float64]:
    """Return the coordinates ``h = Q'G`` of a block, for effects of variance `effect` on codes.

    They come twice, the second time with the exposures that fits of the effects expect, and before
    M', shape (d_b, m), where M are the coordinates by effects of codes. `residual` is the variance
    of a phenotype. Coordinates of variants are along the eigenvectors of X'X. Its eigenvalues
    contain the noise of X'X, so that fits expect what is left of them without it, with the sum that
    the unbiased ``tr S^2`` has.
    """
    release = float(block.noise.variances.mean())
    relative = block.noise.relative_to(release or 1.0)  # without noise it has no part
    if block.real is not None:
        noise = np.full(len(block.cross), release)
        sums = block.gram, block.back @ block.gram, block.target, noise, block.gram_errors
        whole, matrix = whitened(*sums, effect, residual, relative)
        return whole, whole, matrix
    size, sigma = len(block.cross), block.blend.sigma
    # In a third of the memory of numpy.linalg.eigh, and the same time.
    noisy, vectors = scipy.linalg.eigh(block.blend.gram, check_finite=False)
    expected = expected_eigenvalues(noisy, sigma)
    target = vectors.T @ block.cross
    if block.outside.any():
        target -= expected[:, None] * (vectors.T @ block.outside)
    squares = float(noisy @ noisy) - size * (size + 1) / 2 * sigma**2  # tr S^2
    found = float(expected @ expected)
    factor = max(squares, float(noisy.sum()) ** 2 / size) / found if found > _TINY else 1.0

    def along(values: Float64, signal: Float64) -> Coordinates:
        """Return coordinates for eigenvalues of X'X, to which sampling noise is proportional."""
        variances = residual * values + release
        return Coordinates(
            exposures=np.maximum(effect * signal / variances, _TINY),
            sampling=np.clip(residual * values / variances, _TINY, 1),
            errors=np.zeros(size),
            values=target / np.sqrt(variances)[:, None],
            release_noise=relative,
        )

    values = block.blend.raised(noisy)
    vectors *= values / np.sqrt(residual * values + release)
    left = np.maximum(expected, _LEAST_EIGENVALUE * values[-1])
    return along(values, values**2), along(left, factor * expected**2), vectors


def expected_eigenvalues(noisy: Float64, sigma: float) -> Float64:
    """Return the expected ``v'S v`` of the true S for the eigenvectors v of the noisy one.

    Eigenvalues beyond the edge e of the noise become ``sqrt(lambda^2 - e^2)``. All others become
    the mean that is left of the trace, because their eigenvectors are those of noise. Without
    noise, eigenvalues stay as they are.
    """
    signal = np.sqrt(np.maximum(noisy**2 - 2 * len(noisy) * sigma**2, 0))
    return np.asarray(np.maximum(signal, noisy.mean() - signal.mean()))


def whitened(
    covariance: Float64,
    responses: Float64,
    target: Float64,
    noise: Float64,
    errors: Float64,
    effect: float,
    residual: float,
    release_noise: TargetNoise,
) -> tuple[Coordinates, Float64]:
    """Return coordinates of a target of m numbers, uncorrelated in signal and noise, and M'.

    Parameters
    ----------
    covariance
        Covariance of the measured columns: people add the covariance ``residual * covariance``.
    responses
        Responses of the target to effects of codes, shape (d_b, m).
    target
        Shape (m, l).
    noise
        Variances of the release's noise in the target, shape (m,).
    errors
        Variances that errors of X'X add for an effect variance of 1, shape (m,).
    effect, residual
        Variances of the effects and of a phenotype.
    release_noise
        Relative covariance of the release's noise.
    """
    total = residual * covariance
    total[np.diag_indices_from(total)] += noise + effect * errors
    root = np.linalg.inv(np.linalg.cholesky(total))
    seen = responses @ root.T
    exposures, vectors = np.linalg.eigh(effect * (seen.T @ seen))
    basis = root.T @ vectors
    coordinates = Coordinates(
        exposures=np.maximum(exposures, _TINY),
        sampling=np.clip(residual * (basis * (covariance @ basis)).sum(axis=0), _TINY, 1),
        errors=effect * (errors @ basis**2),
        values=basis.T @ target,
        release_noise=release_noise,
    )
    return coordinates, seen @ vectors


# ---- Variances and scores ------------------------------------------------------------------------


def phenotype_variances(adjustment: Adjustment, prior: EffectPrior, n_samples: float) -> Float64:
    """Return the variances of the clipped phenotypes, relative to the prior's mean, shape (l,).

    They are within a factor 2 of the prior's.
    """
    expected = prior.residual_variance
    measured = adjustment.residual_squares() / n_samples
    limits = expected / _OTHER_VARIANCE, expected * _OTHER_VARIANCE
    return np.asarray(np.clip(measured, *limits) / expected.mean())


def phenotype_covariance(adjustment: Adjustment, prior: EffectPrior, n_samples: float) -> Float64:
    """Return the covariance that belongs to `phenotype_variances`, shape (l, l).

    The noise of the release is shrunk from the covariances, and eigenvalues are raised to a tenth
    of the mean.
    """
    f, rescale = adjustment.statistics.layout.n_fixed, adjustment.rescale
    gram = adjustment.statistics.outcome_gram()[f:, f:] * np.outer(rescale, rescale)
    gram -= adjustment.fixed_phenotypes.T @ adjustment.fixed_coefficients
    sigma = adjustment.scales.phenotype_gram * float(rescale.mean()) ** 2
    gram *= kept_share(gram, sigma) / (n_samples * prior.residual_variance.mean())
    np.fill_diagonal(gram, phenotype_variances(adjustment, prior, n_samples))
    values, vectors = scipy.linalg.eigh(gram, check_finite=False)
    return np.asarray((vectors * np.maximum(values, _LEAST_OF_PHENOTYPES)) @ vectors.T)


def fitted_scores(
    adjustment: Adjustment,
    prior: EffectPrior,
    panel: PanelComponents | None,
    public: PublicScores | None,
) -> tuple[FittedScores | None, EffectPrior]:
    """Return the slopes of public scores, if there are any, and the prior of what they leave."""
    if public is None:
        return None, prior
    layout, residual = adjustment.statistics.layout, float(prior.residual_variance.mean())
    boundaries = layout.boundaries if panel is None else panel.boundaries

    def sums(number: int) -> ScoreSums:
        """Return the sums of one LD block, whose columns count by `counts`."""
        block = lattice_block(adjustment, panel, None, number)
        effects = block.on_columns(public.effects[slice(*boundaries[number : number + 2])])
        blend, release = block.blend, block.noise.variances
        expected = np.maximum(blend.expected, 0)  # noise can make a trace negative
        responses, sampled = blend.gram @ effects, residual * expected
        counts = sampled / (sampled + release.mean())
        weighted, counted = effects * np.sqrt(counts)[:, None], effects * counts[:, None]
        return ScoreSums(
            gram=weighted.T @ blend.gram @ weighted,
            gram_variance=blend.variance_of(weighted),
            even_gram=weighted.T @ (expected[:, None] * weighted),
            sampling=counted.T @ blend.gram @ counted,
            products=counted.T @ counted,
            cross=counted.T @ block.cross,
            noise=len(counts) * release,
            trace=float(blend.gram.trace()),
            response_gram=responses.T @ responses,
            response_trace=float(  # tr(S L S) / t
                np.einsum("ij,ij,j->", blend.gram, blend.gram, 1 / block.squared_norms)
            ),
        )

    scores = fit_scores(map_blocks(sums, layout.sizes), public, prior, layout.n_variants)
    return scores, replace(prior, effect_variance=prior.effect_variance * scores.left)


PRIVATE_DIGITS = 3
"""Significant digits of the weights of a private release (docs/report.md, "Digits of weights").

From a person's score of few variants by weights of more digits, genotypes can be computed."""
_ROWS = 1024  # rounded at a time


def to_dosage_scale(
    weights: tuple[Float64, Float64],
    genotypes: GenotypeCoding,
    outcomes: OutcomeCoding,
    response: planning.ClipResponse,
    *,
    digits: int | None = None,
) -> tuple[Float64, Float64, Float64]:
    """Undo the public coding (docs/maths/planning.md, "Mixed scales").

    Return the change of each phenotype per additional copy of allele 1, shape (d, l), the predicted
    phenotype at zero dosages and zero covariates, shape (l,), and its change per unit of each
    covariate, shape (c, l). `weights` are those of `Solution`, of genotypes and fixed columns. The
    weights of alleles get `digits` significant digits, or all, and the intercept follows from these
    weights.

    With ``y = mean + (sd/s_y) [kappa B_0 + sum_c B_c s_c (x_c - centre_c) +
    sum_j W_j (k_j g_j - m_j)]``, each weight is a public multiple of a lattice weight. The known
    slope and offset that row clipping gives each phenotype are inverted, and the effects by which
    phenotypes were adjusted are added.
    """
    unit, (of_codes, fixed) = phenotype_unit(outcomes, response), weights
    scale = np.array([c.scale for c in outcomes.covariates], dtype=np.float64)
    centre = np.array([c.centre for c in outcomes.covariates], dtype=np.float64)
    covariates = fixed[1:] * scale[:, None]
    per_allele = genotypes.multiplier.astype(np.float64)[:, None] * of_codes * unit
    if digits is not None:
        round_in_place(per_allele, digits)
    at_centre = outcomes.constant * fixed[0] - centre @ covariates - outcomes.unit * response.offset
    intercept = outcomes.means - centre @ outcomes.covariate_weights + at_centre * unit
    intercept -= genotypes.centre_dosage @ per_allele
    return per_allele, intercept, outcomes.covariate_weights + covariates * unit


def round_in_place(values: Float64, digits: int) -> None:
    """Round finite values, shape (d, l), to significant decimal digits; below 1e-300, to 0."""
    for start in range(0, len(values), _ROWS):
        rows = values[start : start + _ROWS]
        with np.errstate(divide="ignore"):  # of 0
            exponent = np.maximum(np.floor(np.log10(np.abs(rows))), -300.0)
        power = 10.0 ** (digits - 1 - exponent)
        rows[:] = np.round(rows * power) / power


def marginal_effects(
    statistics: BlockMatrices, inputs: SolveInputs, variances: Float64
) -> tuple[Float64, Float64]:
    """Return the effect of every variant on every phenotype in lattice units, and its error.

    The score of a variant is the adjusted X'Y, divided by n times the public variance of the coded
    variant in `variances`, shape (d,). Effects are attenuated by clipping. The standard error
    counts the sampling of the clipped, zero-filled phenotype and the noise of the release: on
    private statistics all of this is post-processing (docs/maths/summary-statistics.md).
    """
    adjustment = linear_algebra.adjust(statistics, inputs.scales, inputs.rescale, gram_factor=1.0)
    blocks = map(adjustment.block, range(statistics.layout.n_blocks))
    scores = np.concatenate([target for _, target, _ in blocks])
    sampling = np.outer(variances, adjustment.residual_squares())
    errors = np.sqrt(sampling + (inputs.scales.phenotype_cross * inputs.rescale) ** 2)
    people = (inputs.n_samples * variances)[:, None]
    return scores / people, errors / people


def effects_per_allele(
    effects: tuple[Float64, Float64],
    genotypes: GenotypeCoding,
    outcomes: OutcomeCoding,
    response: planning.ClipResponse,
) -> tuple[Float64, Float64]:
    """Return marginal effects per copy of allele 1 in phenotype units; overwrites `effects`."""
    for values in effects:
        values *= genotypes.multiplier.astype(np.float64)[:, None]
        values *= phenotype_unit(outcomes, response)
    return effects


def phenotype_unit(outcomes: OutcomeCoding, response: planning.ClipResponse) -> Float64:
    """Return the phenotype units of one lattice step before clipping, shape (l,)."""
    return np.array([p.sd for p in outcomes.phenotypes]) / (outcomes.unit * response.slope)
