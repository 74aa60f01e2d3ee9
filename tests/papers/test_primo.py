"""The projection against reference vectors, its optimality conditions and gradient descent."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primo_scale.methods.linear_algebra import floored_at_zero, quotient
from primo_scale.papers.estimators import ball_multiplier, phenotype_projection, squared_radius

VECTORS = Path(__file__).parents[1] / "reference" / "vectors"


def project(S, G, radius_squared):
    """Nearest point of K to G and the multiplier, by the code under test."""
    values, vectors = np.linalg.eigh(S)
    values = floored_at_zero(values)
    H = vectors.T @ G
    nu = ball_multiplier(values, (H**2).sum(axis=1), radius_squared)
    return vectors @ (quotient(values, values + nu)[:, None] * H), nu


def test_reference_vector_03_projection_by_public_genotypes():
    vector = np.load(VECTORS / "03_proj_x_active.npz")
    X, n = vector["X"], len(vector["X"])
    S, G = X.T @ X, X.T @ vector["Y"] + vector["sigma2"] * vector["Z2"]
    P, nu = project(S, G, n * float(vector["By"]) ** 2)
    assert nu == pytest.approx(float(vector["out_mu"]), rel=1e-9)
    np.testing.assert_allclose(P, vector["out_G_hat"], rtol=1e-9)
    values, vectors = np.linalg.eigh(S)
    factors = 1 / (values + n * float(vector["lam"]))[:, None]
    np.testing.assert_allclose(vectors @ (factors * (vectors.T @ P)), vector["out_W"], rtol=1e-9)


def test_reference_vector_05_projection_by_public_phenotypes():
    vector = np.load(VECTORS / "05_proj_y_active.npz")
    X, Y, n = vector["X"], vector["Y"], len(vector["X"])
    G = X.T @ Y + vector["sigma2"] * vector["Z2"]
    matrix, multiplier = phenotype_projection(Y.T @ Y, [G[:2], G[2:]], n * float(vector["Bx"]) ** 2)
    assert multiplier == pytest.approx(float(vector["out_mu"]), rel=1e-9)
    np.testing.assert_allclose(G @ matrix, vector["out_G_hat"], rtol=1e-9)
    off_diagonal = np.triu(vector["Z1"], 1) / np.sqrt(2)
    noise = np.diag(vector["Z1"].diagonal()) + off_diagonal + off_diagonal.T
    noisy = X.T @ X + vector["sigma1"] * noise
    values, vectors = np.linalg.eigh(noisy)
    target = vectors.T @ G @ matrix
    factors = 1 / (values + n * float(vector["lam"]))[:, None]
    np.testing.assert_allclose(vectors @ (factors * target), vector["out_W"], rtol=1e-9)


def descend(X, G, radius):
    """Projected gradient for min ||X'Z - G|| over ||Z|| <= radius; returns X'Z."""
    Z = np.zeros((len(X), G.shape[1]))
    rate = 1 / np.linalg.eigvalsh(X.T @ X)[-1]
    for _ in range(20_000):
        Z -= rate * X @ (X.T @ Z - G)
        Z *= min(1.0, radius / max(np.linalg.norm(Z), 1e-300))
    return X.T @ Z


@pytest.mark.parametrize(("n", "d", "l"), [(6, 3, 2), (2, 3, 7)])
@pytest.mark.parametrize("radius", [0.05, 0.7, 100.0])
def test_projected_gradient_descent_finds_the_same_point(n, d, l, radius):  # noqa: E741
    rng = np.random.default_rng(n * 100 + d * 10 + l)
    X, G = rng.normal(size=(n, d)), 3 * rng.normal(size=(d, l))
    ours, _ = project(X.T @ X, G, radius**2)
    np.testing.assert_allclose(ours, descend(X, G, radius), rtol=1e-6, atol=1e-7)


def test_with_more_phenotypes_than_people_the_dual_problem_agrees():
    rng = np.random.default_rng(7)
    Y, G = rng.normal(size=(8, 50)), rng.normal(size=(5, 50))
    matrix, multiplier = phenotype_projection(Y.T @ Y, [G], 0.5)
    # P = G Y' (YY' + nu I)^-1 Y, through n x n matrices only.
    dual = G @ Y.T @ np.linalg.solve(Y @ Y.T + multiplier * np.eye(8), Y)
    np.testing.assert_allclose(G @ matrix, dual, rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(G @ Y.T @ np.linalg.inv(Y @ Y.T + multiplier * np.eye(8))) == (
        pytest.approx(np.sqrt(0.5), rel=1e-9)
    )


problems = st.tuples(
    st.integers(0, 2**32 - 1),  # seed
    st.integers(1, 5),  # n
    st.integers(1, 5),  # d
    st.integers(1, 7),  # l
    st.floats(-6, 6),  # log10 of the size of G
    st.floats(-6, 6),  # log10 of the radius
    st.booleans(),  # whether columns of X are repeated or zero
)


@settings(max_examples=300, deadline=None)
@given(problems)
def test_optimality_conditions(problem):
    """KKT: the fit is feasible, the multiplier not negative, and it vanishes inside the ball."""
    seed, n, d, l, size, log_radius, degenerate = problem  # noqa: E741
    rng = np.random.default_rng(seed)
    X, G = rng.normal(size=(n, d)), 10.0**size * rng.normal(size=(d, l))
    if degenerate:
        X[:, rng.integers(d)] = X[:, 0] * rng.integers(-1, 2)
    S, radius_squared = X.T @ X, 10.0 ** (2 * log_radius)
    P, nu = project(S, G, radius_squared)
    assert nu >= 0
    assert np.isfinite(P).all()
    values, vectors = np.linalg.eigh(S)
    values = floored_at_zero(values)
    # Z = X (S + nu)^-1 G in the basis of right singular vectors.
    Z = quotient(np.sqrt(values), values + nu)[:, None] * (vectors.T @ G)
    norm = (Z**2).sum()
    assert norm <= radius_squared * (1 + 1e-9)
    if nu > 0:
        assert norm == pytest.approx(radius_squared, rel=1e-9)
    else:
        inside = vectors[:, values > 0]
        np.testing.assert_allclose(P, inside @ (inside.T @ G), rtol=1e-9, atol=1e-12 * 10.0**size)


@settings(max_examples=200, deadline=None)
@given(problems)
def test_noise_never_takes_the_projection_farther_from_the_truth(problem):
    """Projections onto convex sets are non-expansive, and the truth X'Y lies in the set."""
    seed, n, d, l, size, _, _ = problem  # noqa: E741
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, d)), rng.normal(size=(n, l))
    truth, noise = X.T @ Y, 10.0**size * rng.normal(size=(d, l))
    P, _ = project(X.T @ X, truth + noise, (Y**2).sum())
    within = 1 + 1e-9
    assert np.linalg.norm(P - truth) <= np.linalg.norm(noise) * within + 1e-9
    other, _ = project(X.T @ X, truth - noise, (Y**2).sum())
    assert np.linalg.norm(P - other) <= 2 * np.linalg.norm(noise) * within + 1e-9


def test_the_radius_is_the_lesser_of_bound_and_noisy_total():
    assert squared_radius(100.0, 50.0, 2.0) == 56.0
    assert squared_radius(52.0, 50.0, 2.0) == 52.0
    assert squared_radius(np.inf, -50.0, 2.0) == 6.0
