"""Statistics are bit-identical for any workers, chunks, plan, order and damage."""

import random
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from support.command_io import PANEL, digest_in, table_options
from support.partials import partials_of_design
from support.small_cohort import BUDGET, share_adjustment
from support.stores import flip_a_bit, swap
from support.tiers import thinned

from primo_scale.accumulation.executors import run_on_threads
from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.statistics import Reduction, accumulate
from primo_scale.accumulation.tasks import run_task

N_PEOPLE = 5_003  # three row groups, the last byte of a packed row not full
N_VARIANTS = 600
PARTIAL_ARRAYS = ["row_multipliers", "outcome_planes", "outcome_gram", "gram/4", "cross/4"]
HARMS = ["swapped", "flipped", "removed", "flipped", "swapped"]
CUT = {"row_group": 2_048, "stripe": 2_048, "rows_per_read": 1_024}
CHUNKS = {
    "default": (),
    "narrow": ("--chunk-variants", 333, "--chunk-samples", 5_004),
    "small": ("--chunk-variants", 1_000, "--chunk-samples", 1_028),
}


@dataclass(frozen=True)
class Simulated:
    prefix: Path
    stores: dict[str, Path]

    def options(self, work: Path, *, store: str = "default", pheno: Path | None = None) -> list:
        """Return options of ``accumulate`` that lead to many tasks and clipped rows."""
        return [
            "--genotypes", self.stores[store], "--ref-freq", f"{PANEL}.afreq",
            *table_options(self.prefix), *(["--pheno", pheno] if pheno else []),
            "--ld-blocks", "window:50", "--row-norm", 24, "--work-dir", work, *BUDGET,
            "--ledger", f"{self.prefix}.sqlite",
        ]  # fmt: skip


@pytest.fixture(scope="module")
def simulated(run, tmp_path_factory) -> Simulated:
    directory = tmp_path_factory.mktemp("simulated")
    prefix = directory / "cohort"
    run("simulate", "--bfile", PANEL, "--out", prefix, "--samples", N_PEOPLE, "--seed", 1,
        "--variants", N_VARIANTS, "--missing", 0.01, "--phenotypes", 3,
        "--prevalence", 0.2)  # fmt: skip
    stores = {}
    for name, chunks in CHUNKS.items():
        stores[name] = directory / f"{name}.zarr"
        run("ingest", "--bfile", prefix, "--out", stores[name], *chunks)
    return Simulated(prefix, stores)


@pytest.fixture(scope="module")
def undisturbed(simulated: Simulated, run, tmp_path_factory) -> Path:
    work = tmp_path_factory.mktemp("undisturbed") / "work"
    done = run("accumulate", *simulated.options(work))
    (work / "printed").write_text(done.stdout)
    return work


@pytest.fixture(scope="module")
def digest(undisturbed: Path) -> str:
    return digest_in((undisturbed / "printed").read_text())


@pytest.mark.parametrize(
    ("store", "execution"), thinned([("narrow", ()), ("small", ("--workers", 2))], every=2)
)
def test_workers_chunks_and_order_of_the_phenotypes(
    store, execution, simulated, undisturbed, digest, run, tmp_path
) -> None:
    rows = pd.read_csv(f"{simulated.prefix}.pheno.tsv", sep="\t", dtype=str)
    permuted = tmp_path / "permuted.tsv"
    rows.sample(frac=1, random_state=5).to_csv(permuted, sep="\t", index=False)
    options = simulated.options(tmp_path / "work", store=store, pheno=permuted)
    share_adjustment(undisturbed, tmp_path / "work")
    assert digest_in(run("accumulate", *options, *execution).stdout) == digest


@pytest.mark.parametrize(
    ("row_group", "stripe", "rows_per_read", "tile", "together", "kernel"),
    thinned([(5_120, 5_120, 5_120, 19, 0, "auto"), (1_024, 512, 256, 32, 32, "float32")], every=4),
)
def test_plan_kernel_and_order_of_tasks(
    row_group, stripe, rows_per_read, tile, together, kernel, simulated, undisturbed, digest,
    tmp_path,
) -> None:  # fmt: skip
    sides = {"tile": tile, "together": together}
    cut = {"row_group": row_group, "stripe": stripe, "rows_per_read": rows_per_read, **sides}
    partials = partials_at(tmp_path / "partials.zarr", simulated, undisturbed, **cut)
    partials = replace(partials, kernel=kernel)
    shuffle = random.Random(row_group).shuffle
    with Reduction(partials, tmp_path / "statistics.zarr") as reduction:
        for tasks in (list(partials.plan.row_tasks()), list(partials.plan.tile_tasks())):
            shuffle(tasks)
            for task in tasks:
                run_task(partials.address, task)
                reduction.add(task)
        assert reduction.finish().sha256 == digest


@pytest.fixture(scope="module")
def half_done(simulated: Simulated, undisturbed: Path, tmp_path_factory) -> Partials:
    """Provide a store with all row tasks and half of the tile tasks of three row groups."""
    path = tmp_path_factory.mktemp("half-done") / "partials.zarr"
    partials = partials_at(path, simulated, undisturbed, **CUT)
    for task in [*partials.plan.row_tasks(), *list(partials.plan.tile_tasks())[::2]]:
        run_task(partials.address, task)
    return partials


@pytest.mark.parametrize(
    ("array", "harm"), thinned(zip(PARTIAL_ARRAYS, HARMS, strict=True), every=2)
)
def test_a_damaged_partial_is_computed_again(
    array, harm, half_done, simulated, undisturbed, digest, tmp_path
) -> None:
    """The run that continues writes a damaged code table again."""
    copied = tmp_path / "partials.zarr"
    shutil.copytree(half_done.path, copied)
    flip_a_bit(copied / half_done.store_id / "code_table/c/0/0")
    one, other = chunks_of(copied / half_done.store_id / array)[:2]
    if harm == "swapped":
        assert one.stat().st_size == other.stat().st_size
        assert one.read_bytes() != other.read_bytes()
        swap(one, other)
    elif harm == "flipped":
        flip_a_bit(one)
    else:
        one.unlink()
    partials = partials_at(copied, simulated, undisturbed, **CUT)
    threads = partial(run_on_threads, 2)
    raw = accumulate(threads, partials, tmp_path / "statistics.zarr", lambda done, total: None)
    assert raw.sha256 == digest


def partials_at(path: Path, simulated: Simulated, work: Path, **cut: int) -> Partials:
    """Open or create a checkpoint of the undisturbed run, with another plan."""
    return partials_of_design(path, work, simulated.stores["default"], **cut)


def chunks_of(store: Path) -> list[Path]:
    """Return the committed chunks below `store`, without temporary files."""
    return sorted(path for path in store.glob("c/**/*") if path.name.isdigit() and path.is_file())
