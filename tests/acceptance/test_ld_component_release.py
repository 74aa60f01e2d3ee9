"""Releases over LD components: exact sums, bounds, statements and refusals."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.acceptance_inputs import clipped_blocks, norms
from support.command_io import PANEL
from support.documents import read_document
from support.filesets import copy_fileset
from support.partials import inputs_of, partials_of_design
from support.small_cohort import PanelCohort, command, refused, succeeded
from support.tiers import thinned

from primo_scale.accumulation.statistics import Reduction, open_raw_statistics
from primo_scale.accumulation.tasks import run_task
from primo_scale.cli.commands import finalize, verify
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.kernels.packed import decode
from primo_scale.kernels.products import LinearMap
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.panel.components import open_components, write_components
from primo_scale.run.design import load_design

N, D = 1501, 900


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("components")
    cohort = PanelCohort(folder, N, variants=D, phenotypes=2)
    succeeded(cohort.release("--genetic-factors", 2))
    return cohort


@pytest.fixture(scope="module")
def work(cohort):
    return cohort.folder / "release.work"


@pytest.fixture(scope="module")
def rows(work):
    return components_in(work)


def components_in(work):
    """Return everybody's components (n, m) by their definition in floats, which is exact here."""
    design = load_design(work / "design.json")
    store = open_genotype_store(work / "genotypes.zarr")
    packed = store.read_packed(slice(0, D), slice(0, N))
    codes = decode(packed, design.genotypes.code_table, N).astype(np.float64)
    found = []
    components = open_components(work / "ld_components.zarr")
    for block in range(len(components.sizes)):
        each = components.map_of(block)
        products = each.matrix.astype(np.float64) @ codes[components.variants(block)]
        scaled = np.floor(products * each.multipliers[:, None] / 2**24 + 0.5)
        found.append(np.clip(scaled, -127, 127).astype(np.int64).T)
    return found


def clipped(rows, design):
    return clipped_blocks(rows, design.block_norms, design.row_norm)


def test_sums_are_those_of_the_clipped_components(work, rows):
    check_sums(work, rows)


def check_sums(work, rows):
    """Compare the statistics with sums over the people who are not held out."""
    design = load_design(work / "design.json")
    statistics = zarr.open_group(work / "statistics.zarr", mode="r")
    outcomes = open_outcome_store(work / "outcomes.zarr")
    counted = ~outcomes.held_out(slice(0, N))
    x, record = clipped(rows, design)
    z = outcomes.read_rows(slice(0, N))
    before = np.stack([norms(part) for part in rows], axis=1)
    z = design.clipping_rule.clip_outcomes(z, design.layout.n_fixed, record, before)
    assert sum(part.shape[1] for part in x) == design.layout.n_variants < D
    for block, part in enumerate(x):
        part = np.where(counted[:, None], part, 0)
        upper = np.triu(part.T @ part)
        np.testing.assert_array_equal(np.triu(statistics[f"gram/{block}"][:]), upper)
        np.testing.assert_array_equal(statistics[f"cross/{block}"][:], part.T @ z.astype(np.int64))


def test_sums_of_components_can_be_released_without_noise(cohort, work):
    out = cohort.folder / "validation"
    asked = ("--work-dir", work, "--non-private", "--out", out)
    refused(command(finalize, *asked, "--ridge", 5), 2, "--ridge")
    succeeded(command(finalize, *asked))
    succeeded(command(verify, out))
    estimation = read_document(out)["estimation"]
    assert estimation["estimator"] == "point-normal" and estimation["penalties"] == []
    assert "--shrinkage" not in (out / "report.html").read_text()  # which no such release takes


def test_other_components_are_refused_before_payment(cohort, work, tmp_path):
    other, store = tmp_path / "work", open_components(work / "ld_components.zarr")
    shutil.copytree(work, other)
    shutil.rmtree(other / "private_statistics")
    maps = map(store.map_of, range(len(store.sizes)))
    reversed_maps = [LinearMap(-each.matrix, each.multipliers) for each in maps]
    write_components(other / "ld_components.zarr", "another request", reversed_maps)
    ledger = tmp_path / "ledger"
    asked = ("--work-dir", other, *cohort.budget, "--ledger", ledger, "--out", tmp_path / "r")
    refused(command(finalize, *asked), 3, "got another components than the statistics")
    assert not ledger.exists()


def test_sums_of_blocks_that_share_tasks_are_the_same(work, tmp_path):
    design, path = load_design(work / "design.json"), work / "ld_components.zarr"
    inputs = inputs_of(work / "genotypes.zarr", work / "outcomes.zarr")
    digests = {**inputs.digests, "components": open_components(path).digest}
    changes = {"components": path, "digests": digests, "holds_out": design.held_out > 0}
    partials = partials_of_design(
        tmp_path / "partials.zarr", work, work / "genotypes.zarr", changes=changes, together=2048
    )
    assert next(task.n_blocks for task in partials.plan.tile_tasks()) > 1
    for task in [*partials.plan.row_tasks(), *partials.plan.tile_tasks()]:
        run_task(partials.address, task)
    with Reduction(partials, tmp_path / "statistics.zarr") as reduction:
        found = reduction.finish()
    there = open_raw_statistics(work / "statistics.zarr", design.layout, design.n_samples)
    assert found.sha256 == there.sha256


def test_no_row_exceeds_a_bound_and_products_lose_little(work, rows):
    design = load_design(work / "design.json")
    x, _ = clipped(rows, design)
    assert all(norms(part).max() <= b for part, b in zip(x, design.block_norms, strict=True))
    assert sum(norms(part) for part in x).max() <= design.row_norm
    before = np.stack([norms(part) for part in rows])
    whole = before.sum(axis=0)
    assert 0.9 < np.minimum(whole, design.row_norm).mean() / whole.mean() < 0.99
    assert (before > np.array(design.block_norms)[:, None]).mean() < 0.1


def test_the_release_states_its_components_and_verifies(cohort, work):
    out = cohort.folder / "release"
    document = read_document(out)
    design = load_design(work / "design.json")
    sizes = document["cohort"]["component_sizes"]
    assert tuple(sizes) == design.components.sizes
    assert document["cohort"]["n_variants"] == D
    panel = document["public_inputs"]["ld_panel"]
    assert (panel["file"], panel["people"]) == (PANEL.name, 343)
    queries = {query["name"]: query for query in document["mechanism"]["queries"]}
    assert queries["gram"]["shape"] == [sum(sizes)] * 2
    succeeded(command(verify, out))


@pytest.mark.parametrize(
    ("options", "words"),
    thinned(
        [
            (("--row-norm", 20), ("--row-norm", "--no-ld-components")),
            (("--method", "naive", "--rounds", 2), ("--rounds", "--method")),
            (("--ridge", 3, "--genetic-factors", 2), ("--genetic-factors", "LD components")),
            (("--sumstats",), ("--sumstats", "--no-ld-components")),
            (("--no-ld-components", "--genetic-factors", 2), ("--ld-components",)),
        ],
        every=3,
    ),
)
def test_options_that_need_variants_are_refused(cohort, options, words):
    refused(cohort.release(*options, out="other"), 2, *words)
    assert not (cohort.folder / "other").exists()


def test_a_method_that_needs_variants_sums_them(cohort, work):
    asked = ("--method", "reuse-cov-proj", "--sumstats")
    assert read_document(cohort.released("others", *asked))["cohort"]["component_sizes"] is None
    asked = ("--work-dir", work, *asked[:2], *cohort.budget, "--out", cohort.folder / "other")
    refused(command(finalize, *asked), 2, "reuse-cov-proj", "--no-ld-components")


def test_a_panel_with_people_of_the_cohort_is_refused(cohort):
    other = copy_fileset(PANEL, cohort.folder / "other_panel")
    fam, person = Path(f"{other}.fam"), (cohort.folder / "cohort.fam").read_text().split()[1]
    fam.write_text(fam.read_text().replace("HG00097\tHG00097", f"{person}\t{person}"))
    found = cohort.release("--ld-panel", other, out="other")
    refused(found, 3, "other_panel: has people with the IID of somebody in the cohort")


@pytest.mark.slow
def test_people_who_are_held_out_count_in_no_sum_of_components(cohort):
    cohort.released("apart", "--hold-out", 0.2)
    work = cohort.folder / "apart.work"
    assert open_outcome_store(work / "outcomes.zarr").held_out(slice(0, N)).sum() == N // 5
    check_sums(work, components_in(work))
