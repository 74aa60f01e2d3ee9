"""CPUs, memory and disk space of a process within the limits of its control groups."""

import resource
import sys

import psutil
import pytest

from primo_scale import machine
from primo_scale.run.run_log import stage

GIB = 2**30


@pytest.fixture
def cgroup(tmp_path, monkeypatch):
    """Provide a function that writes files of control groups, and this process's membership."""
    membership, root = tmp_path / "membership", tmp_path / "groups"
    monkeypatch.setattr(machine, "_CGROUP", root)
    monkeypatch.setattr(machine, "_MEMBERSHIP", membership)
    membership.write_text("0::/\n")

    def write(group: str = "", member: str | None = None, **files: str) -> None:
        (root / group).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (root / group / name.replace("_", ".", 1)).write_text(text)
        if member is not None:
            membership.write_text(member)

    return write


@pytest.fixture
def roomy(monkeypatch):
    memory = psutil.virtual_memory()._replace(available=100 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


@pytest.mark.parametrize(("quota", "cpus"), [("max", 64), (250_000, 3), (1_000, 1), (10**7, 64)])
def test_cpus_are_those_of_the_smallest_quota_rounded_up(cgroup, monkeypatch, quota, cpus):
    """Of 64 CPUs, as in a pod of Kubernetes; siblings do not count."""
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda _: list(range(64)))
    cgroup("pods/own", member="0::/pods/own\n", cpu_max=f"{quota} 100000\n")
    cgroup("pods", cpu_max="9900000 100000\n")
    cgroup("pods/other", cpu_max="100000 100000\n")
    assert machine.usable_cpus.__wrapped__() == cpus


def test_page_cache_does_not_count_against_a_limit(cgroup, roomy):
    """Seven of 8 GiB are used, four of them for page cache, which is reclaimable."""
    cgroup(memory_max=f"{8 * GIB}\n", memory_current=f"{7 * GIB}\n")
    assert machine.available_memory() == GIB
    stat = f"anon {3 * GIB}\nfile {4 * GIB}\ninactive_file {3 * GIB}\nactive_file {GIB}\n"
    cgroup(memory_stat=stat)
    assert machine.available_memory() == 5 * GIB


def version_2(limit, used):
    return {"memory_max": f"{limit}\n", "memory_current": f"{used}\n"}


def version_1(limit, used):
    return {"memory_limit_in_bytes": f"{limit}\n", "memory_usage_in_bytes": f"{used}\n"}


def test_the_limit_of_a_job_lies_in_a_group_below_the_root(cgroup, roomy):
    """As in SLURM, the job has a limit of 8 GiB, its step has none, and the root has no files."""
    cgroup(member="0::/system.slice/slurm/job_7/step_0\n")
    cgroup("system.slice/slurm/job_7", **version_2(8 * GIB, 3 * GIB))
    cgroup("system.slice/slurm/job_7/step_0", **version_2("max", 2 * GIB))
    assert machine.available_memory() == 5 * GIB
    assert machine.memory_limit() == 8 * GIB


def test_version_1_is_read_as_well(cgroup, roomy):
    """The root has a very large limit instead of none; page cache includes that of subgroups."""
    cgroup("memory", member="5:cpu,cpuacct:/\n4:memory:/pbs/9\n0::/\n",
           **version_1(9223372036854771712, 50 * GIB))  # fmt: skip
    stat = f"active_file 0\ntotal_inactive_file {GIB}\ntotal_active_file {GIB}\n"
    cgroup("memory/pbs/9", **version_1(4 * GIB, 3 * GIB), memory_stat=stat)
    assert machine.available_memory() == 3 * GIB
    assert machine.memory_limit() == 4 * GIB


def test_the_limit_of_the_address_space_counts(cgroup, roomy, monkeypatch):
    used = psutil.Process().memory_info().vms
    monkeypatch.setattr(resource, "getrlimit", lambda _: (used + 3 * GIB, resource.RLIM_INFINITY))
    assert abs(machine.available_memory() - 3 * GIB) < GIB
    monkeypatch.setattr(resource, "getrlimit", lambda _: (used // 2, resource.RLIM_INFINITY))
    assert machine.available_memory() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone returns memory")
def test_a_stage_leaves_no_freed_memory_behind():
    before = machine.resident_memory()
    with stage("sums"):
        arrays = [b"\1" * (64 << 10) for _ in range(2_000)]
        last = arrays[-1]  # above all others, so that the C library keeps them
        del arrays
        kept = machine.resident_memory() - before
    assert last
    assert machine.resident_memory() - before < kept / 4
