#!/usr/bin/env python3
"""Emulation of PBS, LSF and SGE under the names of their commands: a job is a process group.

``$STAND_IN_QUEUE`` holds one file for each job, named by its number.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

QUEUE = Path(os.environ["STAND_IN_QUEUE"])
KIND = os.environ["STAND_IN_KIND"]


def submit(script: str) -> None:
    job = subprocess.Popen(
        ["bash", "-c", script],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    (QUEUE / str(job.pid)).touch()
    said = {
        "pbs": f"{job.pid}.server",
        "lsf": f"Job <{job.pid}> is submitted to default queue <normal>.",
        "sge": f'Your job {job.pid} ("primo-scale") has been submitted',
    }
    print(said[KIND])


def alive() -> list[str]:
    numbers = []
    for path in sorted(QUEUE.iterdir()):
        with suppress(OSError):
            state = Path(f"/proc/{path.name}/stat").read_text().rpartition(")")[2].split()[0]
            numbers += [path.name] if state != "Z" else []
    return numbers


def show() -> None:
    head = "job-ID  prior   name       user         state submit/start at     queue\n" + "-" * 80
    lines = {
        "pbs": [f"{number}.server" for number in alive()],
        "lsf": alive(),
        "sge": [head, *(f"{number:>10} 0.55500 primo-scal me r" for number in alive())],
    }
    print("\n".join(lines[KIND]))


def end(number: str) -> None:
    """End a job; a job that does not exist is an error, as in the real queues."""
    os.killpg(int(number), signal.SIGTERM)


if __name__ == "__main__":
    command = Path(sys.argv[0]).name
    if command == "bsub":
        submit(sys.stdin.read())
    elif command == "qsub":
        submit(Path(sys.argv[-1]).read_text())
    elif command in ("qdel", "bkill"):
        end(sys.argv[-1])
    else:
        show()
