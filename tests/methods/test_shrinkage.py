"""Rules of shrinkage against closed forms, posterior means, derivatives and a reference vector."""

import numpy as np
import pytest

from primo_scale.methods.shrinkage import JamesStein, KnownNoise, Ridge, floored_at_zero, noise_norm


def coefficients(rule, values, target):
    return rule.factors(values, target) * target


def test_reference_vector_01(reference):
    vector = np.load(reference / "vectors" / "01_reuse_cov_gauss_triu.npz")
    X, Y, upper = vector["X"], vector["Y"], np.triu(vector["Z1"])
    penalty = len(X) * float(vector["lam"])
    noisy = X.T @ X + vector["sigma1"] * (upper + np.triu(upper, 1).T)
    target = X.T @ Y + vector["sigma2"] * vector["Z2"]
    # This noisy Gram matrix is indefinite, and the paper solves with it as it is.
    values, vectors = np.linalg.eigh(noisy)
    W = vectors @ coefficients(Ridge(penalty), values, vectors.T @ target)
    np.testing.assert_allclose(W, vector["out_W"], rtol=1e-9)


def test_ridge_zero_ignores_null_directions():
    values = floored_at_zero(np.array([-3.0, 0.0, 1e-17, 2.0]))
    np.testing.assert_array_equal(values, [0, 0, 0, 2])
    factors = Ridge(0.0).factors(values, np.ones((4, 1)))
    np.testing.assert_array_equal(factors[:, 0], [0, 0, 0, 0.5])


def test_known_noise_is_the_posterior_mean():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(6, 6))
    gram, effects, residual, noise = A @ A.T, 0.3, 2.0, 1.7
    rule = KnownNoise(np.array([effects]), np.array([residual]), np.array([noise]), gram_sigma=0.0)
    target = rng.normal(size=(6, 1))
    values, vectors = np.linalg.eigh(gram)
    ours = vectors @ coefficients(rule, values, vectors.T @ target)
    # X'y = S b + N(0, residual S + noise^2 I), b ~ N(0, effects I): Gaussian conditioning.
    covariance = effects * gram @ gram + residual * gram + noise**2 * np.eye(6)
    expected = effects * gram @ np.linalg.solve(covariance, target)
    np.testing.assert_allclose(ours, expected, rtol=1e-9)


def test_known_noise_predicts_better_than_any_ridge():
    """On effects, residuals and noise drawn from its own model, with a noisy Gram matrix too."""
    rng = np.random.default_rng(2)
    n, d, repetitions = 400, 60, 40
    mixing = np.tril(rng.normal(size=(d, d)))
    losses: dict[str, list[float]] = {}
    for _ in range(repetitions):
        X = rng.normal(size=(n, d)) @ mixing.T / np.sqrt(d)
        beta = rng.normal(0, 0.3, (d, 1))
        cross_sigma, gram_sigma = 12.0, 4.0
        E = rng.normal(0, gram_sigma, (d, d))
        gram = X.T @ X + (E + E.T) / 2
        target = X.T @ (X @ beta + rng.normal(size=(n, 1))) + rng.normal(0, cross_sigma, (d, 1))
        values, vectors = np.linalg.eigh(gram)
        rules = {f"ridge {r}": Ridge(r) for r in np.geomspace(1, 1e5, 26)}
        rules["known"] = KnownNoise(
            np.array([0.09]), np.ones(1), np.array([cross_sigma]), gram_sigma
        )
        for name, rule in rules.items():
            W = vectors @ coefficients(rule, values, vectors.T @ target)
            losses.setdefault(name, []).append(float(((mixing.T @ (W - beta)) ** 2).sum()))
    known = np.mean(losses.pop("known"))
    assert known < min(np.mean(loss) for loss in losses.values())


def test_noise_norm_bounds_the_spectral_norm_of_svec_noise():
    rng = np.random.default_rng(6)
    for size in (1, 5, 60):
        E = rng.standard_normal((200, size, size))
        norms = np.abs(np.linalg.eigvalsh((E + E.transpose(0, 2, 1)) / 2)).max(axis=1)
        assert (norms <= noise_norm(1.0, size)).all()
        assert (norms > 0.3 * noise_norm(1.0, size)).any(), "the bound would be useless"


def test_known_noise_gives_an_empty_direction_no_weight():
    rule = KnownNoise(np.array([1.0]), np.array([1.0]), np.zeros(1), gram_sigma=0.0)
    np.testing.assert_array_equal(rule.factors(np.array([0.0, 1.0]), np.ones((2, 1))), [[0], [0.5]])


def test_james_stein_is_the_textbook_estimator():
    """James and Stein's estimate of the mean of a normal vector of known variance."""
    H = np.array([[3.0, -1.0, 2.0, 0.5], [0.1, 0.2, -0.1, 0.3]])
    rule = JamesStein(penalty=0.0, cross_sigma=np.full(4, 1.5), floor=0.0)
    ours = coefficients(rule, np.ones(2), H)
    squared = 3.0**2 + 1 + 2.0**2 + 0.5**2
    np.testing.assert_allclose(ours[0], (1 - 2 * 1.5**2 / squared) * H[0], rtol=1e-12)
    np.testing.assert_array_equal(ours[1], 0)


def test_james_stein_beats_the_observation_at_every_mean():
    rng = np.random.default_rng(4)
    sigma = np.array([1.0, 0.2, 3.0, 1.0, 1.0])
    for size in (0.0, 1.0, 3.0, 30.0):
        means = size * sigma * rng.standard_normal((2000, 5))
        seen = means + sigma * rng.standard_normal((2000, 5))
        rule = JamesStein(0.0, sigma, 0.0)
        loss = (((coefficients(rule, np.ones(2000), seen) - means) / sigma) ** 2).sum()
        assert loss < (((seen - means) / sigma) ** 2).sum()
        if size == 0:
            assert loss < 0.5 * ((seen / sigma) ** 2).sum()


def test_james_stein_standardises_every_phenotype_by_its_own_noise():
    rng = np.random.default_rng(5)
    H, scale = rng.normal(0, 2, (6, 4)), np.array([1.0, 10.0, 0.1, 3.0])
    alike = JamesStein(2.0, np.ones(4), 3.0).factors(np.arange(6.0), H)
    np.testing.assert_allclose(
        JamesStein(2.0, scale, 3.0).factors(np.arange(6.0), H * scale), alike, rtol=1e-12
    )


def test_james_stein_raises_eigenvalues_to_its_floor():
    """For 1,000 equal phenotypes of squared norm 4,000 the factor is 1 - 998/4000."""
    H = np.full((3, 1000), 2.0)
    factors = JamesStein(0.5, np.ones(1000), 2.0).factors(np.array([0.0, 1.0, 5.0]), H)
    kept = 1 - 998 / 4000
    np.testing.assert_allclose(factors[:, 0], [kept / 2.5, kept / 2.5, kept / 5.5], rtol=1e-12)


@pytest.mark.parametrize("sigma", [np.ones(2), np.ones(1), np.zeros(5), np.array([1.0, 0, 1, 1])])
def test_james_stein_is_ridge_without_noise_or_with_few_phenotypes(sigma):
    values = np.array([0.0, 1.0, 5.0])
    H = np.full((3, len(sigma)), 0.01)
    expected = Ridge(0.5).factors(values, H)
    np.testing.assert_array_equal(JamesStein(0.5, sigma, 0.0).factors(values, H), expected)
