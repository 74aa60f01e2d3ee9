"""``--cluster`` and what it excludes; every refusal is one line."""

from pathlib import Path

import pytest

from primo_scale.cluster.job_queues import JobQueueProfile, LocalProfile, SchedulerProfile
from primo_scale.cluster.workers import dask_client
from primo_scale.errors import InputError, UsageError
from primo_scale.run.options import AccumulateRequest

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ADD_REMOVE = {**BUDGET, "adjacency": "add-remove", "nominal_n": 1000}


def profile_of(privacy: dict[str, object] = BUDGET, **execution: object) -> object:
    inputs = {"genotypes": "g.zarr", "pheno": "p", "pheno_bounds": "b", "work_dir": "w"}
    return AccumulateRequest(**inputs, **privacy, **execution).profile


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.toml"
    path.write_text('kind = "slurm"')
    return path


def test_options_and_profiles_come_to_the_same_thing(slurm: Path) -> None:
    assert profile_of() is None
    assert profile_of(workers=3, memory_limit="2GiB") == LocalProfile(3, "2GiB")
    assert profile_of(cluster=slurm) == JobQueueProfile("slurm")
    here = "tcp://127.0.0.1:8786"
    assert profile_of(scheduler=here) == SchedulerProfile(here)


@pytest.mark.parametrize(
    ("other", "value"), [("scheduler", "tls://a:1"), ("workers", 2), ("memory_limit", "1GiB")]
)
def test_a_profile_excludes_what_it_says_itself(other: str, value: object, slurm: Path) -> None:
    with pytest.raises(UsageError) as refused:
        profile_of(cluster=slurm, **{other: value})
    assert f"`cluster` and `{other}` exclude each other" in str(refused.value)


def test_a_scheduler_in_the_clear_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^scheduler: .*nothing is encrypted"):
        profile_of(scheduler="tcp://node1:8786")
    assert profile_of(scheduler="tcp://127.0.0.1:8786")
    assert profile_of(scheduler="tcp://node1:8786", no_tls=True)


def test_where_n_is_private_nobody_may_count_tasks(slurm: Path) -> None:
    assert profile_of(ADD_REMOVE, cluster=slurm) == JobQueueProfile("slurm")
    with pytest.raises(UsageError, match="the number of people is private"):
        profile_of(ADD_REMOVE, scheduler="tcp://127.0.0.1:1")


def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path) -> None:
    profile = SchedulerProfile("localhost:nonsense")
    said = "--scheduler: no connection to a Dask scheduler: .*got localhost:nonsense"
    with pytest.raises(InputError, match=said), dask_client(profile, tmp_path):
        pass


@pytest.mark.parametrize("size", ["0.5", "1", "0", "4", "4 apples"])
def test_a_limit_without_a_unit_is_refused(size: str) -> None:
    """Dask takes numbers up to 1 for shares of the machine, and larger ones for bytes."""
    with pytest.raises(UsageError, match="expected size such as 4GiB"):
        profile_of(memory_limit=size)
