"""Many phenotypes are rounded on a coarse public lattice, which keeps their weights."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.filesets import write_fileset_of

import primo_scale as ps
from primo_scale.kernels.products import UNCLIPPED
from primo_scale.outcomes.coding import PhenotypeBounds
from primo_scale.run.design import load_design

N, N_PHENOTYPES = 40, 100
BOUNDS = [
    PhenotypeBounds(f"B{j}", 0, 1, p, (p * (1 - p)) ** 0.5, "binary")
    for j, p in enumerate(np.linspace(0.02, 0.5, 10))
] + [PhenotypeBounds(f"Q{j}", -5, 5, 0, 1, "quantitative") for j in range(10, N_PHENOTYPES)]


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("many"), np.random.default_rng(1)
    write_fileset_of(folder / "people", random.binomial(2, 0.4, (6, N)), range(1, 7))
    ids = pd.read_csv(folder / "people.fam", sep=r"\s+", header=None, dtype=str)
    columns = {b.name: random.integers(0, 2, N) for b in BOUNDS}
    table = pd.DataFrame({"FID": ids[0], "IID": ids[1], **columns})
    table.to_csv(folder / "pheno.tsv", sep="\t", index=False)
    bounds = pd.DataFrame(BOUNDS).rename(columns={"kind": "type"})
    bounds.to_csv(folder / "bounds.tsv", sep="\t", index=False)
    ps.ingest(bfile=folder / "people", out=folder / "genotypes.zarr")
    ps.accumulate(
        genotypes=folder / "genotypes.zarr",
        pheno=folder / "pheno.tsv",
        pheno_bounds=folder / "bounds.tsv",
        epsilon=5.0,
        delta=1e-6,
        work_dir=folder / "work",
        ledger=folder / "ledger.sqlite",
        accept_noise=True,
    )
    return folder / "work"


@pytest.fixture(scope="module")
def design(work_dir):
    return load_design(work_dir / "design.json")


def test_rounding_keeps_the_slope_of_clipped_rows(design):
    """Rounding toward zero after the clip would take 2% of it."""
    random, n = np.random.default_rng(2), 5_000
    mean, sd = (np.array([getattr(b, name) for b in BOUNDS]) for name in ("mean", "sd"))
    raw = np.hstack([random.random((n, 10)) < mean[:10], random.normal(size=(n, 90))])
    rows = np.hstack([np.ones((n, 1), np.int16), design.outcomes.code_phenotypes(raw)])
    unclipped, norms = np.full(n, UNCLIPPED), np.ones((n, 1), np.int64)
    slopes = []
    for step in (1, design.phenotype_step):
        rule = design.clipping_rule
        summed = rule.clip_outcomes(rows, 1, unclipped, norms, phenotype_step=step)[:, 1:]
        assert (summed % step == 0).all()
        exact = (raw - mean) / sd
        slopes.append([np.polyfit(x, y, 1)[0] for x, y in zip(exact.T, summed.T, strict=True)])
    ratio = np.divide(*slopes)
    assert abs(ratio[:10] - 1).max() < 0.01  # of two values
    assert abs(ratio[10:].mean() - 1) < 0.004


def test_the_lattice_is_coarse_only_for_many_phenotypes_of_fine_codes(design):
    assert design.phenotype_step == 256
    for phenotypes in (BOUNDS[:99], [*BOUNDS[:99], replace(BOUNDS[0], sd=1.1)]):
        outcomes = replace(design.outcomes, phenotypes=tuple(phenotypes))
        assert replace(design, outcomes=outcomes).phenotype_step == 1
    assert replace(design, outcomes=replace(design.outcomes, unit=2047)).phenotype_step == 1
    assert replace(design, guarantee=None).phenotype_step == 1
