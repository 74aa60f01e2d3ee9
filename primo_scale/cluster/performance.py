"""Dask's performance report of a run, which is private: it shows tasks, times and machines."""

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

# Dask's template loads the icon from its web site, which could log every view of the report.
_ICON = re.compile(rb'<link rel="shortcut icon"[^>]*>')


@contextmanager
def performance_reported(client: Client, path: Path) -> Iterator[None]:
    """Write a report of the cluster's activity during the block to an HTML file, mode 0600.

    The page contains its scripts and loads no other resources. It shows at most the last 100,000
    tasks (Dask's ``distributed.scheduler.dashboard.tasks.task-stream-length``). If the block fails,
    no report is written. The client must be the current one.
    """
    if client.run_on_scheduler(importlib.util.find_spec, "bokeh") is None:
        raise InputError(
            "the scheduler lacks Bokeh, which draws performance reports",
            where="--performance-report",
            remedy="Install it where the scheduler runs: pip install 'primo-scale[report]'",
        )
    with tempfile.TemporaryDirectory() as private:
        draft = Path(private) / "report.html"
        report = performance_report(str(draft), mode="inline")
        report.__enter__()
        yield
        # Not called after a failure, because it queries the scheduler, which may have failed.
        report.__exit__(None, None, None)
        write_atomically(path, _ICON.sub(b"", draft.read_bytes()))
