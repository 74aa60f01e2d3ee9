"""Weights from statistics of variants and of LD components, by the estimators of the default."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from support.methods_examples import (
    MemoryStatistics,
    inputs_for,
    integer_cohort,
    solved,
    statistics_of,
    symmetric_noise,
    with_noise,
)

from primo_scale.methods import solve as module
from primo_scale.methods.effects import EffectCovariance, EffectPrior, PublicScores
from primo_scale.methods.linear_algebra import Adjustment, TargetNoise, adjust
from primo_scale.methods.solve import PanelComponents, blended, expected_eigenvalues
from primo_scale.privacy.mechanism import NoiseScales
from primo_scale.storage.block_matrices import BlockLayout

PRIORS = "known-noise"  # the estimator with the effect variances of the prior


def cohort(n=400, d=12, l=3):  # noqa: E741
    X, covariates, Y = integer_cohort(n, d, 1, l, seed=5)
    fixed = np.hstack([np.full((n, 1), 100), covariates])
    return X, fixed, Y


def components_of(statistics, maps, n_samples, n_known=10**9):
    """Components with the given maps of each block; their expectations are the exact diagonals."""
    diagonals = [gram[0].diagonal() / n_samples for gram in statistics.grams]
    boundaries = (0, *np.cumsum([m.shape[1] for m in maps]).tolist())
    return PanelComponents(
        map_of=lambda block: maps[block],
        variances=np.concatenate(diagonals),
        squared_norms=np.concatenate([(m**2).sum(axis=1) for m in maps]),
        n_known=n_known,
        n_samples=n_samples,
        boundaries=boundaries,
    )


def scales_for(statistics, gram, cross):
    blocks = statistics.layout.n_blocks
    return NoiseScales((gram,) * blocks, cross, 0.0, 0.0)


def inputs_on(exact, *, n=400, maps=None, sigma=40.0, effect=50.0, residual=9e4, **changes):
    n_phenotypes = exact.layout.n_phenotypes
    maps = maps or [np.eye(size) for size in exact.layout.sizes]
    given = {
        "scales": scales_for(exact, 0.0, sigma),
        "prior": EffectPrior(np.full(n_phenotypes, effect), np.full(n_phenotypes, residual)),
        "components": components_of(exact, maps, n),
    }
    return inputs_for(exact, n, **given | changes)


def test_weights_are_the_posterior_mean_of_a_normal_model():
    """Gaussian conditioning on the noisy sums, in the space of the variants."""
    rng = np.random.default_rng(2)
    n, d, m, effect, residual, sigma = 300, 6, 4, 0.7, 30.0, 25.0
    X = rng.integers(-3, 4, (n, d)) @ np.array(np.triu(np.ones((d, d))), dtype=int)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    T = np.diag([3.0, 2.0, 1.5, 0.5]) @ rotation[:, :m].T
    columns, Y = X @ T.T, rng.integers(-50, 50, (n, 2))
    fixed = np.zeros((n, 1), dtype=int)
    exact = statistics_of(columns, fixed, Y)
    target = columns.T @ Y
    inputs = inputs_on(exact, n=n, maps=[T], sigma=sigma, effect=effect, residual=residual)
    found = solved(exact, inputs, estimator=PRIORS).genotypes
    # Effects on the span of the components are ``T' gamma`` with Var(gamma_i) = t / ||T_i||^2.
    gram = columns.T @ columns
    prior_covariance = np.diag(effect / (T**2).sum(axis=1))
    covariance = gram @ prior_covariance @ gram + residual * gram + sigma**2 * np.eye(m)
    gamma = prior_covariance @ gram @ np.linalg.inv(covariance) @ target
    np.testing.assert_allclose(found, T.T @ gamma, rtol=1e-8)


def test_without_noise_normal_effects_give_the_ridge_even_of_equal_variants(monkeypatch):
    """Of scikit-learn, with the penalty v/t, where X'X has no inverse."""
    X, fixed, Y = cohort()
    X[:, 3], X[:, 7], X[:, 9] = X[:, 2], X[:, 8] - X[:, 10], 0
    exact, effect, residual = statistics_of(X, fixed, Y), 50.0, 9e4
    own = EffectCovariance(np.ones(3), None)
    monkeypatch.setattr(module, "fit_effects", lambda *_: own)
    monkeypatch.setattr(module, "phenotype_covariance", lambda *_: np.eye(3))
    inputs = inputs_on(exact, sigma=0.0, effect=effect, residual=residual)
    inputs = replace(inputs, components=replace(inputs.components, variances=np.ones(12)))
    found = solved(exact, inputs, estimator="genetic-factors").genotypes
    basis = np.linalg.qr(fixed)[0]
    x, y = (each - basis @ (basis.T @ each) for each in (X, Y))
    expected = Ridge(alpha=residual / effect, fit_intercept=False).fit(x, y).coef_.T
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_without_noise_few_effects_are_found_and_equal_variants_share_theirs():
    """One block of 40 variants, of which two have effects and two are equal, and no noise."""
    rng = np.random.default_rng(7)
    X, fixed = rng.integers(-1, 2, (500, 40)), np.full((500, 1), 100)
    X[:, 5] = X[:, 4]
    Y = (X[:, [4]] * 60 + X[:, [20]] * 80 + rng.normal(0, 200, (500, 1))).astype(np.int64)
    exact = statistics_of(X, fixed, Y)
    inputs = inputs_on(exact, n=500, sigma=0.0, effect=300.0, residual=5e4)
    ridge, found = (
        solved(exact, inputs, estimator=name).genotypes for name in (PRIORS, "point-normal")
    )
    truth = np.zeros(40)
    truth[[4, 20]] = 60, 80
    errors = [((np.eye(40)[4:] @ each)[:, 0] - truth[4:]) for each in (ridge, found)]
    for error in errors:  # only the sum of the effects of equal variants is known
        error[:2] = error[:2].sum()
    assert (errors[1] ** 2).sum() < 0.5 * (errors[0] ** 2).sum()


def test_weights_of_factors_are_the_posterior_mean_of_a_covariance_across_phenotypes(monkeypatch):
    """Gaussian conditioning on all phenotypes at once, whose effects and noise are correlated."""
    X, fixed, Y = cohort()
    fixed = np.zeros_like(fixed[:, :1])
    exact = statistics_of(X, fixed, Y, boundaries=(0, 5, 12))
    basis, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))
    covariance = EffectCovariance(np.array([2.5, 0.4, 0.1]), basis)
    monkeypatch.setattr(module, "fit_effects", lambda *_: covariance)
    monkeypatch.setattr(module, "phenotype_covariance", lambda *_: np.eye(3))
    effect, residual, sigma = 50.0, 9e4, 4000.0
    noise = TargetNoise(np.full(3, sigma**2), 7000.0 * basis[:, :2].T)
    block_of = Adjustment.block
    monkeypatch.setattr(Adjustment, "block", lambda *of: (*block_of(*of)[:2], noise))
    inputs = inputs_on(exact, sigma=sigma, effect=effect, residual=residual)
    found = solved(exact, inputs, estimator="genetic-factors").genotypes
    omega = effect * (basis * covariance.scales) @ basis.T
    for part in (slice(0, 5), slice(5, 12)):
        S, G = X[:, part].T @ X[:, part], X[:, part].T @ Y
        whole = np.kron(S @ S, omega) + np.kron(residual * S, np.eye(3))
        whole += np.kron(np.eye(len(S)), noise.matrix())
        expected = np.kron(S, omega) @ np.linalg.solve(whole, G.ravel().astype(float))
        np.testing.assert_allclose(found[part], expected.reshape(-1, 3), rtol=1e-6, atol=1e-9)


def test_the_phenotypes_covariance_is_that_of_their_residuals():
    X, fixed, Y = cohort(n=4000)
    exact = statistics_of(X, fixed, Y)
    inputs = inputs_for(exact, len(X), scales=scales_for(exact, 0.0, 40.0))
    residuals = Y - fixed @ np.linalg.lstsq(fixed, Y, rcond=None)[0]
    expected = residuals.T @ residuals / len(X)
    prior = EffectPrior(np.ones(3), expected.diagonal())
    adjustment = adjust(exact, inputs.scales, inputs.rescale, gram_factor=1.0)
    found = module.phenotype_covariance(adjustment, prior, len(X))
    np.testing.assert_allclose(found, expected / expected.diagonal().mean(), rtol=1e-6)
    noisy = replace(inputs.scales, phenotype_gram=1e12)
    noise = with_noise(exact, noisy, np.random.default_rng(4))
    adjustment = adjust(noise, noisy, inputs.rescale, gram_factor=1.0)
    found = module.phenotype_covariance(adjustment, prior, len(X))
    limits = expected.diagonal() / expected.diagonal().mean()
    assert (found.diagonal() <= 2.001 * limits).all()
    assert (found.diagonal() >= 0.499 * limits).all()


@pytest.mark.slow
def test_the_variance_of_the_blend_is_that_of_the_posterior():
    """Random X'X about the panel's expectation, in the directions of two vectors."""
    rng, sigma, n_panel = np.random.default_rng(7), 200.0, 30
    diagonal, effects = np.array([4000.0, 1000.0, 300.0]), rng.standard_normal((3, 2))
    spread = np.sqrt(np.outer(diagonal, diagonal) / n_panel)
    errors, quadratic, covariance = [], [], np.zeros((2, 2))
    for _ in range(4000):
        draws = rng.standard_normal((2, 3, 3))
        deviation, noise = (np.triu(z) + np.triu(z, 1).T for z in draws)
        true = np.diag(diagonal) + spread * deviation
        noise *= np.where(np.eye(3) > 0, sigma, sigma / np.sqrt(2))
        blend = blended(true + noise, sigma, diagonal, n_panel)
        errors.append((blend.gram - true) @ effects)
        covariance += errors[-1].T @ errors[-1] / (3 * 4000)
        quadratic.append(np.diag(effects.T @ (blend.gram - true) @ effects))
    measured = np.mean(np.square(errors), axis=(0, 1))
    expected = blend.product_variances(effects**2).mean(axis=0)
    np.testing.assert_allclose(measured, expected, rtol=0.06)
    np.testing.assert_allclose(covariance, blend.mean_covariance(effects), rtol=0.06)
    measured = np.mean(np.square(quadratic), axis=0)
    np.testing.assert_allclose(measured, blend.variance_of(effects), rtol=0.06)


@pytest.mark.parametrize(
    ("estimator", "precision"), [("known-noise", 0.03), ("genetic-factors", 0.06)]
)
def test_weights_are_not_too_large_if_the_gram_is_known_badly(monkeypatch, estimator, precision):
    """A posterior mean w of effects b has ``E[b w] = E[w^2]``, whatever it is conditioned on."""
    # Weights by raised eigenvalues are no posterior mean.
    monkeypatch.setattr(module.linear_algebra, "FLOOR_SHARE", 0.0)
    rng, norms, n_panel, n, sigma = np.random.default_rng(8), np.repeat([1, 4], 6), 30, 1000, 1500.0
    diagonal, effect = n * np.linspace(1, 5, 12), 50.0
    spread = np.sqrt(np.outer(diagonal, diagonal) / n_panel)
    fixed, outcomes = np.zeros((n, 1), dtype=int), np.zeros((n, 20), dtype=int)
    empty = statistics_of(np.zeros((n, 12), dtype=int), fixed, outcomes)
    components = PanelComponents(
        lambda block: np.diag(np.sqrt(norms)), diagonal / n, norms, n_panel, n, (0, 12)
    )
    scales = scales_for(empty, sigma, 2000.0)
    given = {"n": n, "sigma": 2000.0, "effect": effect, "residual": 1.0}
    inputs = inputs_on(empty, scales=scales, components=components, **given)
    sums = np.zeros(2)
    for _ in range(100):
        true = np.diag(diagonal) + spread * symmetric_noise(12, np.sqrt(2), rng)
        effects = rng.standard_normal((12, 20)) * np.sqrt(effect)
        target = true @ (effects / np.sqrt(norms)[:, None])
        exact = replace(
            empty,
            grams=((np.rint(true).astype(int),),),
            crosses=(np.hstack([np.zeros((12, 1)), target]).astype(int),),
        )
        weights = solved(with_noise(exact, scales, rng), inputs, estimator=estimator)
        sums += (weights.genotypes * effects).sum(), (weights.genotypes**2).sum()
    assert sums[0] / sums[1] == pytest.approx(1, abs=precision)


@pytest.mark.slow
def test_slopes_of_public_scores_are_not_biased_where_eigenvalues_are_raised():
    """Effects on components of little variance, whose eigenvalues the floor raises many times."""
    rng, n, draws = np.random.default_rng(4), 4000, 60
    X = rng.integers(-2, 3, (n, 12)) * np.repeat([40, 1], 6)
    effects = rng.standard_normal((12, 1)) / np.repeat([40, 1], 6)[:, None]
    Y = np.rint(10 * X @ effects + rng.normal(0, 5, (n, 3))).astype(int)
    exact = statistics_of(X, np.zeros((n, 1), dtype=int), Y)
    sigma = 0.2 * n * 40**2
    scales = scales_for(exact, sigma, 0.0)
    components = components_of(exact, [np.eye(12)], n, n_known=50)
    given = {"scales": scales, "components": components, "scores": with_scores(effects)}
    inputs = inputs_on(exact, n=n, effect=0.1, residual=25.0, **given)
    slopes = [solved(with_noise(exact, scales, rng), inputs).scores.slopes for _ in range(draws)]
    np.testing.assert_allclose(np.mean(slopes, axis=0), 10, rtol=0.06)


def with_scores(effects):
    return PublicScores(effects, np.ones((effects.shape[1], 3), dtype=np.bool_))


def test_the_identity_gives_the_weights_of_the_variants_with_and_without_public_scores():
    """With scores, whose slopes have rules that mind noise, there is none."""
    X, fixed, Y = cohort()
    exact = statistics_of(X, fixed, Y, boundaries=(0, 5, 12))
    useful = np.linalg.lstsq(X, Y - Y.mean(axis=0), rcond=None)[0][:, :1]
    for scores, sigma, rtol in ((None, 40.0, 1e-8), (with_scores(useful), 0.0, 1e-6)):
        inputs = inputs_on(exact, scores=scores, sigma=sigma)
        expected = solved(exact, replace(inputs, components=None), estimator=PRIORS)
        found = solved(exact, inputs, estimator=PRIORS)
        np.testing.assert_allclose(found.genotypes, expected.genotypes, rtol=rtol)
        np.testing.assert_allclose(found.fixed, expected.fixed, rtol=rtol)
    np.testing.assert_allclose(found.scores.slopes, expected.scores.slopes, rtol=1e-6)
    np.testing.assert_allclose(found.scores.left, expected.scores.left, rtol=1e-6)


def test_slopes_have_the_errors_of_generalised_least_squares():
    """Components of little variance, on which effects are large, count by their precision."""
    n, sigma, residual = 400, 500.0, 25.0
    deviations = np.repeat([30, 1], 6)
    X = deviations * np.rint(np.sign(np.random.default_rng(6).standard_normal((n, 12)))).astype(int)
    exact = statistics_of(X, np.zeros((n, 1), dtype=int), np.zeros((n, 3), dtype=int))
    exact = replace(exact, grams=((np.diag(n * deviations**2),),))
    effects = 1 / deviations[:, None]
    given = {"n": n, "sigma": sigma, "effect": 0.1, "residual": residual}
    inputs = inputs_on(exact, scores=with_scores(effects), **given)
    signal = n * deviations**2 * effects[:, 0]
    precision = (signal**2 / (residual * n * deviations**2 + sigma**2)).sum()
    errors = solved(exact, inputs, estimator=PRIORS).scores.standard_errors
    np.testing.assert_allclose(errors, precision**-0.5, rtol=0.01)


def test_a_score_keeps_what_it_explains_outside_the_components():
    """A map without the last variants leaves their effects to the public score."""
    X, fixed, Y = cohort()
    kept = X[:, :9]
    exact = statistics_of(kept, fixed, Y)
    effects = np.linalg.lstsq(X, Y - Y.mean(axis=0), rcond=None)[0][:, :1]
    found = solved(exact, inputs_on(exact, maps=[np.eye(9, 12)], scores=with_scores(effects)))
    assert found.scores.slopes[0, 0] == pytest.approx(1, abs=0.2)
    np.testing.assert_allclose(found.genotypes[9:], effects[9:] * found.scores.slopes, rtol=1e-8)


def test_expected_eigenvalues_are_those_of_the_true_matrix_along_noisy_eigenvectors():
    """Three strong directions beyond the edge of the noise, all others below it."""
    rng, size, sigma = np.random.default_rng(8), 300, 10.0
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    true = (basis * np.concatenate([[4e3, 2e3, 8e2], np.full(size - 3, 20.0)])) @ basis.T
    eigenvalues, vectors = np.linalg.eigh(true + symmetric_noise(size, sigma, rng))
    along = np.einsum("ij,ik,kj->j", vectors, true, vectors)
    found = expected_eigenvalues(eigenvalues, sigma)
    np.testing.assert_allclose(found[-3:], along[-3:], rtol=0.03)
    assert found[:-3].mean() == pytest.approx(along[:-3].mean(), rel=0.1)
    target = rng.normal(size=size)
    errors = [
        np.linalg.norm(vectors @ (values * (vectors.T @ target)) - true @ target)
        for values in (found, eigenvalues)
    ]
    assert errors[0] < 0.5 * errors[1]


def simulated(rng, *, n=400, d=60, effect=0.09, cross=12.0, gram=4.0, phenotypes=1, even=False):
    mixing = np.eye(d) if even else np.tril(rng.normal(size=(d, d))) / np.sqrt(d)
    X = rng.normal(size=(n, d)) @ mixing.T
    beta = rng.normal(0, np.sqrt(effect), (d, phenotypes))
    target = X.T @ (X @ beta + rng.normal(size=(n, phenotypes)))
    target += rng.normal(0, cross, target.shape)
    noisy = X.T @ X + symmetric_noise(d, gram, rng)
    outcomes = np.diag([1.0, *[n * 1.0] * phenotypes])
    layout = BlockLayout((0, d), 1, phenotypes)
    cross_product = np.hstack([np.zeros((d, 1)), target])
    return MemoryStatistics(layout, ((noisy,),), (cross_product,), outcomes), mixing, beta


def weights_of(statistics, estimator, **changes):
    phenotypes = statistics.layout.n_phenotypes
    prior = EffectPrior(np.full(phenotypes, 0.09), np.ones(phenotypes))
    given = {"scales": scales_for(statistics, 4.0, 12.0), "prior": prior} | changes
    return solved(statistics, inputs_for(statistics, 400, **given), estimator=estimator)


def test_known_noise_predicts_better_than_any_ridge():
    """On effects, residuals and noise drawn from its own model, with a noisy Gram matrix too."""
    rng, losses = np.random.default_rng(2), dict[str, list[float]]()
    for _ in range(40):
        statistics, mixing, beta = simulated(rng)
        found = {r: weights_of(statistics, "ridge", penalty=r) for r in np.geomspace(1, 1e5, 26)}
        for name, solution in (found | {"known": weights_of(statistics, PRIORS)}).items():
            loss = ((mixing.T @ (solution.genotypes - beta)) ** 2).sum()
            losses.setdefault(name, []).append(float(loss))
    known = np.mean(losses.pop("known"))
    assert known < min(np.mean(loss) for loss in losses.values())


@pytest.mark.parametrize(
    ("effect", "gram", "cross"),
    [(0.03, 4.0, 12.0), (0.09, 4.0, 12.0), (0.2, 4.0, 12.0), (0.03, 500.0, 60.0)],
)
def test_effect_variances_are_estimated_from_a_noisy_gram(effect, gram, cross):
    """Nearly without bias, although the noise spreads the eigenvalues of X'X, or hides them."""
    rng, found, noise = np.random.default_rng(3), [], {"gram": gram, "cross": cross}
    for _ in range(10):
        statistics, _, _ = simulated(rng, effect=effect, phenotypes=20, even=gram > 4, **noise)
        changes = {"scales": scales_for(statistics, gram, cross)}
        solution = weights_of(statistics, "effect-variances", **changes)
        found.append(solution.parameters["effect_variance"])
    assert np.mean(found) == pytest.approx(effect, rel=0.2)
