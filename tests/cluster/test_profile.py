"""Profiles are read strictly, and are refused if other users of a network could connect."""

from pathlib import Path

import pytest
from support.filesets import written

from primo_scale.cluster.profile import (
    JobQueueProfile,
    KubernetesProfile,
    LocalProfile,
    SchedulerProfile,
    read_profile,
    worker_memory,
)
from primo_scale.errors import InputError

EXAMPLES = Path(__file__).resolve().parents[2] / "cluster"
KUBERNETES = 'kind = "kubernetes"\nname = "a"\n[pods]\nimage = "i"\n'
TLS = 'tls = "certificates"\n'
SLURM = 'kind = "slurm"\n'
JOBS = SLURM + "[jobs]\n"
CLEAR = SLURM + "tls = false\n"


def read(directory: Path, text: str) -> object:
    return read_profile(written(directory / "profile.toml", text))


@pytest.mark.parametrize("kind", ["slurm", "pbs", "lsf", "sge"])
def test_a_kind_alone_is_a_valid_queue_profile(kind: str, tmp_path: Path) -> None:
    profile = read(tmp_path, f'kind = "{kind}"')
    assert isinstance(profile, JobQueueProfile)
    assert profile == JobQueueProfile(kind)
    assert profile.tls is True


@pytest.mark.parametrize(
    "name", [path.name for path in sorted(EXAMPLES.iterdir()) if path.is_dir()]
)
def test_every_kind_has_an_example_a_readme_and_a_script(name: str) -> None:
    read_profile(EXAMPLES / name / f"{name}.toml")
    assert (EXAMPLES / name / "README.md").is_file()
    assert [*(EXAMPLES / name).glob("*.sh"), *(EXAMPLES / name).glob("*.yaml")]


def test_profile_values_are_read_as_written(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        TLS + 'kind = "slurm"\n[jobs]\nmaximum = 3\ncores = 3\nmemory = "3GiB"\n'
        'directives = ["--qos=x"]\n[scheduler]\nhost = "login1"\n',
    )
    assert isinstance(profile, JobQueueProfile)
    assert (profile.jobs.maximum, profile.jobs.directives) == (3, ("--qos=x",))
    assert profile.scheduler.host == "login1"
    assert profile.tls == str(tmp_path / "certificates")
    assert worker_memory(profile) == 2**30  # three processes share 3 GiB


def test_directories_are_relative_to_the_profile_on_every_node(tmp_path, monkeypatch) -> None:
    """A job starts in another directory than the command."""
    (tmp_path / "profile.toml").write_text(TLS + JOBS + 'logs = "logs"')
    monkeypatch.chdir(tmp_path)
    profile = read_profile(Path("profile.toml"))
    assert (profile.tls, profile.jobs.logs) == (f"{tmp_path}/certificates", f"{tmp_path}/logs")


def test_a_local_profile_equals_the_command_line_options(tmp_path: Path) -> None:
    text = 'kind = "local"\nworkers = 3\nmemory_limit = "2GiB"'
    assert read(tmp_path, text) == LocalProfile(3, "2GiB")


def test_kubernetes_finds_the_scheduler_by_its_service(tmp_path: Path) -> None:
    profile = read(tmp_path, TLS + KUBERNETES)
    assert isinstance(profile, KubernetesProfile)
    assert profile.service_address == "tls://a-scheduler.default.svc:8786"


REFUSED = {
    "no kind": ("workers = 1", ["kind is unknown", "slurm"]),
    "unknown kind": ('kind = "moab"', ["kind is unknown", "moab"]),
    "no TOML": ("kind = ", ["is not TOML"]),
    "unknown key": (SLURM + "job = 1", ["unknown key `job`", "jobs"]),
    "unknown key below": (JOBS + "core = 2", ["jobs: unknown key `core`", "cores"]),
    "wrong type": (JOBS + 'cores = "2"', ["jobs.cores: expected `int`", "got '2'"]),
    "true is no number": (JOBS + "cores = true", ["jobs.cores", "got True"]),
    "wrong type below a list": (
        TLS + KUBERNETES + 'volumes = [{claim = "a", path = "/", x = 1}]',
        ["pods.volumes[0]: unknown key `x`", "one of claim, path, read_only"],
    ),
    "no table": (SLURM + "jobs = 3", ["jobs: expected a table", "got 3"]),
    "wrong type in a list": (JOBS + "directives = [1]", ["jobs.directives[0]", "got 1"]),
    "no size": (JOBS + 'memory = "8"', ["jobs.memory", "8GiB", "got '8'"]),
    "no memory": (JOBS + 'memory = "0.0GiB"', ["jobs.memory: expected a size above zero"]),
    "no memory of a pod": (TLS + KUBERNETES + 'memory = "0Gi"', ["pods.memory", "such as 8Gi"]),
    "no duration": (JOBS + 'walltime = "4h"', ["jobs.walltime", "04:00:00"]),
    "too short": (JOBS + 'walltime = "00:00:30"', ["jobs: walltime 00:00:30"]),
    "too small": (JOBS + "maximum = 0", ["jobs.maximum", ">= 1", "got 0"]),
    "no port": (SLURM + "[scheduler]\nport = 65536", ["scheduler.port", "<= 65535"]),
    "shell in a name": (JOBS + 'queue = "a;rm"', ["jobs.queue"]),
    "shell in a path": (SLURM + '[workers]\nscratch = "$(id)"', ["workers.scratch"]),
    "blank in certificates": (SLURM + 'tls = "a b"', ["tls: expected a path of letters", "a b'"]),
    "job number in logs": (JOBS + 'logs = "%j"', ["jobs.logs: expected a path of letters", "%j'"]),
    "two lines in one": (JOBS + 'prologue = ["a\\nb"]', ["jobs.prologue"]),
    "more than the maximum": (
        JOBS + "minimum = 3\nmaximum = 2",
        ["jobs: minimum 3 is above maximum 2"],
    ),
    "longer than the job": (
        SLURM + '[workers]\nlifetime = "04:00:00"',
        ["workers.lifetime 04:00:00 is not below jobs.walltime 04:00:00"],
    ),
    "blank in an interpreter": (JOBS + 'python = "a b"', ["jobs.python: expected a path without"]),
    "resources elsewhere": ('kind = "lsf"\n[jobs]\nresources = "x"', ["for PBS and SGE"]),
    "host and interface": (
        SLURM + '[scheduler]\nhost = "a"\ninterface = "b"',
        ["exclude each other"],
    ),
    "certificates by file": (
        SLURM + '[tls]\nca = "a"\ncert = "b"',
        ["tls: expected `bool | str`, got a table"],
    ),
    "no address": ('kind = "scheduler"', ["missing key `address`"]),
    "no name": ('kind = "kubernetes"\n[pods]\nimage = "i"', ["missing key `name`"]),
    "upper case": (
        TLS + KUBERNETES.replace('"a"', '"A"'),
        ["name: expected at most 52 lower-case letters", "got 'A'"],
    ),
    # Any peer of an open Dask port can run code as its owner.
    "pods without certificates": (KUBERNETES, ["pods need certificates", "tls = "]),
    "pods in the clear by address": (
        TLS + 'kind = "kubernetes"\nname = "a"\naddress = "tcp://a:1"\n[pods]\nimage = "i"\n',
        ["address is not tls://"],
    ),
    "every interface in the clear": (CLEAR, ["may not listen on every interface"]),
    "0.0.0.0 in the clear": (
        CLEAR + '[scheduler]\nhost = "0.0.0.0"\n[workers]\ninterface = "ib0"',
        ["may not listen on every interface", "0.0.0.0"],
    ),
    "workers everywhere in the clear": (
        CLEAR + '[scheduler]\ninterface = "ib0"',
        ["may not listen on every interface"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_profiles_are_refused_by_file_and_key(name: str, tmp_path: Path) -> None:
    text, words = REFUSED[name]
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    said = str(refused.value)
    assert said.startswith(str(tmp_path / "profile.toml"))
    assert [word for word in words if word not in said] == []


def test_disabling_encryption_must_be_explicit(tmp_path: Path) -> None:
    address = "tcp://node1:8786"
    profile = read(tmp_path, f'kind = "scheduler"\naddress = "{address}"\ntls = false')
    assert profile == SchedulerProfile(address, tls=False)
    interfaces = '[scheduler]\ninterface = "ib0"\n[workers]\ninterface = "ib0"\n'
    assert read(tmp_path, 'kind = "slurm"\ntls = false\n' + interfaces)
    assert read(tmp_path, KUBERNETES.replace("[pods]", "tls = false\n[pods]"))
