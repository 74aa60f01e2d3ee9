"""Peak memory of ingest and of accumulate does not grow with the number of people."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
PANEL = ROOT / "demo" / "1000g_eur343_chr22"
SMALL, LARGE = 20_000, 80_000
N_VARIANTS = 1_000
LARGEST_GROWTH = 1.10
# What a worker needs is the least of a few runs: its allocator keeps 40 MB more in some of them.
ATTEMPTS = 2
_POLL_SECONDS = 0.02


@pytest.fixture(scope="module")
def peaks(run, environment, tmp_path_factory) -> dict[int, dict[str, int]]:
    """Peak resident bytes by number of people, of ingest and of accumulate's processes."""
    return {n: measure(n, run, environment, tmp_path_factory.mktemp(f"n{n}"))
            for n in (SMALL, LARGE)}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("process", ["ingest", "accumulate: client", "accumulate: worker"])
def test_peak_memory_does_not_grow_with_people(process: str, peaks) -> None:
    small, large = peaks[SMALL][process], peaks[LARGE][process]
    print(f"{process}: {small / 1e6:.0f} MB at n={SMALL}, {large / 1e6:.0f} MB at n={LARGE}")
    assert large <= LARGEST_GROWTH * small


def measure(n: int, run, environment: dict[str, str], directory: Path) -> dict[str, int]:
    prefix, store = directory / "cohort", directory / "genotypes.zarr"
    run("simulate", "--bfile", PANEL, "--out", prefix, "--samples", n, "--seed", 1,
        "--variants", N_VARIANTS, "--missing", 0.01, "--phenotypes", 3)  # fmt: skip
    (ingest,) = peak_bytes(environment, "ingest", "--bfile", prefix, "--out", store)
    clients, workers = [], []
    for attempt in range(ATTEMPTS):
        client, *others = peak_bytes(
            environment, "accumulate", "--genotypes", store, "--workers", 1,
            *(word for name in ("pheno", "covar", "pheno-bounds", "covar-bounds")
              for word in (f"--{name}", f"{prefix}.{name}.tsv")),
            "--ref-freq", f"{PANEL}.afreq", "--row-norm", 25, "--ld-blocks", "window:500",
            "--work-dir", directory / f"work{attempt}",
        )  # fmt: skip
        clients.append(client)
        workers.append(max(others))
    return {
        "ingest": ingest,
        "accumulate: client": min(clients),
        "accumulate: worker": min(workers),
    }


def peak_bytes(environment: dict[str, str], command: str, *arguments: object) -> list[int]:
    """Peak resident size of a command's process, then of each process that it started.

    The kernel keeps each process's peak (VmHWM), so that polling can only miss a peak of a
    process's last moments.
    """
    main = subprocess.Popen(
        [sys.executable, "-m", f"pipelines.{command}", *map(str, arguments)],
        cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    root, peaks = psutil.Process(main.pid), {}
    while main.poll() is None:
        try:
            family = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            break
        for process in family:
            peaks[process.pid] = max(peaks.get(process.pid, 0), high_water_bytes(process.pid))
        time.sleep(_POLL_SECONDS)
    assert main.wait() == 0
    return [peaks.pop(main.pid), *peaks.values()]


def high_water_bytes(pid: int) -> int:
    """VmHWM of a process, 0 if it has gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return 1024 * int(found[0]) if found else 0
