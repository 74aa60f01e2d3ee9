"""Secret subsample: uniform, of the right size, used only in X'X, and deleted after use."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.acceptance_inputs import RealSet
from support.partials import partials_of_design
from support.small_cohort import BUDGET

from primo_scale.accumulation.partials import KIND, _draw_subsample
from primo_scale.accumulation.statistics import Reduction
from primo_scale.accumulation.tasks import run_task
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.kernels.packed import decode
from primo_scale.run.design import load_design
from primo_scale.storage.groups import array_of, create_group, read_block

SIZE = 120


@pytest.fixture(scope="module")
def everybody(real_sets, run, tmp_path_factory):
    inputs: RealSet = real_sets["regenie"]
    directory = tmp_path_factory.mktemp("subsample")
    store, work = directory / "genotypes.zarr", directory / "work"
    run("ingest", "--bfile", inputs.bfile, "--out", store)
    run("accumulate", "--genotypes", store, *inputs.outcome_options, "--ref-freq",
        inputs.frequencies, "--ld-blocks", "window:300",
        "--work-dir", work, *BUDGET, "--ledger", directory / "ledger")  # fmt: skip
    return work


def subsampled(work, path, *, share_of_norms=1, tile=128):
    """Create an empty store of sums of a subsample, with bounds divided by `share_of_norms`."""
    rule = load_design(work / "design.json").clipping_rule
    norms = rule.block_norms and tuple(norm // share_of_norms for norm in rule.block_norms)
    rule = replace(rule, row_norm=rule.row_norm // share_of_norms, block_norms=norms)
    changes = {"clipping_rule": rule, "subsample": SIZE}
    sides = {"tile": tile, "together": tile}
    people = {"row_group": 200, "stripe": 300, "rows_per_read": 100}
    return partials_of_design(path, work, changes=changes, **people, **sides)


@pytest.mark.parametrize(("share_of_norms", "tile"), [(1, 128), (2, 640)])
def test_only_the_gram_matrix_is_of_the_subsample(everybody, tmp_path, share_of_norms, tile):
    """The four blocks of 300 and 100 variants have several tiles each, or share two tasks."""
    design = load_design(everybody / "design.json")
    partials = subsampled(
        everybody, tmp_path / "partials.zarr", share_of_norms=share_of_norms, tile=tile
    )
    assert {task.n_blocks for task in partials.plan.tile_tasks()} == {1 if tile < 300 else 2}
    chosen = read_block(partials.array("in_subsample")).astype(bool)
    assert chosen.sum() == SIZE and chosen[:100].any() and not chosen[:100].all()
    for task in [*partials.plan.row_tasks(), *partials.plan.tile_tasks()]:
        run_task(partials.address, task)
    with Reduction(partials, tmp_path / "statistics.zarr") as reduction:
        matrices = reduction.finish().matrices

    store = open_genotype_store(Path(design.genotype_store))
    everyone = slice(0, design.n_samples)
    packed = store.read_packed(slice(0, store.n_variants), everyone)
    codes = decode(packed, design.genotypes.code_table, design.n_samples).astype(np.int64)
    blocks = range(design.layout.n_blocks)
    multipliers = [partials.block_multipliers(block, everyone) for block in blocks]
    clipped = [int((each[chosen] < 2**31).sum()) for each in multipliers]
    assert (max(clipped) > SIZE // 2) is (share_of_norms > 1)
    high, low = np.split(partials.outcome_planes(everyone).astype(np.int64), 2)
    rows = (256 * high + low + 128).T
    for block in blocks:
        x = codes[design.layout.variants(block)]
        x = np.sign(x) * (np.abs(x) * multipliers[block] >> 31)
        np.testing.assert_array_equal(matrices.gram(block), x[:, chosen] @ x[:, chosen].T)
        np.testing.assert_array_equal(matrices.cross(block), x @ rows)
    np.testing.assert_array_equal(matrices.outcome_gram(), rows.T @ rows)


def test_every_store_draws_its_own_subsample_and_keeps_it(everybody, tmp_path):
    people = [
        read_block(subsampled(everybody, tmp_path / name).array("in_subsample"))
        for name in ("first.zarr", "first.zarr", "other.zarr")
    ]
    np.testing.assert_array_equal(people[0], people[1])
    assert (people[0] != people[2]).any()  # equal with probability 1 / (500 choose 120)


def test_people_are_drawn_uniformly(tmp_path):
    """Stores that hold half of the people 1.3 times as often are found in 97 of 100 simulations."""
    stores = 30
    counts, group = np.zeros(500), create_group(tmp_path / "drawn.zarr", KIND, {})
    for name in map(str, range(stores)):
        _draw_subsample(group, name, 500, SIZE)
        counts += read_block(array_of(group, name))
    share = SIZE / 500
    # The sum of squared deviations is approximately chi-square with mean 500, sd sqrt(2 500).
    variance = stores * share * (1 - share)
    statistic = ((counts - stores * share) ** 2 / variance).sum()
    assert abs(statistic - 500) < 6 * np.sqrt(1000)
    halves = counts[:250].sum() - counts[250:].sum()
    assert abs(halves) < 6 * np.sqrt(500 * variance)
