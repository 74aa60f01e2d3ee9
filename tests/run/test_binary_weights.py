"""Weights of binary traits in the PGS Catalog's files are log odds ratios, in either coding."""

import gzip

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from support.filesets import write_fileset_of

import primo_scale as ps

N, LOG_ODDS = 8000, np.array([0.3, -0.2, 0.15, -0.1, 0.05, 0.0])


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("binary"), np.random.default_rng(1)
    dosages = random.binomial(2, [0.3, 0.5, 0.2, 0.4, 0.1, 0.3], (N, 6))
    logit = -1.5 + (dosages - dosages.mean(axis=0)) @ LOG_ODDS
    case = random.random(N) < 1 / (1 + np.exp(-logit))
    write_fileset_of(folder / "people", dosages.T, range(1, 7))
    ids = pd.read_csv(folder / "people.fam", sep=r"\s+", header=None, dtype=str)
    table = pd.DataFrame({"FID": ids[0], "IID": ids[1], "ONE_TWO": 1 + case, "ZERO_ONE": 1 * case})
    table.to_csv(folder / "pheno.tsv", sep="\t", index=False)
    bounds = "".join(f"{name}\t{low}\t{low + 1}\t{low + 0.19}\t0.39\tbinary\n"
                     for name, low in (("ONE_TWO", 1), ("ZERO_ONE", 0)))  # fmt: skip
    (folder / "bounds.tsv").write_text("name\tlower\tupper\tmean\tsd\ttype\n" + bounds)
    release = ps.release(
        bfile=folder / "people",
        pheno=folder / "pheno.tsv",
        pheno_bounds=folder / "bounds.tsv",
        non_private=True,
        ridge=0,
        genome_build="GRCh37",
        out=folder / "release",
    )
    return dosages, case, release


@pytest.mark.parametrize("name", ["ONE_TWO", "ZERO_ONE"])
def test_they_are_those_of_a_logistic_regression(cohort, name):
    dosages, case, release = cohort
    lines = gzip.decompress((release.directory / f"pgs/{name}.txt.gz").read_bytes()).decode()
    assert "#weight_type=log(OR)\n" in lines
    assert "K = 0.19" in lines
    rows = [line.split("\t") for line in lines.splitlines() if not line.startswith("#")]
    found = np.array([float(row[-1]) for row in rows[1:]])
    found *= [1 if row[3] == "A" else -1 for row in rows[1:]]
    expected = LogisticRegression(C=np.inf, tol=1e-9).fit(dosages, case).coef_[0]
    np.testing.assert_allclose(found, expected, rtol=0.08, atol=0.01)
    linear = release.weights[name].to_numpy(np.float64)
    assert not np.allclose(np.abs(linear), np.abs(expected), rtol=0.5)
