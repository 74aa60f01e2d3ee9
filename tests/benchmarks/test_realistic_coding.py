"""Benchmarks of our accumulation run with the codes of a reference panel."""

import importlib
from pathlib import Path

import pytest

from benchmarks import cohorts, programs
from benchmarks.cohorts import part_of, simulated
from benchmarks.measurement import PeakMemory
from benchmarks.programs import Bench
from benchmarks.tables import TABLES
from primo_scale.genotypes.coding import read_reference_frequencies
from primo_scale.genotypes.store import open_genotype_store

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
def test_accumulations_take_the_frequencies_of_every_variant(tmp_path, commands):
    """Of a cohort that repeats the panel's variants, and of a part of it."""
    whole, short = simulated(tmp_path, 60, 3200), ("--ld-blocks", "window:200")
    for cohort in (whole, part_of(whole, 40, 3100)):
        assert Bench(tmp_path, 1).ours("row", cohort, *short)["largest_code"] > 1
        panel = Path(commands[-1][commands[-1].index("--ref-freq") + 1])
        matched = read_reference_frequencies(panel, open_genotype_store(cohort.store).variants)
        assert matched.counts.matched == cohort.variants


@pytest.mark.slow
@pytest.mark.usefixtures("commands")
def test_our_product_of_the_peers_codes_is_that_of_numpy(tmp_path):
    bench, cohort = Bench(tmp_path, 1), simulated(tmp_path, 60, 100)
    ours = bench.ours("ours", cohort, "--ld-blocks", "window:200", with_frequencies=False)
    words = ("in-memory", "--store", cohort.store, "--with", "numpy", "--dtype", "float64")
    assert ours["gram_sum"] == bench.peer("numpy", cohort, *words)["gram_sum"]
    assert ours["largest_code"] == 1


@pytest.mark.parametrize(("last", "agree"), [(7, True), (8, False)])
def test_only_products_of_the_same_codes_are_compared(last, agree):
    def row(gram_sum, **largest_code):
        return {
            "name": "row", "samples": 4, "variants": 3, "seconds": [1.0],
            "memory": {"total": 2**30}, "gram_sum": gram_sum, **largest_code,
        }  # fmt: skip

    measured = {
        "peaks": {"vnni": [1e9]},
        "ours": [row(gram_sum, largest_code=code) for gram_sum, code in ((1234, 127), (7, 1))],
        "peers": [row(last)],
        "decoding": [],
    }
    text = TABLES["headline"](measured)
    assert ("all products of the same codes agree." in text) == agree
    assert ("PRODUCTS DISAGREE" in text) != agree
