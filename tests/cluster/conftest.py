"""Fixtures: a SLURM of one node, and a cohort with its statistics from a run on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command_io import digest_in
from presence import missing
from processes import ROOT, command_of, free_ports, run
from slurm_runs import Cohort, Slurm

HERE = Path(__file__).parent
PANEL = ROOT / "demo" / "1000g_eur343_chr22"


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Provide the commands of a one-node SLURM that only the tests use."""
    for program in ("slurmctld", "slurmd", "sbatch", "munge"):
        if shutil.which(program) is None:
            missing(f"SLURM ({program})")
    if os.geteuid() != 0:
        missing("the right to start SLURM (root)")
    directory = tmp_path_factory.mktemp("slurm")
    ports = map(str, free_ports(2))
    subprocess.run([HERE / "start-slurm.sh", directory, *ports], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(directory / "slurm.conf"))
        yield Slurm()
        subprocess.run([HERE / "stop-slurm.sh", directory], check=True)


@pytest.fixture(scope="session")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    """Provide a small cohort, and the digest of its statistics summed on this machine."""
    directory = tmp_path_factory.mktemp("cohort")
    prefix = directory / "c"
    _run("simulate", "--bfile", PANEL, "--out", prefix, "--samples", 400, "--seed", 1,
         "--variants", 300, "--phenotypes", 2)  # fmt: skip
    _run("ingest", "--bfile", prefix, "--out", f"{prefix}.zarr")
    cohort = Cohort(prefix, Path(f"{PANEL}.afreq"))
    said = _run("accumulate", *cohort.accumulate_options(directory / "work"), "--workers", 1)
    return replace(cohort, digest=digest_in(said))


def _run(command: str, *arguments: object) -> str:
    done = run(command_of(command, arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout
