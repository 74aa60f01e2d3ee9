"""What a release says that it needs, and what is refused before it is paid for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from primo_scale import machine
from primo_scale.errors import ResourceError
from primo_scale.methods.catalogue import METHODS
from primo_scale.run import resources
from primo_scale.run.resources import refuse_small_memory, release_needs
from primo_scale.storage.block_matrices import BlockLayout

BUDGET = ("--epsilon", 1, "--delta", 1e-6)


@pytest.fixture
def summed(cohort):
    """A cohort whose work directory has statistics."""
    cohort.ingest()
    result = cohort.accumulate(*BUDGET)
    assert result.exit_code == 0, result.stderr
    return cohort


def small_memory(patch):
    patch.setattr(resources, "resident_memory", lambda: 100 << 20)
    patch.setattr(resources, "available_memory", lambda: 0)


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_too_little_memory_is_refused_before_the_ingest(cohort, monkeypatch, options):
    small_memory(monkeypatch)
    result = cohort.release(*options)
    assert result.exit_code == 4
    last = result.stderr.splitlines()[-1]
    assert "100 MiB there" in last
    assert "where there is more memory" in last
    assert not list(cohort.folder.rglob("genotypes.zarr"))
    assert not cohort.ledger.exists()


def test_finalize_spends_nothing_where_there_is_too_little_memory(summed, monkeypatch):
    with monkeypatch.context() as patch:
        small_memory(patch)
        refused = summed.finalize()
    assert refused.exit_code == 4
    assert "not enough memory" in refused.stderr
    assert not summed.ledger.exists()


def test_a_full_disk_is_refused_before_paying_and_not_where_all_is_drawn(summed, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(machine, "free_disk", lambda _: 10)
        refused = summed.finalize()
        assert refused.exit_code == 4
        assert "not enough free disk for the private statistics" in refused.stderr
        assert summed.charges() == ()
    assert summed.finalize().exit_code == 0
    assert len(summed.charges()) == 1
    monkeypatch.setattr(machine, "free_disk", lambda _: 10)
    replayed = summed.finalize()
    assert replayed.exit_code == 0, replayed.stderr
    # The statistics of the first release leave no room for those of another one.
    other = summed.finalize("--epsilon", 0.5, "--out", summed.folder / "other")
    assert other.exit_code == 4
    assert len(summed.charges()) == 1


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
