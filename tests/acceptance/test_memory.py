"""Peak memory does not grow with the number of people, and is as the pre-flight predicts."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from command_io import table_options

from primo_scale.genotypes.ingest_plan import READ_BUDGET_BYTES

pytestmark = [pytest.mark.alone, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PANEL = ROOT / "demo" / "1000g_eur343_chr22"
SMALL, LARGE = 20_000, 80_000
N_VARIANTS = 1_000
LARGEST_GROWTH = 1.10
# Largest and smallest allowed share of the predicted memory.
MOST_BEYOND, LEAST_USED = 1.15, 0.5
COHORTS = {"dense": (40_000, 2_304, 195), "LD blocks": (70_000, 1_500, 20)}
# The smallest peak of several runs counts, because the allocator keeps 40 MB more in some of them.
# Excessive memory of the product appears in all of them.
ATTEMPTS = 4
_POLL_SECONDS = 0.02


Peaks = dict[str, int]


def least(
    measure: Callable[[Path], Peaks], are_as_they_should: Callable[[Peaks], bool], folder: Path
) -> Peaks:
    """Return the smallest peaks of up to `ATTEMPTS` runs, each in its own directory."""
    peaks: Peaks = {}
    for attempt in range(ATTEMPTS):
        own = folder / f"attempt{attempt}"
        own.mkdir()
        peaks = {name: min(peak, peaks.get(name, peak)) for name, peak in measure(own).items()}
        if are_as_they_should(peaks):
            break
    return peaks


def test_peak_memory_does_not_grow_with_people(run, environment, tmp_path) -> None:
    small = accumulated(SMALL, run, environment, tmp_path / "small")

    def has_not_grown(peaks: Peaks) -> bool:
        return all(peak <= LARGEST_GROWTH * small[name] for name, peak in peaks.items())

    folder = tmp_path / "large"
    large = accumulated(LARGE, run, environment, folder, are_as_they_should=has_not_grown)
    for name, peak in large.items():
        print(f"{name}: {small[name] / 1e6:.0f} MB at n={SMALL}, {peak / 1e6:.0f} MB at n={LARGE}")
    assert has_not_grown(large)


def test_an_ingest_keeps_its_memory_budget(environment, tmp_path):
    """Both runs hold tables of 300,000 people, and only the genotypes differ."""
    peaks = []
    for d in (64, 2_000):
        folder = tmp_path / str(d)
        folder.mkdir()
        write_cohort(folder, 300_000, d, phenotypes=1)
        store = folder / "genotypes.zarr"
        peaks += peak_bytes(environment, "ingest", "--bfile", folder / "cohort", "--out", store)
    few, many = peaks
    print(f"ingest: {few / 1e6:.0f} MB, and {many / 1e6:.0f} MB with 150 MB of genotypes")
    assert many - few <= READ_BUDGET_BYTES < 150e6


@pytest.fixture(scope="module")
def cohorts(run, tmp_path_factory) -> dict[str, list[object]]:
    """Options of accumulate for cohorts with many phenotypes and with many blocks."""
    made = {}
    for name, (n, d, phenotypes) in COHORTS.items():
        folder = tmp_path_factory.mktemp("cohort")
        write_cohort(folder, n, d, phenotypes)
        run("ingest", "--bfile", folder / "cohort", "--out", folder / "genotypes.zarr")
        made[name] = [
            "--genotypes", folder / "genotypes.zarr", "--pheno", folder / "pheno.tsv",
            "--pheno-bounds", folder / "bounds.tsv",
        ]  # fmt: skip
        if name == "LD blocks":  # with norms and clipped records in every block
            made[name] += ["--ld-blocks", "window:25", "--ref-freq", folder / "panel.afreq"]
    return made


@pytest.mark.parametrize("kernel", ["auto", "float32"])
@pytest.mark.parametrize("cohort", COHORTS)
def test_peak_memory_is_as_predicted(
    cohort: str, kernel: str, cohorts, environment, tmp_path
) -> None:
    said: Peaks = {}

    def measure(folder: Path) -> Peaks:
        client, *others = peak_bytes(
            environment, "accumulate", *cohorts[cohort], "--kernel", kernel,
            "--workers", 1, "--work-dir", folder / "work",
        )  # fmt: skip
        said["worker"], said["client"] = memory_said(folder / "work" / "run.log")
        return {"client": client, "worker": max(others)}

    def are_as_said(peaks: Peaks) -> bool:
        return all(as_said(peak, said[name]) for name, peak in peaks.items())

    peaks = least(measure, are_as_said, tmp_path)
    for name, peak in peaks.items():
        print(f"{cohort}, {kernel}: {name} {peak / 1e6:.0f} MB of {said[name] / 1e6:.0f}")
    assert are_as_said(peaks), (peaks, said)


@pytest.mark.parametrize("cohort", COHORTS)
def test_peak_memory_of_a_release_is_as_predicted(
    cohort: str, cohorts, environment, tmp_path
) -> None:
    """Each command runs in its own process, whose memory the pre-flight includes."""
    said: Peaks = {}

    def measure(folder: Path) -> Peaks:
        budget = ["--work-dir", folder / "work", "--epsilon", 1, "--delta", 1e-7, "--accept-noise"]
        peak_bytes(environment, "accumulate", *cohorts[cohort], *budget)
        (peak,) = peak_bytes(
            environment, "finalize", *budget, "--out", folder / "release",
            "--ledger", folder / "ledger.sqlite",
        )  # fmt: skip
        found = re.search(
            r"noise and weights take (\d+) MiB", (folder / "work" / "run.log").read_text()
        )
        assert found is not None
        said["release"] = int(found[1]) << 20
        return {"release": peak}

    def is_as_said(peaks: Peaks) -> bool:
        return as_said(peaks["release"], said["release"])

    peaks = least(measure, is_as_said, tmp_path)
    print(f"{cohort}: {peaks['release'] / 1e6:.0f} MB of {said['release'] / 1e6:.0f}")
    assert is_as_said(peaks), (peaks, said)


@pytest.mark.parametrize("cohort", COHORTS)
def test_peak_memory_of_threads_is_as_predicted(
    cohort: str, cohorts, environment, tmp_path
) -> None:
    said: Peaks = {}

    def measure(folder: Path) -> Peaks:
        work = folder / "work"
        (peak,) = peak_bytes(environment, "accumulate", *cohorts[cohort], "--work-dir", work)
        found = re.search(r"memory (\d+) MiB, with \d+ threads", (work / "run.log").read_text())
        assert found is not None
        said["threads"] = int(found[1]) << 20
        return {"threads": peak}

    peaks = least(measure, lambda peaks: as_said(peaks["threads"], said["threads"]), tmp_path)
    print(f"{cohort}: {peaks['threads'] / 1e6:.0f} MB of {said['threads'] / 1e6:.0f}")
    assert as_said(peaks["threads"], said["threads"]), (peaks, said)


def as_said(peak: int, said: int) -> bool:
    """Return whether a peak is close to the predicted memory."""
    return LEAST_USED * said <= peak <= MOST_BEYOND * said


def memory_said(log: Path) -> tuple[int, int]:
    """Return the predicted memory of a worker and of the client, in bytes."""
    found = re.search(r"memory 1 x (\d+) MiB for workers and (\d+) MiB here", log.read_text())
    assert found is not None
    return int(found[1]) << 20, int(found[2]) << 20


def write_cohort(folder: Path, n: int, d: int, phenotypes: int) -> None:
    """Write a fileset of random genotypes, a panel of frequencies, and phenotypes with bounds."""
    rng = np.random.default_rng(0)
    genotypes = rng.integers(0, 256, (d, n // 4), dtype=np.uint8).tobytes()
    (folder / "cohort.bed").write_bytes(b"\x6c\x1b\x01" + genotypes)
    (folder / "cohort.bim").write_text("".join(f"1\tv{j}\t0\t{j + 1}\tA\tG\n" for j in range(d)))
    (folder / "cohort.fam").write_text("".join(f"f{i}\tp{i}\t0\t0\t1\t-9\n" for i in range(n)))
    panel = "".join(f"1\tv{j}\tG\tA\t{0.05 + 0.9 * j / d:.4f}\t2000\n" for j in range(d))
    (folder / "panel.afreq").write_text("#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n" + panel)
    names = [f"y{j}" for j in range(phenotypes)]
    values = "\t".join("01"[j % 2] for j in range(phenotypes))
    rows = "".join(f"f{i}\tp{i}\t{values}\n" for i in range(n))
    (folder / "pheno.tsv").write_text("\t".join(["FID", "IID", *names]) + "\n" + rows)
    bounds = "".join(f"{name}\t-4\t4\t0\t1\n" for name in names)
    (folder / "bounds.tsv").write_text("name\tlower\tupper\tmean\tsd\n" + bounds)


def accumulated(
    n: int, run, environment: dict[str, str], folder: Path,
    *, are_as_they_should: Callable[[Peaks], bool] = lambda peaks: False,
) -> Peaks:  # fmt: skip
    """Return the peak memory of accumulate's processes for a cohort of `n` people, in bytes."""
    folder.mkdir()
    prefix, store = folder / "cohort", folder / "genotypes.zarr"
    run("simulate", "--bfile", PANEL, "--out", prefix, "--samples", n, "--seed", 1,
        "--variants", N_VARIANTS, "--missing", 0.01, "--phenotypes", 3)  # fmt: skip
    run("ingest", "--bfile", prefix, "--out", store)

    def measure(folder: Path) -> Peaks:
        client, *others = peak_bytes(
            environment, "accumulate", "--genotypes", store, "--workers", 1,
            *table_options(prefix),
            "--ref-freq", f"{PANEL}.afreq", "--row-norm", 25, "--ld-blocks", "window:500",
            "--work-dir", folder / "work",
        )  # fmt: skip
        return {"client": client, "worker": max(others)}

    return least(measure, are_as_they_should, folder)


def peak_bytes(environment: dict[str, str], command: str, *arguments: object) -> list[int]:
    """Return the peak memory of a command's process, then of its child processes, in bytes.

    The kernel records each process's peak (VmHWM), so that polling can only miss a peak in the last
    moments of a process.
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
    """Return the VmHWM of a process in bytes, or 0 if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return 1024 * int(found[0]) if found else 0
