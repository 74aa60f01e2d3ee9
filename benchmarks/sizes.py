"""How time and memory grow with people, variants, phenotypes and processors."""

from __future__ import annotations

import math
from statistics import median

import click
import numpy as np

from benchmarks.cohorts import part_of, simulated
from benchmarks.programs import Bench, Record
from primo_scale.machine import usable_cpus

_SWEEP_REPETITIONS = 3
_FEW_PEOPLE, _FEW_VARIANTS = 2_000, 256
# A point is fitted if it takes this many times as long as a run with few people, which has as many
# variants in the fit over people, and few variants in the fit over variants.
_FITTED_ABOVE = 5.0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


@click.option(
    "--people", type=_numbers, default="50000,100000,200000,400000,800000", show_default=True
)
@click.option(
    "--variants", type=_numbers, default="1024,2048,4096,8192,16384,32768", show_default=True
)
@click.option("--at", nargs=2, default=(100_000, 8_192), show_default=True, metavar="N D")
def sweep(
    bench: Bench, people: tuple[int, ...], variants: tuple[int, ...], at: tuple[int, int]
) -> dict[str, object]:
    """Measure time and memory against people, at D variants, and against variants, at N people."""
    bench = Bench(bench.data, min(bench.repetitions, _SWEEP_REPETITIONS))
    by_people = simulated(bench.data, max(people), at[1])
    by_variants = simulated(bench.data, at[0], max(variants))
    few = {
        "people": bench.ours("few people", part_of(by_people, _FEW_PEOPLE, at[1])),
        "variants": bench.ours("few", part_of(by_variants, _FEW_PEOPLE, _FEW_VARIANTS)),
    }
    above = {size: _FITTED_ABOVE * median(row["seconds"]) for size, row in few.items()}
    in_people = [bench.ours(f"n = {n}", part_of(by_people, n, at[1])) for n in people]
    in_variants = [bench.ours(f"d = {d}", part_of(by_variants, at[0], d)) for d in variants]
    return {
        "few": few,
        "fitted_above": above,
        "people": in_people,
        "variants": in_variants,
        "exponent_people": fitted_exponent(in_people, "samples", above["people"]),
        "exponent_variants": fitted_exponent(in_variants, "variants", above["variants"]),
    }


def fitted_exponent(rows: list[Record], size: str, longer_than: float) -> Record | None:
    """Fit the slope of log time over log size by least squares to the rows that take long enough.

    Return the exponent and the sizes it was fitted to, or None if there are fewer than three.
    """
    fitted = [row for row in rows if median(row["seconds"]) >= longer_than]
    if len(fitted) < 3:
        return None
    x = [math.log(row[size]) for row in fitted]
    y = [math.log(median(row["seconds"])) for row in fitted]
    return {"exponent": float(np.polyfit(x, y, 1)[0]), "sizes": [row[size] for row in fitted]}


@click.option("--samples", default=100_000, show_default=True)
@click.option("--variants", default=10_240, show_default=True)
@click.option("--one-in", default=10, show_default=True, help="People for each one of X'X.")
def subsample(bench: Bench, samples: int, variants: int, one_in: int) -> dict[str, object]:
    """Measure what --subsample saves, for one dense block and for LD blocks."""
    cohort = simulated(bench.data, samples, variants)
    few = ("--subsample", samples // one_in)
    kinds: dict[str, tuple[str, ...]] = {
        "one block": (),
        "blocks of 500": ("--ld-blocks", "window:500"),
    }
    rows = [
        bench.ours(f"{kind}, {people}", cohort, *words, *more)
        for kind, words in kinds.items()
        for people, more in (("all people", ()), (f"1 in {one_in}", few))
    ]
    return {"rows": rows}


@click.option("--samples", default=100_000, show_default=True)
@click.option("--variants", default=8_192, show_default=True)
def scaling(bench: Bench, samples: int, variants: int) -> dict[str, object]:
    """Measure the whole accumulation and the kernel alone on one CPU, on all, and in between."""
    cohort = simulated(bench.data, samples, variants)
    counts = sorted({1, *(2**k for k in range(1, 20) if 2**k < usable_cpus()), usable_cpus()})
    rows, rates = [], {}
    for cpus in counts:
        words = ("--cpus", cpus, "--workers", cpus)
        rows.append(bench.ours(f"{cpus} CPUs, as many workers", cohort, *words))
        rates[cpus] = bench.peak_rate(rows[-1]["kernel"], cpus)
    if len(counts) > 1:
        rows.append(bench.ours("1 worker on all CPUs", cohort, "--workers", 1))
    return {"rows": rows, "kernel_rates": rates}
