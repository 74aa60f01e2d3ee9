"""Progress bars for people at a terminal, silence for log files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar that is moved by calling what this gives with (done, in all)."""
    from rich.console import Console
    from rich.progress import (  # fmt: skip
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        bar = bars.add_task(description, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
