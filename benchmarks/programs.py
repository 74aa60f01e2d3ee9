"""Run one of this package's measuring programs, and read what it found.

Each measurement has processes of its own, so that no measurement depends on what another one
imports, allocates or starts, and memory is that of the measured program.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.cohorts import Cohort, frequencies
from benchmarks.measurement import module_command, run_measured
from primo_scale.genotypes.coding import LARGEST_CODE
from primo_scale.kernels import KERNELS
from primo_scale.kernels.product_kernels import kernel_named

Record = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """Directory of cohorts and scratch files, and the number of repetitions."""

    data: Path
    repetitions: int

    def program(self, module: str, *words: object) -> Record:
        """Run a program alone in a directory; return what it wrote to ``--out``, and its memory."""
        with tempfile.TemporaryDirectory(dir=self.data) as directory:
            out = Path(directory) / "found.json"
            words = (*words, "--repetitions", self.repetitions, "--out", out)
            command = module_command(f"benchmarks.{module}", *words)
            peak = run_measured(command, self.data)
            return {"found": json.loads(out.read_text()), "memory": asdict(peak)}

    def ours(
        self, name: str, cohort: Cohort, *words: object, with_frequencies: bool = True
    ) -> Record:
        """Accumulate a cohort with further options of `benchmarks.ours`; return a row of a table.

        Genotypes are coded with the panel's frequencies, as ``--ref-freq`` does, or as -1, 0 and 1.
        """
        if with_frequencies:
            words = ("--ref-freq", frequencies(cohort), *words)
        return self._row(name, cohort, "ours", "--store", cohort.store, *words)

    def peer(self, name: str, cohort: Cohort, *words: object) -> Record:
        """Run another program on a cohort and return a row of a table."""
        return self._row(name, cohort, "peers", *words)

    def _row(self, name: str, cohort: Cohort, module: str, *words: object) -> Record:
        ran = self.program(module, *words)
        return row_of(name, cohort, {**ran["found"], "memory": ran["memory"]})

    def peak_rates(self, threads: int) -> dict[str, list[float]]:
        """Return the full-product rates of every available kernel, in operations a second."""
        return {
            name: self.peak_rate(name, threads)
            for name in KERNELS
            if kernel_named(name, LARGEST_CODE).is_available()
        }

    def peak_rate(self, kernel: str, threads: int) -> list[float]:
        """Return the full-product rates of one kernel, in operations a second."""
        words = ("--kernel", kernel, "--threads", threads)
        rates: list[float] = self.program("peaks", *words)["found"]
        click.echo(
            f"{kernel:10} full products, {threads} threads: {median(rates) / 1e9:8.0f} GOP/s"
        )
        return rates


def row_of(name: str, cohort: Cohort, found: Record) -> Record:
    """Return a row of a table, and print its times and its memory."""
    memory, seconds = found["memory"]["total"] / 2**30, found["seconds"]
    times = " ".join(f"{s:.3f}" for s in seconds)
    click.echo(f"{name:34} {median(seconds):9.3f} s  {memory:6.2f} GiB  ({times})")
    return {"name": name, "samples": cohort.samples, "variants": cohort.variants, **found}


def effective_rate(row: Record) -> float:
    """Return ``2 n d^2 / time``, the operations a second of a program that uses no symmetry."""
    return float(2 * row["samples"] * row["variants"] ** 2 / median(row["seconds"]))
