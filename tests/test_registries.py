"""Registries: every registered name keeps its protocol, and a toy extension works end to end.

docs/extending.md shows the registration of each.
"""

from __future__ import annotations

import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from methods_examples import inputs_for, integer_cohort, solved, statistics_of
from small_cohort import command

from primo_scale.cli.finalize import main as finalize
from primo_scale.cluster.job_queue import job_script
from primo_scale.cluster.profile import PROFILES, JobQueueProfile
from primo_scale.cluster.queues import JOB_QUEUES, JobQueue
from primo_scale.cluster.read_profile import read_profile
from primo_scale.kernels import AUTOMATIC, FASTEST_FIRST, KERNELS
from primo_scale.kernels.choice import choose_kernel
from primo_scale.kernels.products import ArraySums, Int8, Int32, ProductSum
from primo_scale.methods.catalogue import METHODS, estimator_for
from primo_scale.methods.estimators import ESTIMATORS, Estimator, EstimatorInputs
from primo_scale.methods.shrinkage import FLOOR_SHARE, Float64, Ridge, Shrinkage
from primo_scale.methods.solution import solve_statistics
from primo_scale.methods.spectrum import Spectrum
from primo_scale.publication.recompute_method import PARAMETERS as VERIFIED_ESTIMATORS

ROOT = Path(__file__).parents[1]


# ---- Kernels -------------------------------------------------------------------------------------


class PlainKernel(ArraySums):
    """Toy kernel: products of int64."""

    name = "plain"
    needs = "nothing"

    def is_available(self) -> bool:
        return True

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        total += (left.astype(np.int64) @ right.astype(np.int64).T).astype(np.int32)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        return 8 * ((left + right) * people + 2 * left * right)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_keeps_its_protocol(name: str) -> None:
    kernel = pkgutil.resolve_name(KERNELS[name])(largest_code=1)
    assert kernel.name == name
    assert kernel.needs
    assert isinstance(kernel.is_available(), bool)
    total = kernel.temporary_bytes(3, 4, 1000, same=False)
    assert 0 < total <= kernel.temporary_bytes(3, 5, 1000, same=False)
    assert kernel.library_bytes >= 0
    assert all(callable(getattr(kernel, method)) for method in ("zeros", "add", "read"))


def test_the_documentation_lists_every_kernel() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/kernels.md").read_text(), re.MULTILINE)
    assert rows == list(KERNELS)
    assert set(FASTEST_FIRST) < set(KERNELS)


def test_a_toy_kernel_gives_the_same_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KERNELS, "plain", f"{__name__}:PlainKernel")
    codes = np.random.default_rng(1).integers(-127, 128, (20, 3001)).astype(np.int8)
    sums = []
    for name in ("plain", AUTOMATIC):
        total = ProductSum(choose_kernel(name, 127), (20, 20), 127**2)
        total.add(codes, codes)
        sums.append(np.triu(total.total()))
    assert np.array_equal(*sums)


# ---- Estimators ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Halved:
    """Toy rule: half of ridge."""

    penalty: float

    def factors(self, eigenvalues: Float64, target: Float64) -> Float64:
        return Ridge(self.penalty).factors(eigenvalues, target) / 2


def halved(spectrum: Spectrum, inputs: EstimatorInputs) -> Shrinkage:
    return Halved(inputs.penalty)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_is_described_verified_and_documented(name: str) -> None:
    estimator = ESTIMATORS[name]
    assert (estimator.name, bool(estimator.description)) == (name, True)
    assert callable(estimator.load_rule())
    assert name in VERIFIED_ESTIMATORS
    assert estimator.is_choice == (f"| `{name}` |" in (ROOT / "docs/methods.md").read_text())


def test_the_help_lists_the_choices_of_shrinkage() -> None:
    (choices,) = re.findall(r"--shrinkage \[(.*?)\]", command(finalize, "--help").stdout)
    assert choices.split("|") == [e.name for e in ESTIMATORS.values() if e.is_choice]


def test_the_stated_floor_is_that_of_the_rule() -> None:
    assert f"raised to {FLOOR_SHARE} of" in ESTIMATORS["known-noise"].floor


def test_a_toy_estimator_solves() -> None:
    statistics = statistics_of(*integer_cohort(60, 5, 1, 2, seed=1))
    inputs = inputs_for(statistics, 60, penalty=3.0)
    toy = Estimator("halved", f"{__name__}:halved", "half of ridge", is_choice=True)
    chosen = estimator_for(METHODS["reuse-cov-gauss"], toy)
    ours = solve_statistics(statistics, inputs, METHODS["reuse-cov-gauss"], chosen)
    ridge = solved(statistics, inputs, estimator="ridge")
    np.testing.assert_allclose(2 * ours.weights.genotypes, ridge.weights.genotypes, rtol=1e-12)
    assert (ours.rule, ours.parameters) == ("half of ridge", {})


# ---- Job queues ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", JOB_QUEUES)
def test_a_job_queue_has_an_example_that_is_documented(kind: str) -> None:
    example = ROOT / "cluster" / kind
    profile = read_profile(example / f"{kind}.toml")
    assert isinstance(profile, JobQueueProfile)
    assert "--lifetime" in job_script(profile, None, "LOGS")
    assert (example / "submit.sh").is_file() and (example / "README.md").is_file()
    assert f"[{kind}]({kind}/)" in (ROOT / "cluster/README.md").read_text()
    assert profile.job_queue.listing


def test_a_toy_queue_writes_a_job_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toy = JobQueue("dask_jobqueue:OARCluster", ("oarstat", "-u"), "project")
    monkeypatch.setitem(JOB_QUEUES, "oar", toy)
    monkeypatch.setitem(PROFILES, "oar", JobQueueProfile)
    file = tmp_path / "oar.toml"
    file.write_text('kind = "oar"\n[jobs]\naccount = "grant7"\nwalltime = "02:00:00"\n')
    script = job_script(read_profile(file), None, "LOGS")
    assert "#OAR --project grant7" in script and "walltime=02:00:00" in script
