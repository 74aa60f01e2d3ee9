"""Benchmarks of our accumulation run with the codes of a reference panel."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cohorts
from benchmarks.cohorts import part_of, simulated
from benchmarks.programs import Bench
from benchmarks.tables import TABLES
from primo_scale.genotypes.frequencies import read_reference_frequencies
from primo_scale.genotypes.store import open_genotype_store

PEAK = {"total": 2**30, "main": 2**29, "child": 2**28}


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the options that the last accumulation was given; none is run."""
    given: list[str] = []

    def program(self: Bench, module: str, *options: object) -> dict[str, Any]:
        assert module == "ours"
        given[:] = map(str, options)
        return {"found": {"seconds": [1.0]}, "memory": PEAK}

    monkeypatch.setattr(Bench, "program", program)
    return given


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make cohorts in this process, without the imports of a fresh one."""

    def run(words: list[str], directory: Path) -> None:
        importlib.import_module(words[2]).main(words[3:], standalone_mode=False)

    monkeypatch.setattr(cohorts, "run_measured", run)


@pytest.mark.usefixtures("in_this_process")
def test_accumulations_take_the_frequencies_of_every_variant(
    tmp_path: Path, words: list[str]
) -> None:
    """Of a cohort that repeats the panel's variants, and of a part of it."""
    whole = simulated(tmp_path, 60, 3200)
    for cohort in (whole, part_of(whole, 40, 3100)):
        Bench(tmp_path, 1).ours("row", cohort)
        panel = Path(words[words.index("--ref-freq") + 1])
        matched = read_reference_frequencies(panel, open_genotype_store(cohort.store).variants)
        assert matched.n_matched == cohort.variants
    Bench(tmp_path, 1).ours("row", whole, with_frequencies=False)
    assert "--ref-freq" not in words


@pytest.mark.parametrize(("last", "agree"), [(7, True), (8, False)])
def test_only_products_of_the_same_codes_are_compared(last: int, agree: bool) -> None:
    def row(largest_code: int, gram_sum: int) -> dict[str, Any]:
        return {
            "name": "row", "samples": 4, "variants": 3, "seconds": [1.0], "memory": PEAK,
            "largest_code": largest_code, "gram_sum": gram_sum,
        }  # fmt: skip

    peer = row(1, last)
    del peer["largest_code"]
    measured = {
        "peaks": {"vnni": [1e9]},
        "ours": [row(127, 1234), row(127, 1234), row(1, 7)],
        "peers": [peer],
        "decoding": [],
    }
    text = TABLES["headline"].write(measured)
    assert ("all products of the same codes agree." in text) == agree
    assert ("PRODUCTS DISAGREE" in text) != agree
