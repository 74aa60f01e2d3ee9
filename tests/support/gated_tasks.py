"""Dask preload: after a few tasks, all others wait until ``$PRIMO_TEST_GATE`` has ``open``."""

import os
import threading
from pathlib import Path

from primo_scale.accumulation import tasks

PASS_AT_ONCE = 3
_closing = threading.Event()


def dask_setup(worker: object) -> None:
    """Hold every task at the gate; Dask calls this when the worker starts."""
    run, gate = tasks.run_task, Path(os.environ["PRIMO_TEST_GATE"])
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:  # Grid Engine, whose RESTARTED stays 0 after qmod -rj; every start is a session
        life = f"{os.environ['JOB_ID']}.{os.getsid(0)}"
    else:
        life = f"{job}.{os.environ.get('SLURM_RESTART_COUNT', '0')}"

    def run_behind_gate(address: tasks.Address, task: tasks.Task) -> tasks.Task:
        (gate / f"passed-{task.key.replace('/', '-')}").touch()
        if len(list(gate.glob("passed-*"))) > PASS_AT_ONCE:
            (gate / f"waits-{life}").touch()
            while not (gate / "open").exists():
                if _closing.wait(0.05):
                    raise RuntimeError("the worker closes")
        return run(address, task)

    tasks.run_task = run_behind_gate


def dask_teardown(worker: object) -> None:
    """End the tasks at the gate; Dask calls this when the worker closes in order."""
    _closing.set()
