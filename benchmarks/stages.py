"""Program: one whole release, with the wall time, processor time and peak memory of each stage.

``python -m benchmarks.stages --found FILE.json OPTIONS`` takes the options of
``primo-scale release`` and makes the release in this process, on threads.
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import click
import psutil

from benchmarks.measurement import peak_bytes
from primo_scale.cli.command_line import ContractCommand
from primo_scale.run.operations import release
from primo_scale.run.run_log import LOGGER

Cost = dict[str, float]
_FORGET_PEAK = "5"  # proc(5), clear_refs: the peak is then that from now on


class StageCosts(logging.Handler):
    """Handler that measures the stages, from the lines in which the run logs them."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.costs: dict[str, Cost] = {}
        self._start = _now()

    def emit(self, record: logging.LogRecord) -> None:
        """Start to measure at the begin of a stage, and note its costs at the end."""
        event = getattr(record, "event", None)
        if event == "stage begins":
            Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)
            self._start = _now()
        elif event == "stage ends":
            costs = {name: value - self._start[name] for name, value in _now().items()}
            self.costs[vars(record)["fields"]["stage"]] = {**costs, "peak": peak_bytes()}


def _now() -> Cost:
    times = os.times()
    return {"seconds": time.monotonic(), "cpu": times.user + times.system}


@click.command(cls=ContractCommand, kinds=["run.options.ReleaseRequest"])
@click.option("--found", type=click.Path(path_type=Path), required=True, help="JSON of the costs.")
def main(found: Path, asked: Any) -> None:
    """Make a release and write its costs."""
    stages = StageCosts()
    LOGGER.addHandler(stages)
    LOGGER.setLevel(logging.DEBUG)  # of the lines of stages
    release(asked)
    whole = {
        "seconds": time.time() - psutil.Process().create_time(),
        "cpu": _now()["cpu"],
        "peak": max(peak_bytes(), *(cost["peak"] for cost in stages.costs.values())),
    }
    found.write_text(json.dumps(with_rest(stages.costs, whole)))


def with_rest(stages: dict[str, Cost], whole: Cost) -> dict[str, Cost]:
    """Return the costs by stage, with what is left of the whole: imports and the first checks."""
    rest = {
        name: whole[name] - sum(cost[name] for cost in stages.values())
        for name in ("seconds", "cpu")
    }
    return {"checks": rest, **stages, "whole": whole}


if __name__ == "__main__":
    main()
