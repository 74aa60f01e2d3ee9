"""Profiles of job queues are read strictly, and their job scripts are those of the examples.

``ACCEPT_GOLDEN=1 python -m pytest tests/cluster/test_profiles.py`` writes the golden files. Read
the differences before committing them, because sites run these job scripts.
"""

import os
import sys
from pathlib import Path
from unittest import mock

import dask
import dask_jobqueue
import pytest
import yaml
from support.filesets import written

from primo_scale.cluster.job_queues import JOB_QUEUES, JobQueueProfile, read_profile, worker_memory
from primo_scale.cluster.workers import WORKER_PROCESS, job_script
from primo_scale.errors import InputError

FOLDER = Path(__file__).parent / "golden"
EXAMPLES = FOLDER.parents[2] / "cluster"
SLURM = 'kind = "slurm"\n'
OPTIONS = SLURM + "[options]\n"


def read(directory: Path, text: str) -> JobQueueProfile:
    return read_profile(written(directory / "profile.toml", text))


@pytest.mark.parametrize("kind", JOB_QUEUES)
def test_a_kind_alone_is_a_valid_profile(kind: str, tmp_path: Path) -> None:
    profile = read(tmp_path, f'kind = "{kind}"')
    assert profile == JobQueueProfile(kind)
    assert (profile.walltime_seconds, worker_memory(profile)) == (4 * 3600, 2 << 30)


def rendered(kind: str) -> str:
    """Return the job script of the example of a kind, for any machine and any user's settings."""
    nobody = {"LSF_ENVDIR": os.devnull, "PBS_ACCOUNT": ""}
    settings = Path(dask_jobqueue.__file__).with_name("jobqueue.yaml")
    (defaults,) = dask.config.collect_yaml([str(settings)])
    with (
        mock.patch.dict(os.environ, nobody),
        mock.patch.object(sys, "executable", "PYTHON"),
        dask.config.set({"jobqueue": defaults["jobqueue"]}),
    ):
        return job_script(read_profile(EXAMPLES / kind / f"{kind}.toml"))


@pytest.mark.parametrize("kind", JOB_QUEUES)
def test_an_example_renders_to_its_golden_file(kind: str) -> None:
    if "ACCEPT_GOLDEN" in os.environ:
        (FOLDER / f"{kind}.sh").write_text(rendered(kind))
    assert rendered(kind) == (FOLDER / f"{kind}.sh").read_text()


REFUSED = {
    "no kind": ("jobs = 1", ["kind is unknown", "slurm"]),
    "unknown kind": ('kind = "moab"', ["kind is unknown", "moab"]),
    "kind of an older version": ('kind = "local"', ["kind is unknown", "--workers"]),
    "no TOML": ("kind = ", ["is not TOML"]),
    "unknown key": (SLURM + "job = 1", ["unknown field `job`", "jobs"]),
    "table of an older version": (SLURM + "[jobs]\ncores = 2", ["$.jobs", "[options]"]),
    "no job": (SLURM + "jobs = 0", ["$.jobs"]),
    "no cores": (OPTIONS + "cores = 0", ["whole numbers of cores"]),
    "text for a number": (OPTIONS + 'cores = "two"', ["whole numbers of cores"]),
    "memory without a unit": (OPTIONS + "memory = 8", ["a memory such as 8GiB"]),
    "walltime": (OPTIONS + 'walltime = "soon"', ["a walltime of a minute"]),
    "short walltime": (OPTIONS + 'walltime = "00:00:59"', ["a walltime of a minute"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_profiles_are_refused_by_file_and_key(name: str, tmp_path: Path) -> None:
    text, words = REFUSED[name]
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    said = str(refused.value)
    assert said.startswith(str(tmp_path / "profile.toml"))
    assert [word for word in words if word not in said] == []


def test_the_resource_of_kubernetes_has_the_environment_of_workers() -> None:
    resource = yaml.safe_load((EXAMPLES / "kubernetes" / "daskcluster.yaml").read_text())
    worker = resource["spec"]["worker"]["spec"]["containers"][0]
    environment = {entry["name"]: entry["value"] for entry in worker["env"]}
    assert WORKER_PROCESS.items() <= environment.items()
    assert environment["DASK_DISTRIBUTED__WORKER__HTTP__ROUTES"] == "[]"
