"""A cohort whose accumulation is many tasks of milliseconds each, and its commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
N, D = 44, 400
_LIMIT_S = 600


@dataclass(frozen=True)
class Cohort:
    """Files of a run: one LD block, hence one tile task, for each of `D` variants."""

    folder: Path

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def words(self, command: str, *options: object) -> list[str]:
        """``python -m pipelines.COMMAND`` with this cohort's files."""
        files = {
            "ingest": ["--bfile", self.folder / "cohort", "--out", self.folder / "genotypes.zarr"],
            "accumulate": [
                "--genotypes", self.folder / "genotypes.zarr", "--work-dir", self.work,
                "--pheno", self.folder / "pheno.tsv", "--pheno-bounds", self.folder / "bounds.tsv",
                "--ld-blocks", "window:1", "--workers", 1,
            ],
            "finalize": [
                "--work-dir", self.work, "--out", self.folder / "release", "--epsilon", 1,
                "--delta", 1e-6, "--ledger", self.folder / "ledger.sqlite", "--accept-noise",
            ],
        }  # fmt: skip
        words = [sys.executable, "-m", f"pipelines.{command}", *files[command], *options]
        return [str(word) for word in words]

    def run(self, command: str, *options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(command, *options), cwd=ROOT, capture_output=True, text=True, check=True
        )

    def start(self, command: str, *options: object) -> subprocess.Popen[bytes]:
        """Start it with its workers in a group of their own."""
        return subprocess.Popen(
            self.words(command, *options), cwd=ROOT, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def chunks(self, pattern: str) -> list[Path]:
        """Files on the disk, by the layout of the store."""
        found = (self.work / "partials.zarr").glob(f"**/{pattern}")
        return [path for path in found if path.name.isdecimal()]


def write_cohort(folder: Path) -> Cohort:
    rng = np.random.default_rng(5)
    packed = rng.integers(0, 256, (D, N // 4), dtype=np.uint8)
    prefix = folder / "cohort"
    prefix.with_suffix(".bed").write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    prefix.with_suffix(".bim").write_text(
        "".join(f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in range(D))
    )
    prefix.with_suffix(".fam").write_text("".join(f"f{i}\tp{i}\t0\t0\t1\t-9\n" for i in range(N)))
    rows = [f"f{i}\tp{i}\t{x:.4f}" for i, x in enumerate(rng.normal(size=N))]
    (folder / "pheno.tsv").write_text("\n".join(["FID\tIID\tQT", *rows]) + "\n")
    (folder / "bounds.tsv").write_text("name\tlower\tupper\tmean\tsd\nQT\t-5\t5\t0\t1\n")
    return Cohort(folder)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its workers as a crash of the machine would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(condition, process: subprocess.Popen[bytes]) -> None:
    """Wait for something that a living process is about to do."""
    end = time.monotonic() + _LIMIT_S
    while not condition():
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)
