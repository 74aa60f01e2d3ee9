"""Weights from released columns, against reference vectors and least squares."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from primo_scale.errors import UsageError
from primo_scale.parties.fit import DEBIASED, fit_outcome, join_columns


@pytest.fixture(scope="module")
def vector(reference):
    return np.load(reference / "vectors" / "11_wu.npz")


@pytest.mark.parametrize("method", ["bgm", "dgm", "rmgm"])
def test_reference_vector(vector, method: str) -> None:
    D, sd = vector["D"], float(vector["sd"])
    released = D + sd * vector["R"]
    if method == "rmgm":
        released = vector["B"] @ D / math.sqrt(len(vector["B"])) + sd * vector["Rk"]
    unit = 2.0**40
    values = np.rint(released * unit).astype(np.int64)
    parties = [
        SimpleNamespace(values=part, scale=unit, noise_sd=sd)
        for part in (values[:, :2], values[:, 2:])
    ]
    joined = join_columns(parties, np.zeros(len(released)))  # without an intercept
    (_, *weights), *_ = fit_outcome(
        joined, 4, [0, 1, 2, 3], debiased=method in DEBIASED, ridge=1e-5 * len(D)
    )
    np.testing.assert_allclose(weights, vector[f"out_{method}"], rtol=1e-6)


def exact(rows: np.ndarray, constant: float = 1.0) -> tuple[np.ndarray, np.ndarray, int]:
    values = np.column_stack([np.full(len(rows), constant), rows])
    return (values.T @ values, np.zeros(values.shape[1]), len(rows))


def test_without_noise_it_is_least_squares() -> None:
    rows = np.random.default_rng(5).normal(1, 1, (300, 4))
    (intercept, *weights), *_ = fit_outcome(exact(rows), 3, [0, 1, 2], debiased=True)
    model = LinearRegression().fit(rows[:, :3], rows[:, 3])
    np.testing.assert_allclose(weights, model.coef_, rtol=1e-9)
    assert intercept == pytest.approx(model.intercept_)
    (_, *ridge), *_ = fit_outcome(exact(rows, 0.0), 3, [0, 2], debiased=False, ridge=40.0)
    expected = Ridge(alpha=40.0, fit_intercept=False).fit(rows[:, [0, 2]], rows[:, 3]).coef_
    np.testing.assert_allclose(ridge, expected, rtol=1e-9)


@pytest.mark.parametrize("n_mixtures", [4, 1])
def test_fewer_mixtures_than_columns_are_refused_without_a_penalty(n_mixtures: int) -> None:
    rows = np.random.default_rng(6).normal(1, 1, (n_mixtures, 5))
    with pytest.raises(UsageError, match="do not determine the weights of so many predictors"):
        fit_outcome(exact(rows), 4, [0, 1, 2, 3], debiased=False)
    assert np.isfinite(fit_outcome(exact(rows), 4, [0, 1, 2, 3], debiased=False, ridge=1)[0]).all()


def test_debiasing_removes_the_bias_and_the_floor_guards_it() -> None:
    rng = np.random.default_rng(11)
    n, sd, true = 40_000, 1.0, np.array([0.5, -0.25])
    X = rng.uniform(-1, 1, (n, 2))
    rows = np.column_stack([X, X @ true])
    found = {method: [] for method in ("bgm", "dgm")}
    for _ in range(20):
        noisy = rows + sd * rng.standard_normal(rows.shape)
        values = np.column_stack([np.ones(n), noisy])
        joined = (values.T @ values, np.array([0.0, sd, sd, sd]), n)
        for method, weights in found.items():
            (_, *solved), *_ = fit_outcome(joined, 2, [0, 1], debiased=method in DEBIASED)
            weights.append(solved)
    means = {method: np.mean(weights, axis=0) for method, weights in found.items()}
    np.testing.assert_allclose(means["dgm"], true, atol=0.02)
    # E[x^2] / (E[x^2] + sd^2) of the true weights: a quarter.
    np.testing.assert_allclose(means["bgm"], true / 4, atol=0.01)


def test_an_indefinite_matrix_gives_bounded_weights() -> None:
    rng = np.random.default_rng(2)
    n, sd = 400, 5.0
    worst = 0.0
    for _ in range(50):
        rows = rng.uniform(-1, 1, (n, 4)) + sd * rng.standard_normal((n, 4))
        values = np.column_stack([np.ones(n), rows])
        joined = (values.T @ values, np.array([0, sd, sd, sd, sd]), n)
        solution, smallest, floor = fit_outcome(joined, 3, [0, 1, 2], debiased=True)
        assert smallest < floor
        worst = max(worst, float(np.abs(solution[1:]).max()))
    assert worst < 2
