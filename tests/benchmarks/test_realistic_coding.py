"""Benchmarks of our accumulation run with the codes of a reference panel."""

import importlib

import pytest

from benchmarks import cohorts, programs
from benchmarks.cohorts import simulated
from benchmarks.measurement import PeakMemory
from benchmarks.programs import Bench

PEAK = PeakMemory(total=2**30, main=2**29, child=2**28)


@pytest.fixture
def commands(monkeypatch):
    """Run programs in this process, without the imports of a fresh one; list what was run."""
    given = []

    def run(words, directory):
        given.append(words)
        name = "primo_scale.cli.main" if words[2] == "primo_scale" else words[2]
        importlib.import_module(name).main(words[3:], standalone_mode=False)
        return PEAK

    for module in (cohorts, programs):
        monkeypatch.setattr(module, "run_measured", run)
    return given


@pytest.mark.slow
@pytest.mark.usefixtures("commands")
def test_our_product_of_the_peers_codes_is_that_of_numpy(tmp_path):
    bench, cohort = Bench(tmp_path, 1), simulated(tmp_path, 60, 100)
    ours = bench.ours("ours", cohort, "--ld-blocks", "window:200", with_frequencies=False)
    words = ("in-memory", "--store", cohort.store, "--with", "numpy", "--dtype", "float64")
    assert ours["gram_sum"] == bench.peer("numpy", cohort, *words)["gram_sum"]
    assert ours["largest_code"] == 1
