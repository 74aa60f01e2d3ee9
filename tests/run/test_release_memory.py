"""What a release says that it needs, and what is refused before it is paid for."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

import numpy as np
import pytest
from small_cohort import command, outcomes, write_cohort

from primo_scale import machine
from primo_scale.cli.accumulate import main as accumulate
from primo_scale.cli.finalize import main as finalize
from primo_scale.cli.ingest import main as ingest
from primo_scale.cli.release import main as gwas_release
from primo_scale.errors import ResourceError
from primo_scale.methods.catalogue import METHODS
from primo_scale.run import resources as module
from primo_scale.run.resources import refuse_small_memory, release_needs
from primo_scale.storage.block_matrices import BlockLayout

BUDGET = ["--epsilon", 1, "--delta", 1e-6]


@pytest.fixture
def cohort(tmp_path):
    return write_cohort(tmp_path / "inputs")


@pytest.fixture
def summed(cohort, tmp_path):
    """Options of finalize for a work directory with statistics."""
    store, work = cohort / "genotypes.zarr", tmp_path / "work"
    assert command(ingest, "--bfile", cohort / "cohort", "--out", store).exit_code == 0
    options = ["--work-dir", work, *BUDGET]
    result = command(accumulate, "--genotypes", store, *outcomes(cohort), *options)
    assert result.exit_code == 0, result.stderr
    return ["--work-dir", work, "--ledger", tmp_path / "ledger.sqlite"]


def charges(ledger):
    query = "SELECT count(*) FROM events WHERE kind = 'reserved'"
    return sqlite3.connect(ledger).execute(query).fetchone()[0]


def small_memory(patch):
    patch.setattr(module, "resident_memory", lambda: 100 << 20)
    patch.setattr(module, "available_memory", lambda: 0)


@pytest.mark.parametrize("dry_run", [True, False])
def test_too_little_memory_is_refused_before_the_ingest(cohort, tmp_path, monkeypatch, dry_run):
    small_memory(monkeypatch)
    result = command(
        gwas_release, "--bfile", cohort / "cohort", *outcomes(cohort), *BUDGET,
        "--out", tmp_path / "release", "--ledger", tmp_path / "ledger.sqlite",
        *(["--dry-run"] if dry_run else []),
    )  # fmt: skip
    assert result.exit_code == 4
    last = result.stderr.splitlines()[-1]
    assert "100 MiB there" in last
    assert "where there is more memory" in last
    assert not (tmp_path / "release.work" / "genotypes.zarr").exists()
    assert not (tmp_path / "ledger.sqlite").exists()


def test_finalize_spends_nothing_where_there_is_too_little_memory(summed, tmp_path, monkeypatch):
    arguments = [*summed, *BUDGET, "--out", tmp_path / "release"]
    with monkeypatch.context() as patch:
        small_memory(patch)
        refused = command(finalize, *arguments)
    assert refused.exit_code == 4
    assert "not enough memory" in refused.stderr
    assert not (tmp_path / "ledger.sqlite").exists()
    assert command(finalize, *arguments).exit_code == 0


def test_a_full_disk_is_refused_before_paying_and_not_where_all_is_drawn(
    summed, tmp_path, monkeypatch
):
    ledger = tmp_path / "ledger.sqlite"
    first = [*summed, *BUDGET, "--out", tmp_path / "release"]
    second = [*summed, "--epsilon", 0.5, "--delta", 1e-6, "--out", tmp_path / "another"]
    with monkeypatch.context() as patch:
        patch.setattr(machine, "free_disk", lambda _: 10)
        refused = command(finalize, *first)
        assert refused.exit_code == 4
        assert "not enough free disk for the private statistics" in refused.stderr
        assert charges(ledger) == 0
    assert command(finalize, *first).exit_code == 0
    assert charges(ledger) == 1
    monkeypatch.setattr(machine, "free_disk", lambda _: 10)
    replayed = command(finalize, *first)
    assert replayed.exit_code == 0, replayed.stderr
    assert command(finalize, *second).exit_code == 4  # what the first one drew is no room for it
    assert charges(ledger) == 1


def design(*, sizes, phenotypes=10, clipped=True):
    layout = BlockLayout((0, *np.cumsum(sizes).tolist()), 2, phenotypes)
    return SimpleNamespace(layout=layout, subsample=None, clipped=clipped)


def needs(method, **shapes):
    chosen = METHODS[method]
    return release_needs(
        design(**shapes), SimpleNamespace(method=chosen, estimator=chosen.estimator)
    )


def test_methods_that_store_or_keep_more_need_more():
    """Ten copies of X'X for ten phenotypes; the decompositions of 20 blocks instead of one."""
    sizes = (1024,) * 20
    usual = needs("reuse-cov-gauss", sizes=sizes)
    assert release_needs(design(sizes=sizes), None) == usual
    grams = needs("naive", sizes=sizes).noisy_bytes - usual.noisy_bytes
    entries = 9 * 20 * 1024**2 * 8
    assert entries < grams < 1.001 * entries
    kept = needs("reuse-cov-proj", sizes=sizes).solving_bytes - usual.solving_bytes
    assert kept == 20 * 8 * 1024 * (1024 + 10)
    assert release_needs(design(sizes=sizes, clipped=False), None).noisy_bytes == 0


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
        refuse_small_memory(release_needs(design(**shapes), None))
