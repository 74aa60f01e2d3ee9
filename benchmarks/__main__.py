"""How long ingest and accumulation take, beside others in the same run, and how that grows.

``python -m benchmarks headline|sweep|biobank|scaling|ingest --data DIR --results FILE``, then
``document`` to write the tables and the plot of docs/benchmarks.md. Cohorts are simulated into
`--data` once; each command replaces its own part of the results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from benchmarks.headline import headline as run_headline
from benchmarks.ingest import ingest as run_ingest
from benchmarks.programs import Bench
from benchmarks.results import record, stored
from benchmarks.sizes import biobank as run_biobank
from benchmarks.sizes import scaling as run_scaling
from benchmarks.sizes import sweep as run_sweep
from benchmarks.tables import TABLES, print_tables

_ROOT = Path(__file__).resolve().parents[1]
_PATH = click.Path(path_type=Path)
Measure = Callable[..., dict[str, object]]


@click.group()
def main() -> None:
    """Measure ingest and accumulation."""


def _measuring(command: Measure) -> Callable[..., None]:
    """A command that measures something and records it under its own name."""
    name = command.__name__

    @main.command(name, help=command.__doc__)
    @click.option("--data", type=_PATH, required=True, help="Directory for simulated cohorts.")
    @click.option("--results", type=_PATH, required=True, help="JSON file to add the results to.")
    @click.option("--repetitions", default=5, show_default=True)
    @wraps(command)
    def run(data: Path, results: Path, repetitions: int, **sizes: Any) -> None:
        data.mkdir(parents=True, exist_ok=True)
        record(results, name, lambda: command(Bench(data, repetitions), **sizes))
        print_tables(name, stored(results)[name])

    return run


@_measuring
@click.option("--samples", default=50_000, show_default=True)
@click.option("--variants", default=4_096, show_default=True)
@click.option(
    "--torch-python", help="A Python with this project's packages and PyTorch, for its peak."
)
def headline(
    bench: Bench, samples: int, variants: int, torch_python: str | None
) -> dict[str, object]:
    """Kernels alone, the whole accumulation, and peers, on one cohort."""
    return run_headline(bench, samples, variants, torch_python)


@_measuring
@click.option("--samples", default="50000,100000,200000,400000,800000", show_default=True)
@click.option("--variants", default="1024,2048,4096,8192,16384,32768", show_default=True)
@click.option("--at-samples", default=100_000, show_default=True)
@click.option("--at-variants", default=8_192, show_default=True)
def sweep(
    bench: Bench, samples: str, variants: str, at_samples: int, at_variants: int
) -> dict[str, object]:
    """Time and memory against people and against variants."""
    return run_sweep(bench, _numbers(samples), _numbers(variants), (at_samples, at_variants))


@_measuring
@click.option("--samples", default=500_000, show_default=True)
@click.option("--variants", default=10_000, show_default=True)
@click.option("--phenotypes", default=1_000, show_default=True)
@click.option("--block-samples", default=100_000, show_default=True)
@click.option("--block-variants", default=100_000, show_default=True)
@click.option("--window", default=500, show_default=True)
def biobank(
    bench: Bench, samples: int, variants: int, phenotypes: int,
    block_samples: int, block_variants: int, window: int,
) -> dict[str, object]:  # fmt: skip
    """A cohort of a biobank's size, dense and in LD blocks."""
    blocks = (block_samples, block_variants, window)
    return run_biobank(bench, (samples, variants), blocks, phenotypes)


@_measuring
@click.option("--samples", default=100_000, show_default=True)
@click.option("--variants", default=8_192, show_default=True)
def scaling(bench: Bench, samples: int, variants: int) -> dict[str, object]:
    """From one CPU to all."""
    return run_scaling(bench, samples, variants)


@_measuring
@click.option("--samples", default=500_000, show_default=True)
@click.option("--variants", default=10_000, show_default=True)
def ingest(bench: Bench, samples: int, variants: int) -> dict[str, object]:
    """Simulation and ingest of a cohort, beside the disk."""
    return run_ingest(bench, samples, variants)


@main.command()
@click.option("--results", type=_PATH, required=True)
@click.option("--page", type=_PATH, default=_ROOT / "docs" / "benchmarks.md", show_default=True)
@click.option("--plot", type=_PATH, default=_ROOT / "docs" / "benchmarks" / "cost.svg")
def document(results: Path, page: Path, plot: Path) -> None:
    """Write the tables between the markers of the page, and the plot."""
    from benchmarks.plots import cost_curves

    found = stored(results)
    text = page.read_text(encoding="utf-8")
    for name in TABLES:
        if name in found:
            text = TABLES[name].placed(text, found[name])
    page.write_text(text, encoding="utf-8")
    if "sweep" in found:
        cost_curves(found["sweep"]["measured"], plot)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    main()
