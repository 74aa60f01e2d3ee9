"""Genotypes and outcomes that are moved or replaced during an accumulation."""

import shutil

import numpy as np
import pytest
from support.partials import inputs_of
from support.small_cohort import D, N, write_cohort
from support.tiers import thinned

from primo_scale.accumulation.clipping_rules import ClippingRule
from primo_scale.accumulation.partials import open_partials
from primo_scale.accumulation.plan import Plan
from primo_scale.accumulation.statistics import Reduction
from primo_scale.accumulation.tasks import run_task
from primo_scale.errors import InputError
from primo_scale.genotypes.ingest import ingest
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.outcomes.coding import PhenotypeBounds, code_outcomes
from primo_scale.outcomes.store import align_outcomes
from primo_scale.storage.block_matrices import BlockLayout

LAYOUT = BlockLayout((0, 4, D), n_fixed=1, n_phenotypes=1)
PLAN = Plan(LAYOUT, N, row_group=16, stripe=16, rows_per_read=8, tile=3)
CODES = np.tile(np.array([-30, 0, 50, 7], dtype=np.int8), (D, 1))
RULE = ClippingRule("record", 6000, None, 10**9)
CODING = code_outcomes([PhenotypeBounds("T", 0, 4, 2, 1, "quantitative")], [])
TASKS = [*PLAN.row_tasks(), *PLAN.tile_tasks()]


def written(files, path):
    return ingest(SourceFiles((files / "cohort",)), path, chunk_shape=(2, 16)).path


@pytest.fixture
def cohorts(tmp_path):
    """Return the directories of two cohorts with equal people and variants, unequal genotypes."""
    one, other = write_cohort(tmp_path / "one"), tmp_path / "other"
    shutil.copytree(one, other)
    bed = (one / "cohort.bed").read_bytes()
    (other / "cohort.bed").write_bytes(bed[:3] + bed[:2:-1])
    return one, other


def stores_of(files, folder):
    genotypes = written(files, folder / "genotypes.zarr")
    people = open_genotype_store(genotypes).samples
    phenotypes = [files / "pheno.tsv"]
    path = folder / "outcomes.zarr"
    align_outcomes(path, people, phenotypes, CODING, scratch=folder)
    return genotypes, path


def opened(path, genotypes, outcomes, rule=RULE):
    inputs = inputs_of(genotypes, outcomes, rule)
    return open_partials(path / "partials.zarr", PLAN, inputs, CODES)


def run(partials, tasks):
    for task in tasks:
        run_task(partials.address, task)


def summed(partials, path):
    with Reduction(partials, path / "statistics.zarr") as reduction:
        return reduction.finish().sha256


def undisturbed(path, *asked):
    partials = opened(path, *asked)
    run(partials, TASKS)
    return summed(partials, path)


@pytest.mark.usefixtures("encrypted")
@pytest.mark.parametrize(
    ("rule", "rows"), thinned([(RULE, "moved_outcomes.zarr"), (None, "outcomes.zarr")], every=2)
)
def test_moved_stores_are_read_at_new_locations(cohorts, tmp_path, rule, rows):
    """Another store takes the old location, while workers that know the old one still run."""
    genotypes, outcomes = stores_of(cohorts[0], tmp_path)
    expected = undisturbed(tmp_path / "whole", genotypes, outcomes, rule)
    begun = opened(tmp_path, genotypes, outcomes, rule)
    run(begun, TASKS[:7])
    genotypes.rename(tmp_path / "moved.zarr")
    outcomes.rename(tmp_path / rows)
    written(cohorts[1], genotypes)
    resumed = opened(tmp_path, tmp_path / "moved.zarr", tmp_path / rows, rule)
    assert resumed.committed() == set(TASKS[:7])
    assert resumed.address == begun.address
    run(resumed, TASKS[7:])
    assert summed(resumed, tmp_path) == expected


def test_replaced_stores_are_refused_by_name(cohorts, tmp_path):
    genotypes, outcomes = stores_of(cohorts[0], tmp_path)
    partials = opened(tmp_path, genotypes, outcomes)
    run(partials, TASKS[:-1])
    aside = tmp_path / "aside.zarr"
    genotypes.rename(aside)
    written(cohorts[1], genotypes)
    with pytest.raises(InputError, match=f"^{genotypes}: the store of genotypes was replaced"):
        run(partials, TASKS[-1:])
    with pytest.raises(InputError, match=r"not the result of this request.*got genotypes"):
        opened(tmp_path, genotypes, outcomes)
    shutil.rmtree(genotypes)
    aside.rename(genotypes)
    run(partials, TASKS[-1:])
    pheno = cohorts[0] / "pheno.tsv"
    pheno.write_text(pheno.read_text().replace("p0\t0", "p0\t3"))
    shutil.rmtree(outcomes)
    people, files = open_genotype_store(genotypes).samples, [pheno]
    align_outcomes(outcomes, people, files, CODING, scratch=tmp_path)
    with pytest.raises(InputError, match=f"^{outcomes}: the store of outcomes was replaced"):
        summed(partials, tmp_path)
