"""Run one of this package's measuring programs by itself, and read what it found.

Each measurement has processes of its own: nothing that one imports, allocates or starts weighs on
another, and memory is that of the program measured.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.cohorts import Cohort, frequencies
from benchmarks.machine import module_command
from benchmarks.memory import run_measured

Record = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """Where benchmarks keep cohorts and scratch files, and how often they repeat."""

    data: Path
    repetitions: int

    def program(self, module: str, *words: object, python: str = sys.executable) -> Record:
        """What the program wrote to its ``--out``, alone in a directory, and its memory."""
        with tempfile.TemporaryDirectory(dir=self.data) as directory:
            out = Path(directory) / "found.json"
            command = module_command(f"benchmarks.{module}", *words, "--out", out, python=python)
            peak = run_measured(command, self.data)
            found = json.loads(out.read_text())
        return {"found": found, "memory": asdict(peak)}

    def ours(
        self, name: str, cohort: Cohort, *words: object, with_frequencies: bool = True
    ) -> Record:
        """Accumulate a cohort and return a row of a table.

        Parameters
        ----------
        name
            Name of the row.
        cohort
            Cohort to accumulate.
        words
            Further options of `benchmarks.ours`.
        with_frequencies
            Whether genotypes are coded with the panel's frequencies, as ``--ref-freq`` does, or as
            -1, 0 and 1.
        """
        if with_frequencies:
            words = ("--ref-freq", frequencies(cohort), *words)
        ran = self.program(
            "ours", "--store", cohort.store, "--repetitions", self.repetitions, *words
        )
        row = _row(name, cohort, {**ran["found"], "memory": ran["memory"]})
        _say(row)
        return row

    def peer(self, name: str, cohort: Cohort, *words: object) -> Record:
        """Time a peer on a cohort; a row of a table."""
        ran = self.program("peers", *words, "--repetitions", self.repetitions)
        row = _row(name, cohort, {**ran["found"], "memory": ran["memory"]})
        _say(row)
        return row

    def peak_rates(self, threads: int) -> dict[str, list[float]]:
        """Full-product rates of every kernel there is, in operations a second."""
        names = self.program("peaks", "--kernel", "none", "--threads", 1)["found"]
        return {name: self.peak_rate(name, threads) for name in names}

    def peak_rate(self, kernel: str, threads: int, python: str = sys.executable) -> list[float]:
        """Full-product rate of one kernel, in operations a second."""
        words = ("--kernel", kernel, "--threads", threads, "--repetitions", self.repetitions)
        rates: list[float] = self.program("peaks", *words, python=python)["found"]
        click.echo(
            f"{kernel:10} full products, {threads} threads: {median(rates) / 1e9:8.0f} GOP/s"
        )
        return rates


def median(values: list[float]) -> float:
    """Median as a float."""
    return float(statistics.median(values))


def effective_rate(row: Record) -> float:
    """``2 n d^2 / time``: what a program without symmetry would have had to do, a second."""
    return 2.0 * int(row["samples"]) * int(row["variants"]) ** 2 / median(row["seconds"])


def _row(name: str, cohort: Cohort, found: Record) -> Record:
    return {"name": name, "samples": cohort.samples, "variants": cohort.variants, **found}


def _say(row: Record) -> None:
    memory = row["memory"]["total"] / 2**30
    seconds = " ".join(f"{s:.3f}" for s in row["seconds"])
    click.echo(f"{row['name']:34} {median(row['seconds']):9.3f} s  {memory:6.2f} GiB  ({seconds})")
