"""Dask's performance report of a run, for its owner's eyes: it shows tasks, times and machines."""

from __future__ import annotations

import importlib.util
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client, performance_report

from primo_scale.errors import InputError
from primo_scale.storage.files import write_atomically

PACKAGE = "bokeh"
INSTALL = "pip install 'primo-scale[report]'"
"""What draws the report, and how to get it."""

# Dask's template loads it from its web site, which would learn of every look at the report.
_ICON = re.compile(rb'<link rel="shortcut icon"[^>]*>')


@contextmanager
def performance_reported(client: Client, path: Path) -> Iterator[None]:
    """Write what the cluster did during the block to one HTML file, mode 0600.

    The page holds its scripts and loads nothing from elsewhere. It shows the last 100,000 tasks at
    most (Dask's ``distributed.scheduler.dashboard.tasks.task-stream-length``). Where the
    block fails there is no report.

    Parameters
    ----------
    client
        Connected, and the current one.
    path
        Replaced if it exists.

    Raises
    ------
    InputError
        The scheduler's Python lacks Bokeh; before the block.
    """
    if client.run_on_scheduler(importlib.util.find_spec, PACKAGE) is None:
        raise InputError(
            "the scheduler lacks Bokeh, which draws performance reports",
            where="--performance-report",
            remedy=f"Install it where the scheduler runs: {INSTALL}",
        )
    with tempfile.TemporaryDirectory() as private:
        draft = Path(private) / "report.html"
        report = performance_report(str(draft), mode="inline")
        report.__enter__()
        yield
        # Not after a failure: it would ask a scheduler that may be what failed.
        report.__exit__(None, None, None)
        write_atomically(path, _ICON.sub(b"", draft.read_bytes()))
