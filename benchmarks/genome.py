"""How long a whole release takes, by stage, beside the least that its stages could take.

By default the cohort is that of docs/benchmarks.md; ``--full`` takes larger ones. The least time of
a stage is that of its largest part at a rate measured in the same run: a copy of the .bed for
ingest, the products for the sums, and the eigendecompositions for finalize. Parts that overlap or
are small do not count.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from statistics import median

import click
import numpy as np

from benchmarks.cohorts import Cohort, simulated_files, write_frequencies
from benchmarks.ingest import copy_seconds, forget
from benchmarks.measurement import module_command, run_measured, seconds_of
from benchmarks.programs import Bench, Record
from benchmarks.stages import Cost
from primo_scale.kernels import AUTOMATIC
from primo_scale.machine import usable_cpus
from primo_scale.methods.linear_algebra import map_blocks
from primo_scale.run.design import MANY_PHENOTYPES

BLOCK = 500
"""Variants of an LD block."""

_BUDGET = ("--epsilon", 5, "--delta", 1e-7, "--accept-noise")
_TABLES = ("pheno", "covar", "pheno-bounds", "covar-bounds")
_COVARIATES = 2
_DECOMPOSITIONS = 16  # for each CPU


@dataclass(frozen=True)
class Size:
    """Size of a cohort, and the numbers of phenotypes of its releases, in ascending order."""

    samples: int
    variants: int
    phenotypes: tuple[int, ...]


_TENTH = (Size(100_000, 20_000, (10, 100)),)
_FULL = (
    Size(100_000, 200_000, (10, 100)),
    Size(500_000, 100_000, (10, 1_000)),
    Size(200_000, 400_000, (10,)),
)
WHOLE_ARRAY = Size(500_000, 800_000, (1_000,))
"""Size to which the measured costs are extrapolated."""


@click.option("--full", is_flag=True, help="Larger sizes, which take 65 GB of disk.")
@click.option("--samples", type=int, help="Another cohort, with --variants.")
@click.option("--variants", type=int)
@click.option("--phenotypes", default="10,100", show_default=True, help="Of that cohort.")
def genome(
    bench: Bench, full: bool, samples: int | None, variants: int | None, phenotypes: str
) -> dict[str, object]:
    """Measure whole releases by stage, and extrapolate them to a biobank's array."""
    sizes = _FULL if full else _TENTH
    if samples is not None and variants is not None:
        sizes = (Size(samples, variants, tuple(map(int, phenotypes.split(",")))),)
    cpus = usable_cpus()
    peak = median(bench.peak_rate(AUTOMATIC, cpus))
    rates = {"operations": peak, "decompositions": _decompositions_a_second(cpus)}
    cohorts = [_cohort(bench, size, rates) for size in sizes]
    return {"block": BLOCK, "cpus": cpus, "rates": rates, "cohorts": cohorts}


def _cohort(bench: Bench, size: Size, rates: Record) -> Record:
    """Measure a release for each number of phenotypes."""
    directory = bench.data / "genome"
    directory.mkdir(exist_ok=True)
    cohort = simulated_files(directory, size.samples, size.variants, size.phenotypes[-1])
    with cohort.prefix.with_suffix(".bim").open() as lines:
        write_frequencies(cohort, [line.split()[1] for line in lines])
    copied = median(copy_seconds(cohort.prefix, bench.repetitions))
    rows = [_release(cohort, count) for count in size.phenotypes]
    for row in rows:
        row["least"] = least_seconds(size, row["phenotypes"], copied, rates)
    return {
        "samples": size.samples,
        "variants": size.variants,
        "rows": rows,
        "extrapolated": extrapolated(size, rows) if len(rows) > 1 else None,
    }


def extrapolated(size: Size, rows: list[Record]) -> dict[str, Cost]:
    """Return the costs of `WHOLE_ARRAY` by stage, from two releases of one cohort.

    Ingest and the sums grow with people times variants, finalize with variants, and what reads
    tables with people times phenotypes, from the second release. The sums are linear in the bytes
    of outcomes, and finalize in phenotypes.
    """
    few, many = rows[0]["phenotypes"], rows[-1]["phenotypes"]
    (wanted,) = WHOLE_ARRAY.phenotypes
    people, variants = (
        getattr(WHOLE_ARRAY, name) / getattr(size, name) for name in ("samples", "variants")
    )

    def cost(stage: str, name: str) -> float:
        """Return the seconds, or the CPU seconds, of a stage for the whole array."""
        low, high = (row["stages"][stage][name] for row in (rows[0], rows[-1]))
        match stage:
            case "ingest":
                return float(people * variants * low)
            case "checks" | "outcomes" | "adjustment":
                return float(people * wanted / many * high)
            case "accumulate":
                start, end, last = map(outcome_bytes, (few, many, wanted))
                scale = people * variants
            case _:
                start, end, last, scale = few, many, wanted, variants
        return float(scale * (low + (last - start) / (end - start) * max(0, high - low)))

    stages = [stage for stage in rows[0]["stages"] if stage != "whole"]
    return {stage: {name: cost(stage, name) for name in ("seconds", "cpu")} for stage in stages}


def outcome_bytes(phenotypes: int) -> int:
    """Return the bytes of a person's outcomes: two of each, but one of each of many phenotypes."""
    return 2 * (1 + _COVARIATES) + (1 if phenotypes >= MANY_PHENOTYPES else 2) * phenotypes


def _decompositions_a_second(cpus: int) -> float:
    """Return the decompositions of LD blocks a second on all CPUs, as a release computes them."""
    half = np.random.default_rng().normal(size=(BLOCK, BLOCK))
    gram, count = half @ half.T, _DECOMPOSITIONS * cpus

    def decompose(block: int) -> None:
        np.linalg.eigh(gram)

    map_blocks(decompose, (BLOCK,) * cpus)
    return count / seconds_of(lambda: map_blocks(decompose, (BLOCK,) * count))


def least_seconds(size: Size, phenotypes: int, copied: float, rates: Record) -> dict[str, float]:
    """Return the least seconds of each stage.

    X'X takes n d_b^2 operations for each block, by symmetry, and X'Z two for each person, variant
    and byte of the outcomes.
    """
    products = size.samples * size.variants * (BLOCK + 2 * outcome_bytes(phenotypes))
    return {
        "ingest": copied,
        "accumulate": products / rates["operations"],
        "finalize": size.variants / BLOCK / rates["decompositions"],
    }


def _release(cohort: Cohort, phenotypes: int) -> Record:
    """Make a release of some phenotypes from files that are not in the page cache."""
    scratch = cohort.directory / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    os.environ["XDG_STATE_HOME"] = str(scratch / "state")  # a ledger of its own
    names = ",".join(f"QT{number + 1}" for number in range(phenotypes))
    found = scratch / "found.json"
    words = [
        "--bfile", cohort.prefix, "--ref-freq", cohort.prefix.with_suffix(".afreq"),
        "--ld-blocks", f"window:{BLOCK}", "--pheno-name", names, *_BUDGET,
        "--out", scratch / "release", "--work-dir", scratch / "work", "--found", found,
        *(word for name in _TABLES for word in (f"--{name}", cohort.table(name))),
    ]  # fmt: skip
    forget(cohort.prefix)
    run_measured(module_command("benchmarks.stages", *words), cohort.directory)
    stages = json.loads(found.read_text())
    shutil.rmtree(scratch)
    seconds = ", ".join(f"{name} {cost['seconds']:.1f} s" for name, cost in stages.items())
    click.echo(f"{cohort.prefix.name}, {phenotypes} phenotypes: {seconds}")
    return {"phenotypes": phenotypes, "stages": stages}
