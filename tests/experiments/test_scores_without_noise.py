"""Scores without noise that releases are compared with, against scikit-learn."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from bed_reader import to_bed
from sklearn.linear_model import Ridge

from experiments.without_noise import accuracies

N, D, H2 = 700, 60, 0.4
BOUNDARIES = [0, 20, 45, D]
NAMES = ["FEW", "ALL"]  # variants with effects


def correlated(rng, n):
    """Genotypes of neighbours in LD, also across the boundaries of blocks; one does not vary."""
    haplotypes = np.zeros((2 * n, D), int)
    haplotypes[:, 0] = rng.random(2 * n) < 0.4
    for j in range(1, D):
        new = rng.random(2 * n) < 0.3
        haplotypes[:, j] = np.where(new, rng.random(2 * n) < 0.4, haplotypes[:, j - 1])
    haplotypes[:, 30] = 0
    return haplotypes[:n] + haplotypes[n:]


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("people"), np.random.default_rng(3)
    effects = np.zeros((D, 2))
    effects[[5, 50], 0] = 1, -1
    effects[:, 1] = rng.standard_normal(D)
    found = []
    for name, n in (("cohort", N), ("fresh", 3000)):
        x = correlated(rng, n)
        genetic = (x - 0.8) @ effects
        genetic *= np.sqrt(H2) / genetic.std(axis=0)
        y = 7 + 3 * (genetic + np.sqrt(1 - H2) * rng.standard_normal((n, 2)))
        to_bed(folder / f"{name}.bed", x)
        table = pd.DataFrame(y, columns=NAMES)
        table.to_csv(folder / f"{name}.pheno.tsv", sep="\t", index=False)
        found.append((folder / name, x, y))
    return found


def test_blups_are_those_of_ridge_regression(people):
    (cohort, x, y), (fresh, fresh_x, fresh_y) = people
    found = accuracies(cohort, fresh, NAMES, BOUNDARIES, H2)
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    z, other_z = (x - x.mean(axis=0)) / scale, (fresh_x - x.mean(axis=0)) / scale
    model = Ridge(alpha=D * (1 - H2) / H2, fit_intercept=False)
    for name, blocks in {"BLUP": [(0, D)], "BLUP in blocks": pairwise(BOUNDARIES)}.items():
        scores = sum(
            other_z[:, a:b] @ model.fit(z[:, a:b], y - y.mean(axis=0)).coef_.T for a, b in blocks
        )
        fits = [np.polyfit(scores[:, k], fresh_y[:, k], 1)[0] for k in range(2)]
        r2 = [np.corrcoef(scores[:, k], fresh_y[:, k])[0, 1] ** 2 for k in range(2)]
        np.testing.assert_allclose(found[name].r2, r2, rtol=2e-3)
        np.testing.assert_allclose(found[name].slope, fits, rtol=2e-3)
    few, many = (found["LDpred2-auto"].r2 - found["BLUP in blocks"].r2).tolist()
    assert few > 0.01 and abs(many) < 0.01
