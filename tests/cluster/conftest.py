"""Fixtures: job queues of one node, and a cohort with its statistics from a run on this machine."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_io import PANEL, digest_in, simulated
from support.processes import free_ports
from support.queue_runs import Cohort, GridEngine, Slurm
from support.small_cohort import command, succeeded
from support.tiers import missing

import primo_scale as ps
from primo_scale.cli.commands import accumulate

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
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


@pytest.fixture(scope="module")
def grid_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridEngine]:
    if not Path("/usr/lib/gridengine/sge_qmaster").exists() or shutil.which("qsub") is None:
        missing("Grid Engine")
    if os.geteuid() != 0:
        missing("the right to start Grid Engine (root)")
    directory = tmp_path_factory.mktemp("grid_engine")
    ports = list(map(str, free_ports(2)))
    environment = {
        "SGE_ROOT": str(directory),
        "SGE_CELL": "default",
        "SGE_QMASTER_PORT": ports[0],
        "SGE_EXECD_PORT": ports[1],
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            subprocess.run([HERE / "start-grid-engine.sh", directory, *ports], check=True)
            yield GridEngine()
        finally:
            subprocess.run([HERE / "stop-grid-engine.sh", directory], check=True)


@pytest.fixture(scope="session")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    directory = tmp_path_factory.mktemp("cohort")
    prefix = simulated(directory / "c", 400, 1, variants=300, phenotypes=2)
    ps.ingest(bfile=prefix, out=f"{prefix}.zarr")
    cohort = Cohort(prefix, Path(f"{PANEL}.afreq"))
    options = cohort.accumulate_options(directory / "work")
    summed = succeeded(command(accumulate, *options))
    return replace(cohort, digest=digest_in(summed.stdout))
