"""The reconstruction attack on two releases: on closed-form weights, and on the product's."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments.reconstruction import Genotypes, reconstruct, rounded

RIDGE = 3.0


@pytest.fixture(scope="module")
def example():
    rng = np.random.default_rng(8)
    frequency = rng.uniform(0.1, 0.5, 40)
    ancestors = rng.uniform(size=(2, 300, 5)).repeat(8, axis=2)
    dosages = (0.7 * ancestors + 0.3 * rng.uniform(size=(2, 300, 40)) < frequency).sum(axis=0)
    phenotypes = dosages @ rng.normal(size=(40, 3)) + rng.normal(size=(300, 3))
    return Genotypes(dosages.astype(float), np.full(40, 16.0), np.zeros(40)), phenotypes


def ridge_release(genotypes, phenotypes):
    from sklearn.linear_model import Ridge

    fitted = Ridge(RIDGE).fit(genotypes * 16.0, phenotypes)
    names = [f"P{number}" for number in range(phenotypes.shape[1])]
    weights = pd.DataFrame(16.0 * fitted.coef_.T, columns=names)
    return SimpleNamespace(
        weights=weights, phenotypes=names, document={"estimation": {"penalties": [RIDGE]}}
    )


def test_exact_weights_give_every_genotype_away(example):
    genotypes, phenotypes = example
    before = ridge_release(genotypes.dosages[:-1], phenotypes[:-1])
    after = ridge_release(genotypes.dosages, phenotypes)
    scatter = 299 * np.cov(genotypes.codes[:-1], rowvar=False, ddof=0)
    mean = genotypes.dosages[:-1].mean(axis=0)
    direction = reconstruct(before, after, scatter, genotypes)
    centred = genotypes.codes[-1] - 16 * mean
    assert abs(direction @ centred) / np.linalg.norm(centred) == pytest.approx(1, abs=1e-9)
    assert (rounded(direction, genotypes, mean) == genotypes.dosages[-1]).all()

    without_ld = reconstruct(before, after, np.diag(np.diag(scatter)), genotypes)
    assert (rounded(without_ld, genotypes, mean) == genotypes.dosages[-1]).mean() < 0.9
