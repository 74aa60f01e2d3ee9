"""The other papers' algorithms against reference vectors and what their data must look like."""

import math
from pathlib import Path

import numpy as np
import pytest

from experiments import multi_party, thesis
from experiments import papers_constants as papers
from experiments.gaussian_noise import Draws

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
