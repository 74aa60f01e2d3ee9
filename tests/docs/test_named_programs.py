"""Every program of benchmarks/ and experiments/ that a page or the Makefile names runs, tiny.

The programs run in this process, because each start of Python would take seconds.
"""

import importlib
import logging
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.documented_code import ROOT
from support.tiers import missing
from test_links import PAGES

from benchmarks import cohorts, genome, headline, ingest, programs
from benchmarks.measurement import PeakMemory
from experiments import (
    hold_out_coverage,
    misspecification,
    population_structure,
    projected_scores,
    stacked_scores,
)
from experiments.releases import DEMO, People
from primo_scale.run.run_log import LOGGER
from primo_scale.simulation.cohort import TraitModel

_NAMED = re.compile(r"python -m ((?:benchmarks|experiments)\S*)[ \\\n]+(\S+)")
_TARGET = re.compile(r"\bmake ([a-z][a-z_-]+)")
_SHELL_VARIABLE, _LOOP = "$$part", re.compile(r"for part in ([^;]+);")
_PAGES = [path for path in PAGES if path.name != "CHANGELOG.md"]
_FEW = "--data run --results run.json --repetitions 1"
_SMALL = f"{_FEW} --samples 200 --variants 120"
TINY = {
    "benchmarks genome": f"{_SMALL} --phenotypes 1,2",
    "benchmarks headline": _SMALL,
    "benchmarks sweep": f"{_FEW} --people 2000,2004 --variants 256,260 --at 2004 260",
    "benchmarks scaling": _SMALL,
    "benchmarks ingest": _SMALL,
    "benchmarks subsample": _SMALL,
    "benchmarks document": "--results run.json",
    "experiments.hold_out_coverage": "coverage.jsonl --releases 1",
    "experiments.misspecification": "folder --draws 1",
    "experiments.population_structure": "folder",
    "experiments.projected_scores": "folder",
    "experiments.public_scores": f"--folder folder --panel {DEMO} --private-people 400 "
    "--public-people 400 --traits 2 --most-releases 1 --cell 5 1",
    "experiments.release_accuracy": f"--ref-freq {DEMO}.afreq --out folder --people 400 "
    "--columns large --epsilon 5 --phenotypes 1",
    "experiments.reproduce": "reconstruction --quick",
    "experiments.stacked_scores": "folder",
}
ELSEWHERE = {"experiments.ld_score_regression"}  # tests/ldsc runs it


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def named_programs() -> set[str]:
    """Return the programs, and of benchmarks also the parts, that pages and the Makefile name."""
    makefile = text_of(ROOT / "Makefile")
    (parts,) = _LOOP.findall(makefile)
    found = set()
    for text in (makefile, *map(text_of, _PAGES)):
        for module, word in _NAMED.findall(text):
            words = parts.split() if word == _SHELL_VARIABLE else [word]
            parts_named = {f"{module} {part.rstrip('`,')}" for part in words}
            found |= parts_named if module == "benchmarks" else {module.rstrip("`,:")}
    return found


def test_every_named_program_has_a_tiny_run():
    assert named_programs() == TINY.keys() | ELSEWHERE


@pytest.mark.parametrize("page", [*_PAGES, ROOT / ".ci/run", ROOT / ".ci/nightly"], ids=str)
def test_every_named_target_is_in_the_makefile(page):
    known = re.findall(r"^\.PHONY: (.*)", text_of(ROOT / "Makefile"), re.MULTILINE)
    code = "\n".join(re.findall(r"`[^`]*`|^ *make .*", text_of(page), re.MULTILINE))
    assert set(_TARGET.findall(code)) <= {"FIGURE", *" ".join(known).split()}


@pytest.fixture
def in_process(monkeypatch, tmp_path):
    """Run programs in this process, in an empty folder."""
    affinity, level = os.sched_getaffinity(0), LOGGER.level
    monkeypatch.setattr(LOGGER, "handlers", [])
    LOGGER.setLevel(logging.NOTSET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for module in (cohorts, genome, headline, programs):
        monkeypatch.setattr(module, "run_measured", run_here)
    monkeypatch.setattr(ingest, "_alone", lambda step, *words: step(*words))
    monkeypatch.setattr(headline, "FLOATS", ("float32",))
    monkeypatch.setattr(headline, "_chunkings", lambda cohort: [(cohort.samples, cohort.variants)])
    (tmp_path / "page.md").write_text(text_of(ROOT / "docs/benchmarks.md"))
    (tmp_path / "run.json").write_text("{}")
    monkeypatch.setattr("benchmarks.__main__._PAGE", tmp_path / "page.md")
    monkeypatch.setattr(hold_out_coverage, "FRESH", 4_000)
    monkeypatch.setattr(hold_out_coverage, "MEASURED", 1)
    people = People(400, 41, phenotypes=10)
    monkeypatch.setattr(misspecification, "_COHORT", people)
    monkeypatch.setattr(misspecification, "_PEOPLE", {"cohort": people, "fresh": people})
    monkeypatch.setattr(misspecification, "CELLS", misspecification.CELLS[:1])
    monkeypatch.setattr(population_structure, "_PEOPLE", {"cohort": 400, "fresh": 200})
    monkeypatch.setattr(population_structure, "_COVARIATES", {2: "2 components"})
    monkeypatch.setattr(projected_scores, "_PHENOTYPES", (5,))
    sizes = {"public": 400, "cohort": 400, "fresh": 200}
    traits = (stacked_scores.Traits(2, 0.3, False),)
    model = TraitModel(5, None, 0.3, 0.05)
    for name, value in {"_PEOPLE": sizes, "_TRAITS": traits, "_PUBLIC": model, "_GROUPS": 1,
                        "_K": 5, "_EPSILONS": (3.0,)}.items():  # fmt: skip
        monkeypatch.setattr(stacked_scores, name, value)
    yield
    LOGGER.setLevel(level)
    os.sched_setaffinity(0, affinity)


def run_here(words, directory):
    """Run a program as `run_measured` does, one of this project in this process."""
    if words[1] == "-m":
        main_of(words[2])(words[3:], standalone_mode=False)
    else:
        subprocess.run(words, check=True, capture_output=True)
    return PeakMemory(total=2**30, main=2**29, child=2**28)


def main_of(module):
    homes = {"benchmarks": "benchmarks.__main__", "primo_scale": "primo_scale.cli.main"}
    return importlib.import_module(homes.get(module, module)).main


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("program", TINY)
def test_the_program_runs(program):
    module, *part = program.split()
    simulate = "experiments.population_structure", "experiments.stacked_scores"
    if program in simulate and shutil.which("plink2") is None:
        missing("plink2")
    main_of(module)([*part, *TINY[program].split()], standalone_mode=False)
