"""What the pre-flight says that a run needs, and refuses where there is too little."""

from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from support.small_cohort import refused, succeeded

from primo_scale import machine
from primo_scale.errors import ResourceError
from primo_scale.methods.catalogue import METHODS
from primo_scale.run import plan as plan_module
from primo_scale.run.plan import refuse_small_memory, release_memory
from primo_scale.storage.block_matrices import BlockLayout


@pytest.fixture
def summed(ingested):
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
        result = succeeded(run("--dry-run", "--verbose"))
        memory, after = result.stderr.partition("Needs\n")[2].splitlines()[:2]
        assert "2 tasks" in memory
        assert "kernel" in memory
        assert "disk" in memory
        assert "noise and weights take" in after
    assert sorted(ingested.folder.rglob("*")) == before


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


def test_methods_that_keep_more_need_more(monkeypatch):
    """The decompositions of 20 blocks instead of one."""
    small_memory(monkeypatch)
    many = design(sizes=(1024,) * 20)
    usual, projected = (
        release_memory(
            many, SimpleNamespace(method=chosen, estimator=chosen.estimator, scores=None)
        )
        for chosen in (METHODS["reuse-cov-gauss"], METHODS["reuse-cov-proj"])
    )
    assert projected > usual
    with pytest.raises(ResourceError, match=r"--pheno-name.*--ld-blocks"):
        refuse_small_memory(many, usual)
