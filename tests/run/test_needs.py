"""What the pre-flight says that a run needs, and refuses where there is too little."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import psutil
import pytest
from support.command_io import PANEL
from support.small_cohort import refused, succeeded

import primo_scale as ps
from primo_scale import machine
from primo_scale.errors import ResourceError
from primo_scale.genotypes.ingest import store_bytes
from primo_scale.methods.catalogue import METHODS
from primo_scale.run import plan as plan_module
from primo_scale.run.ingest_stage import planned_genotypes
from primo_scale.run.plan import refuse_small_memory, release_needs
from primo_scale.run.request import GenotypeFiles
from primo_scale.storage.block_matrices import BlockLayout


@pytest.fixture
def summed(ingested):
    """A cohort whose work directory has statistics."""
    succeeded(ingested.accumulate())
    return ingested


def small_memory(patch):
    patch.setattr(plan_module, "resident_memory", lambda: 100 << 20)
    patch.setattr(plan_module, "available_memory", lambda: 0)


def full_disk(patch):
    patch.setattr(machine, "free_disk", lambda _: 10)


@pytest.mark.parametrize("options", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("shrink", "words"),
    [(small_memory, ["100 MiB there", "where there is more memory"]), (full_disk, ["disk"])],
)
def test_a_small_machine_is_refused_before_the_ingest(cohort, monkeypatch, options, shrink, words):
    shrink(monkeypatch)
    refused(cohort.release(*options), 4, *words)
    assert not list(cohort.folder.rglob("genotypes.zarr"))
    assert not cohort.ledger.exists()


@pytest.mark.parametrize("left", ["genotypes.zarr.partial/store.zarr/c", "statistics.zarr/c"])
def test_files_of_an_interrupted_run_reduce_needed_space(cohort, monkeypatch, left):
    """An ingest continues, and old statistics are deleted before new ones are written."""
    monkeypatch.setattr(machine, "free_disk", lambda _: 0)
    assert cohort.release("--dry-run").exit_code == 4
    work = cohort.folder / "release.work"
    file = work / left
    file.parent.mkdir(parents=True)
    work.chmod(0o700)
    with file.open("wb") as written:
        written.truncate(1 << 30)
    succeeded(cohort.release("--dry-run"))


@pytest.mark.parametrize("dry_run", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--workers", 2 + psutil.virtual_memory().total // (200 << 20)],
            ["not enough memory", "iB available", "fewer workers"],
        ),
        (["--memory-limit", "200MiB"], ["--memory-limit", "200 MiB"]),
    ],
)
def test_too_little_memory_for_workers_is_refused_with_numbers(ingested, dry_run, options, words):
    refused(ingested.accumulate(*options, *dry_run), 4, *words)
    assert not (ingested.work / "partials.zarr").exists()


def test_a_dry_run_reports_needs_and_writes_nothing(ingested):
    before = sorted(ingested.folder.rglob("*"))
    for run in (ingested.release, ingested.accumulate):
        result = succeeded(run("--dry-run"))
        memory, after = (line for line in result.stderr.splitlines() if "pre-flight" in line)
        assert "2 tasks" in memory
        assert "kernel" in memory
        assert "free" in memory
        assert "noise and weights take" in after
    assert sorted(ingested.folder.rglob("*")) == before


def test_the_disk_of_a_run_counts_whole_chunks_of_genotypes(cohort, tmp_path, monkeypatch):
    """The last chunk of 2,048 variants takes as much disk as the others."""
    variants = pd.read_csv(f"{PANEL}.bim", sep="\t", header=None)[1][:2060]
    (tmp_path / "list").write_text("\n".join(variants))
    files = {"bfile": PANEL, "extract": tmp_path / "list"}
    plan = planned_genotypes(GenotypeFiles(**files), tmp_path / "a.zarr").plan
    needed = store_bytes(plan, plan.n_partitions)
    ps.ingest(**files, out=tmp_path / "a.zarr")
    written = sum(path.stat().st_size for path in (tmp_path / "a.zarr" / "genotypes").rglob("*"))
    assert 2 * 2048 * 86 <= written <= needed  # 343 people take 86 bytes
    monkeypatch.setattr(plan_module, "store_bytes", lambda *_: 1 << 60)
    refused(cohort.release("--dry-run"), 4, "disk")


def test_a_dry_run_refuses_a_work_directory_open_to_others(ingested):
    ingested.work.mkdir(mode=0o755)
    assert ingested.accumulate("--dry-run").exit_code == 3
    assert list(ingested.work.iterdir()) == []


def test_a_dry_run_uses_an_existing_genotype_store(ingested):
    work = ingested.folder / "release.work"
    work.mkdir(mode=0o700)
    ingested.store.rename(work / "genotypes.zarr")
    assert ingested.release("--dry-run").exit_code == 0
    (ingested.folder / "keep").write_text("p1\np2\n")
    refused(
        ingested.release("--keep", ingested.folder / "keep", "--dry-run"),
        3,
        "is not the result of this request",
    )


def test_finalize_spends_nothing_where_there_is_too_little_memory(summed, monkeypatch):
    with monkeypatch.context() as patch:
        small_memory(patch)
        refused(summed.finalize(), 4, "not enough memory")
    (charge,) = summed.charges()
    assert charge.bound_to == (), "its key may still draw other statistics"


def test_a_full_disk_is_refused_before_drawing_and_not_where_all_is_drawn(summed, monkeypatch):
    with monkeypatch.context() as patch:
        full_disk(patch)
        refused(summed.finalize(), 4, "not enough free disk for the private statistics")
        assert summed.charges()[0].bound_to == ()
    assert summed.finalize().exit_code == 0
    assert len(summed.charges()) == 1
    full_disk(monkeypatch)
    succeeded(summed.finalize())


def design(*, sizes, phenotypes=10, clipped=True):
    layout = BlockLayout((0, *np.cumsum(sizes).tolist()), 2, phenotypes)
    return SimpleNamespace(
        layout=layout,
        block_sizes=sizes,
        n_variants=sum(sizes),
        subsample=None,
        clipped=clipped,
        rounds=1,
    )


def needs(method, **shapes):
    chosen = METHODS[method]
    return release_needs(
        design(**shapes), SimpleNamespace(method=chosen, estimator=chosen.estimator, priors=None)
    )


def test_methods_that_store_or_keep_more_need_more():
    """Ten copies of X'X for ten phenotypes; the decompositions of 20 blocks instead of one."""
    sizes = (1024,) * 20
    usual = needs("reuse-cov-gauss", sizes=sizes)
    grams = needs("naive", sizes=sizes).noisy_bytes - usual.noisy_bytes
    entries = 9 * 20 * 1024**2 * 8
    assert entries < grams < 1.001 * entries
    assert needs("reuse-cov-proj", sizes=sizes).memory_bytes > usual.memory_bytes
    assert needs("reuse-cov-gauss", sizes=sizes, clipped=False).noisy_bytes == 0


@pytest.mark.parametrize(
    ("shapes", "remedy"),
    [
        ({"sizes": (20_000,)}, "--ld-blocks"),
        ({"sizes": (500,) * 2_000, "phenotypes": 1_000}, "--pheno-name"),
    ],
)
def test_the_remedy_is_for_what_is_too_large(shapes, remedy, monkeypatch):
    small_memory(monkeypatch)
    with pytest.raises(ResourceError, match=remedy):
        refuse_small_memory(needs("reuse-cov-gauss", **shapes))
