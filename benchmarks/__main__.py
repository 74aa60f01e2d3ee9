"""How long the stages of a release take, compared with other programs, and how that grows.

``python -m benchmarks PART --data DIR --results FILE`` measures one part, and ``document`` writes
docs/benchmarks.md from page.md and measured.md beside this file. Cohorts are simulated into
`--data` once; each command replaces its own part of the results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from benchmarks.genome import genome
from benchmarks.headline import headline
from benchmarks.ingest import ingest
from benchmarks.programs import Bench
from benchmarks.results import record, stored
from benchmarks.sizes import scaling, subsample, sweep
from benchmarks.tables import page_text, section_text

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
_PATH = click.Path(path_type=Path)


@click.group()
def main() -> None:
    """Measure the stages of a release, and whole releases."""


def _add_command(measure: Callable[..., dict[str, object]]) -> None:
    """Add a command that measures something and records it under its own name."""
    name = measure.__name__

    @main.command(name, help=measure.__doc__)
    @click.option("--data", type=_PATH, required=True, help="Directory for simulated cohorts.")
    @click.option("--results", type=_PATH, required=True, help="JSON file to add the results to.")
    @click.option("--repetitions", default=5, show_default=True)
    @wraps(measure)  # with its own options
    def run(data: Path, results: Path, repetitions: int, **sizes: Any) -> None:
        data.mkdir(parents=True, exist_ok=True)
        record(results, name, lambda: measure(Bench(data, repetitions), **sizes))
        click.echo("\n" + section_text(name, stored(results)[name]))


for _measure in (genome, headline, sweep, scaling, ingest, subsample):
    _add_command(_measure)


@main.command()
@click.option("--results", type=_PATH, required=True)
def document(results: Path) -> None:
    """Write docs/benchmarks.md. Benchmarks that are not in the results keep their tables."""
    before = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(page_text(stored(results), before), encoding="utf-8")


if __name__ == "__main__":
    main()
