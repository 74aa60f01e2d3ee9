"""Results as Markdown tables, for the terminal and for docs/benchmarks.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.programs import Record, effective_rate
from benchmarks.results import Section

_FOLDER = Path(__file__).parent
_FIRST_LINE = (
    "<!-- generated: python -m benchmarks document --results FILE.json, "
    "from benchmarks/page.md and benchmarks/measured.md -->"
)
_GIGA = 1e9
Row = Sequence[str]


def section_text(name: str, section: Section) -> str:
    """Return the machine and the tables of one benchmark."""
    return f"{_machine(section['machine'])}\n\n{TABLES[name](section['measured'])}"


def page_text(results: dict[str, Section], before: str) -> str:
    """Fill the template of docs/benchmarks.md with results.

    Parameters
    ----------
    results
        Sections by name of the benchmark.
    before
        The page as it is. A benchmark that is not in `results` keeps its tables.
    """
    text = (_FOLDER / "page.md").read_text(encoding="utf-8")
    for name in TABLES:
        begin, end = f"<!-- {name}: measured -->", f"<!-- {name}: end -->"
        if name in results:
            tables = f"\n\n{section_text(name, results[name])}\n\n"
        else:
            tables = before.partition(begin)[2].partition(end)[0]
        text = text.replace(f"<!-- {name} -->", f"{begin}{tables}{end}")
    measured = (_FOLDER / "measured.md").read_text(encoding="utf-8")
    text = text.replace("<!-- measured.md -->\n", measured).replace("](../docs/", "](")
    return f"{_FIRST_LINE}\n\n{text}"


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {text}" for name, text in machine["versions"].items())
    return (
        f"{machine['date']}, commit {machine['commit']}; {machine['processor']}, "
        f"{machine['cpus']} CPUs, {machine['memory_bytes'] / 2**30:.0f} GiB; load "
        f"{machine['load_before']:.2f} before; {versions}."
    )


def _headline(measured: Section) -> str:
    peaks = {name: median(rates) for name, rates in measured["peaks"].items()}
    best = max(peaks.values())
    ours = median(measured["ours"][0]["seconds"])
    rows = [
        (
            row["name"],
            _seconds(row),
            f"{effective_rate(row) / _GIGA:,.0f}",
            f"{median(row['seconds']) / ours:.2f}",
            f"{effective_rate(row) / best:.2f}",
            _gibibytes(row["memory"]["total"]),
        )
        for row in (*measured["ours"], *measured["peers"])
    ]
    first = measured["ours"][0]
    titles = ("", "seconds (least-most)", "2nd²/s, G", "x primo_scale", "of the peak", "GiB")
    kernels = [
        (name, f"{rate / _GIGA:,.0f}", f"{rate / best:.2f}")
        for name, rate in sorted(peaks.items(), key=lambda item: -item[1])
    ]
    decoded = [
        (row["name"], _seconds(row), f"{row['genotypes'] / median(row['seconds']) / _GIGA:.2f}")
        for row in measured["decoding"]
    ]
    parts = (
        f"n = {first['samples']:,}, d = {first['variants']:,}; {_agreement(measured)}",
        _table(titles, rows),
        "Full products by kernels alone, on all CPUs:",
        _table(("kernel", "operations a second, G", "of the best"), kernels),
        "Decoding to int8, from files in the page cache:",
        _table(("", "seconds (least-most)", "genotypes a second, G"), decoded),
        _dask_trials(measured["peers"]),
    )
    return "\n\n".join(part for part in parts if part)


def _agreement(measured: Section) -> str:
    """Say whether all programs that multiplied the same codes found the same sum of X'X."""
    rows = [row for row in (*measured["ours"], *measured["peers"]) if "gram_sum" in row]
    found = {(row.get("largest_code", 1), row["gram_sum"]) for row in rows}
    if len(found) == len({largest for largest, _ in found}):
        return "all products of the same codes agree."
    return f"PRODUCTS DISAGREE (largest code, sum): {sorted(found)}."


def _dask_trials(peers: list[Record]) -> str:
    """Return the time of one run with each chunking, the shortest first."""
    lines = []
    for row in peers:
        if "trials" in row:
            tried = (
                f"{chunks[0]} x {chunks[1]} {seconds:.1f} s"
                for seconds, chunks in sorted(row["trials"])
            )
            lines.append(f"{row['name']}, chunks tried: {', '.join(tried)}.")
    return "\n".join(lines)


def _sweep(measured: Section) -> str:
    sizes = ("people", "n", "samples"), ("variants", "d", "variants")
    parts = []
    for part, letter, size in sizes:
        rows = measured[part]
        n, d = f"{rows[0]['samples']:,} people", f"{rows[0]['variants']:,} variants"
        parts.append(f"Against {letter}, with {d if letter == 'n' else n}:")
        slopes = ["", *(f"{_slope(*two, size):.2f}" for two in pairwise(rows))]
        cells = [
            (f"{row[size]:,}", *_costs(row), slope) for row, slope in zip(rows, slopes, strict=True)
        ]
        parts.append(_table((letter, *_COSTS, "exponent from the row above"), cells))
        few = measured["few"][part]
        parts.append(
            f"{_fit(measured[f'exponent_{part}'], letter)} Points of less than "
            f"{measured['fitted_above'][part]:.2f} s are not fitted: five times what "
            f"{few['samples']:,} people and {few['variants']:,} variants take."
        )
    return "\n\n".join(parts)


def _slope(first: Record, second: Record, size: str) -> float:
    """Return the exponent of time over size between two measurements."""
    times = median(second["seconds"]) / median(first["seconds"])
    return math.log(times) / math.log(second[size] / first[size])


def _fit(fit: dict[str, Any] | None, letter: str) -> str:
    if fit is None:
        return f"Too few points to fit an exponent of {letter}."
    sizes = fit["sizes"]
    return (
        f"Time grows as {letter}^{fit['exponent']:.3f} (least squares on logarithms, "
        f"{len(sizes)} points from {min(sizes):,} to {max(sizes):,})."
    )


def _scaling(measured: Section) -> str:
    rates = {int(cpus): median(found) for cpus, found in measured["kernel_rates"].items()}
    first = median(measured["rows"][0]["seconds"])
    rows = []
    for row, cpus in zip(measured["rows"], [*rates, None], strict=False):
        kernel = "" if cpus is None else f"{rates[cpus] / rates[1]:.2f}"
        rows.append((row["name"], _seconds(row), f"{first / median(row['seconds']):.2f}", kernel))
    return _table(("", "seconds (least-most)", "times as fast", "kernel alone"), rows)


def _subsample(measured: Section) -> str:
    rows = measured["rows"]
    cells = []
    for whole, few in zip(rows[::2], rows[1::2], strict=True):
        share = median(few["seconds"]) / median(whole["seconds"])
        cells += [(whole["name"], *_costs(whole), ""), (few["name"], *_costs(few), f"{share:.2f}")]
    first = rows[0]
    return "\n\n".join(
        (
            f"n = {first['samples']:,}, d = {first['variants']:,}.",
            _table(("", *_COSTS, "of the time for all people"), cells),
        )
    )


def _ingest(measured: Section) -> str:
    genotypes, size = measured["samples"] * measured["variants"], measured["bed_bytes"]
    copied = next(median(row["seconds"]) for row in measured["bed"] if row["name"] == "copy")

    def rows(part: str, rates: Callable[[float], Row]) -> Iterable[Row]:
        for row in measured[part]:
            peak = f"{row['peak'] / 1e6:,.0f}"
            yield row["name"], _seconds(row), *rates(median(row["seconds"])), peak

    simulation = rows("simulation", lambda seconds: [f"{genotypes / seconds / 1e6:,.0f}"])
    bed = rows("bed", lambda s: (f"{size / s / _GIGA:.2f}", f"{copied / s:.2f}"))
    titles = ("", "seconds (least-most)")
    of_copy = ("GB of .bed a second", "of the copy's rate")
    return "\n\n".join(
        (
            f"n = {measured['samples']:,}, d = {measured['variants']:,}, a .bed of "
            f"{size / _GIGA:.2f} GB.",
            _table((*titles, "genotypes a second, M", "peak, MB"), simulation),
            _table((*titles, *of_copy, "peak, MB"), bed),
        )
    )


_STAGES = {
    "checks": "start and checks",
    "ingest": "ingest",
    "outcomes": "phenotypes",
    "adjustment": "adjustment",
    "accumulate": "sums",
    "finalize": "finalize",
    "whole": "**whole release**",
}
_HOUR, _WORKERS = 3600, 100


def _genome(measured: Section) -> str:
    parts = [_genome_rates(measured)]
    for cohort in measured["cohorts"]:
        size = f"n = {cohort['samples']:,}, d = {cohort['variants']:,}"
        for row in cohort["rows"]:
            parts.append(f"{size}, {row['phenotypes']:,} phenotypes:")
            parts.append(_genome_stages(row))
        if cohort["extrapolated"]:
            parts.append(_whole_array(cohort["extrapolated"], measured["cpus"], size))
    return "\n\n".join(parts)


def _genome_rates(measured: Section) -> str:
    rates = measured["rates"]
    return (
        f"Measured rates, on {measured['cpus']} CPUs: {rates['operations'] / _GIGA:,.0f} G "
        f"operations a second of the kernel alone, {rates['decompositions']:.0f} decompositions a "
        f"second of blocks of {measured['block']} variants."
    )


def _genome_stages(row: Record) -> str:
    whole, rows = row["stages"]["whole"]["seconds"], []
    for stage, name in _STAGES.items():
        cost, least = row["stages"][stage], row["least"].get(stage)
        seconds, cpu = (_three_digits(cost[each]) for each in ("seconds", "cpu"))
        cells = [name, seconds, f"{cost['seconds'] / whole:.0%}", cpu]
        bound = ["", ""]
        if least is not None:
            bound = [_three_digits(least), f"{cost['seconds'] / least:.1f}"]
        peak = _gibibytes(cost["peak"]) if "peak" in cost else ""
        rows.append((*cells, peak, *bound))
    titles = ("", "seconds", "of the whole", "CPU seconds", "peak GiB", "least seconds", "times it")
    return _table(titles, rows)


def _whole_array(stages: dict[str, dict[str, float]], cpus: int, size: str) -> str:
    """Describe the release of a whole array, extrapolated from two releases of one cohort."""
    seconds, cpu = (sum(cost[name] for cost in stages.values()) for name in ("seconds", "cpu"))
    by_stage = ", ".join(
        f"{_STAGES.get(stage, stage)} {cost['seconds'] / _HOUR:.2f}"
        for stage, cost in stages.items()
    )
    sums = stages["accumulate"]["seconds"]
    shared = (seconds - sums + sums * cpus / _WORKERS) / _HOUR
    return (
        f"**Extrapolated** from {size} to 500,000 people, 800,000 variants and 1,000 phenotypes on "
        f"these {cpus} CPUs: {seconds / _HOUR:.2f} hours ({by_stage}), {cpu / _HOUR:.1f} CPU "
        f"hours. With {_WORKERS} workers of one such CPU for the sums, and all else here: "
        f"{shared:.2f} hours, if each adds as much as the CPUs here."
    )


_COSTS = ("seconds (least-most)", "2nd²/s, G", "GiB in all", "largest worker", "client")


def _costs(row: Record) -> Row:
    memory = row["memory"]
    blocks = row["blocks"]  # equal ones: 2 n d^2 / blocks
    return (
        _seconds(row),
        f"{effective_rate(row) / blocks / _GIGA:,.0f}",
        *(_gibibytes(memory[name]) for name in ("total", "child", "main")),
    )


def _seconds(row: Record) -> str:
    seconds = row["seconds"]
    middle, least, most = map(_three_digits, (median(seconds), min(seconds), max(seconds)))
    return f"{middle} ({least}-{most})"


def _three_digits(number: float) -> str:
    return f"{number:#.3g}".removesuffix(".")


def _gibibytes(size: int) -> str:
    return f"{size / 2**30:.2f}"


def _table(titles: Row, rows: Iterable[Row]) -> str:
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


TABLES: dict[str, Callable[[Section], str]] = {
    "genome": _genome,
    "headline": _headline,
    "sweep": _sweep,
    "scaling": _scaling,
    "ingest": _ingest,
    "subsample": _subsample,
}
