"""The other papers' algorithms against reference vectors and what their data must look like."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from experiments import multi_party, thesis
from experiments import papers_constants as papers
from experiments.gaussian_noise import Draws, draw

THESIS = np.load(Path(__file__).parents[1] / "reference" / "vectors" / "10_thesis.npz")
MULTI_PARTY = np.load(Path(__file__).parents[1] / "reference" / "vectors" / "11_wu.npz")


@pytest.fixture(scope="module")
def problem():
    X, y = THESIS["X"], THESIS["y"][:, None]
    return thesis.Problem(X.T @ X, X.T @ y, 1.0, float(THESIS["eps"]), float(THESIS["delta"]))


def test_thesis_vector(problem):
    upper = np.triu(THESIS["Zsym"])
    noise = Draws(upper + np.triu(upper, 1).T, upper, THESIS["zr"][:, None])
    shares = {"adassp": papers.ADASSP_EIGENVALUE_SHARE}
    shares |= {f"budget_{share}": share for share in (0.05, 0.2, 0.6)}
    found = {"ssp": thesis.ssp(problem, noise), "const": thesis.const_ssp_full(problem, noise)}
    for name, share in shares.items():
        on_eigenvalue = float(THESIS["ze"])
        found[name] = thesis.ada_ssp_budget(problem, noise, share, on_eigenvalue=on_eigenvalue)
        if f"out_lam_{share}" in THESIS:
            ridge = thesis.EigenvalueRidge(problem, share).at(on_eigenvalue)
            assert ridge == pytest.approx(THESIS[f"out_lam_{share}"][0], rel=1e-9)
    for name, weights in found.items():
        np.testing.assert_allclose(weights[:, 0], THESIS[f"out_{name}"], rtol=1e-9)


def test_joint_release_has_no_bias_without_noise(problem):
    silent = Draws(np.zeros((10, 10)), np.zeros((10, 10)), np.zeros((10, 1)))
    expected = np.linalg.lstsq(THESIS["X"], THESIS["y"], rcond=None)[0]
    found = thesis.joint(problem, silent, least_eigenvalue=math.inf)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-9)


def test_multi_party_vector():
    D, sd = MULTI_PARTY["D"], float(MULTI_PARTY["sd"])
    n, k = len(D), len(MULTI_PARTY["B"])
    plain = D + sd * MULTI_PARTY["R"]
    mixed = MULTI_PARTY["B"] @ D / math.sqrt(k) + sd * MULTI_PARTY["Rk"]
    ridge = papers.MULTI_PARTY_RIDGE * n
    for name, rows, debias in (
        ("bgm", plain, -ridge),
        ("dgm", plain, n * sd**2 - ridge),
        ("rmgm", mixed, -ridge),
    ):
        found = multi_party.least_squares(rows.T @ rows, debias=debias)
        np.testing.assert_allclose(found, MULTI_PARTY[f"out_{name}"], rtol=1e-9)
    assert papers.multi_party_noise(1.0, 1e-5, 2) == pytest.approx(float(MULTI_PARTY["out_sd"]))


def test_noisy_gram_has_the_law_of_noisy_rows():
    """One quadratic form of (D+R)'(D+R) against its exact law, noncentral chi-square.

    Kolmogorov-Smirnov at 1e-6; noise of 1.1 times the sd is rejected at the same level.
    """
    rng = np.random.default_rng(2)
    rows, sd = rng.uniform(-1, 1, (40, 3)), 0.7
    direction = np.array([0.6, -0.64, 0.48])
    values = np.array(
        [direction @ multi_party.noisy_gram(rows, sd, rng) @ direction for _ in range(3000)]
    )
    signal = ((rows @ direction) ** 2).sum()

    def p_value(scale):
        return kstest(values / scale**2, "ncx2", args=(40, signal / scale**2)).pvalue

    assert p_value(sd) > 1e-6
    assert p_value(1.1 * sd) < 1e-6


def test_mixed_rows_have_the_law_of_random_signs():
    """Trace of M'M without noise: k rows of variance ||D||^2 / k, so ||D||_F^2 on average.

    The mean of 400 lies within 5 standard errors (false alarm 6e-7); forgetting sqrt(k) would not.
    """
    rng = np.random.default_rng(3)
    rows = rng.uniform(-1, 1, (1000, 4))
    traces = np.array([np.trace(multi_party.mixed_gram(rows, 0.0, 8, rng)) for _ in range(400)])
    error = traces.std(ddof=1) / 20
    assert abs(traces.mean() - (rows**2).sum()) < 5 * error
    assert error < 0.05 * (rows**2).sum()


def test_gaussian_noise_layouts():
    """Variance 1, or 1 and 1/2: sums of squares against chi-square, both tails 5e-7."""
    draws = draw(200, 3, np.random.default_rng(4))
    diagonal = np.eye(200, dtype=bool)
    np.testing.assert_array_equal(draws.svec, draws.svec.T)
    np.testing.assert_array_equal(np.diag(draws.svec), np.diag(draws.upper))
    for values, variance in (
        (draws.upper[np.triu_indices(200, 1)], 1.0),
        (draws.svec[np.triu_indices(200, 1)], 0.5),
        (draws.upper[diagonal], 1.0),
        (draws.cross.ravel(), 1.0),
    ):
        total, tails = float((values**2).sum()), norm.sf(4.9)
        low, high = chi2.ppf([tails, 1 - tails], values.size)
        assert low < total / variance < high
    # The layouts are told apart: half the variance is far outside the range of one.
    assert (draws.svec[np.triu_indices(200, 1)] ** 2).sum() < chi2.ppf(1e-9, 19_900)
