"""How time and memory grow with people, variants, phenotypes and processors."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.cohorts import part_of, simulated
from benchmarks.programs import Bench, Record, median
from primo_scale.machine import usable_cpus

_SWEEP_REPETITIONS = 3
_FEW_PEOPLE, _FEW_VARIANTS = 2_000, 256
# A point is fitted where it takes so many times as long as a run that has next to nothing to do:
# few people with as many variants, whose statistics are as large; and few of both.
_FITTED_ABOVE = 5.0


def sweep(
    bench: Bench, people: tuple[int, ...], variants: tuple[int, ...], fixed: tuple[int, int]
) -> dict[str, object]:
    """Cost against n at ``fixed[1]`` variants and against d at ``fixed[0]`` people."""
    bench = Bench(bench.data, min(bench.repetitions, _SWEEP_REPETITIONS))
    by_people = simulated(bench.data, max(people), fixed[1])
    by_variants = simulated(bench.data, fixed[0], max(variants))
    few = {
        "people": bench.ours("few people", part_of(by_people, _FEW_PEOPLE, fixed[1])),
        "variants": bench.ours("few", part_of(by_variants, _FEW_PEOPLE, _FEW_VARIANTS)),
    }
    above = {size: _FITTED_ABOVE * median(row["seconds"]) for size, row in few.items()}
    in_people = [bench.ours(f"n = {n}", part_of(by_people, n, fixed[1])) for n in people]
    in_variants = [bench.ours(f"d = {d}", part_of(by_variants, fixed[0], d)) for d in variants]
    return {
        "few": few,
        "fitted_above": above,
        "people": in_people,
        "variants": in_variants,
        "exponent_people": fitted_exponent(in_people, "samples", above["people"]),
        "exponent_variants": fitted_exponent(in_variants, "variants", above["variants"]),
    }


def fitted_exponent(rows: list[Record], size: str, longer_than: float) -> dict[str, object] | None:
    """Least-squares slope of log time over log size, where the work is what takes the time.

    Returns
    -------
    dict or None
        The exponent and the sizes it was fitted to; None with fewer than three of them.
    """
    fitted = [row for row in rows if median(row["seconds"]) >= longer_than]
    if len(fitted) < 3:
        return None
    x = [math.log(row[size]) for row in fitted]
    y = [math.log(median(row["seconds"])) for row in fitted]
    slope = float(np.polyfit(x, y, 1)[0])
    return {"exponent": slope, "sizes": [row[size] for row in fitted]}


def biobank(
    bench: Bench, dense: tuple[int, int], blocks: tuple[int, int, int], phenotypes: int
) -> dict[str, object]:
    """Measure a dense X'X with one and with many phenotypes, and LD blocks.

    Parameters
    ----------
    bench
        Where the cohorts lie, and the number of repetitions.
    dense
        People and variants of the dense cohort.
    blocks
        People, variants, and variants of an LD block.
    phenotypes
        Number of phenotypes of the second dense run.
    """
    long = ("--first-counts",)  # a run takes a minute, and starting up a second
    bench = Bench(bench.data, min(bench.repetitions, _SWEEP_REPETITIONS))
    cohort = simulated(bench.data, *dense)
    few, many = (
        bench.ours(
            f"dense, {count} phenotype{'s' if count > 1 else ''}",
            cohort, "--phenotypes", count, *long,
        )
        for count in (1, phenotypes)
    )  # fmt: skip
    n, d, width = blocks
    in_blocks = bench.ours(
        f"blocks of {width}", simulated(bench.data, n, d), "--ld-blocks", f"window:{width}", *long
    )
    return {
        "rows": [few, many, in_blocks],
        "cost_of_phenotypes": median(many["seconds"]) / median(few["seconds"]) - 1,
        "arithmetic_of_phenotypes": 4 * phenotypes / dense[1],
    }


def scaling(bench: Bench, samples: int, variants: int) -> dict[str, object]:
    """From one CPU to all: the whole accumulation, and the kernel alone, in turn."""
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
