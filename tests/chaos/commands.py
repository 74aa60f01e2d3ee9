"""Processes that a test starts, watches and kills, and the journal of their work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil
from free_ports import free_ports
from journal import GATE, JOURNAL

ROOT = Path(__file__).resolve().parents[2]
# Only detects hangs.
PATIENCE_SECONDS = 600
Seen = TypeVar("Seen")


@dataclass(frozen=True)
class Event:
    """Line of the journal."""

    kind: str
    pid: int
    at: int
    task: str


@dataclass
class Journal:
    """Journal of the workers' tasks, in the order of its lines."""

    path: Path
    events: list[Event] = field(default_factory=list)
    _read: int = 0

    def environment(self) -> dict[str, str]:
        """Return the environment in which workers write the journal."""
        preload = Path(__file__).with_name("journal.py")
        return {
            JOURNAL: str(self.path),
            GATE: str(self.gate),
            "DASK_DISTRIBUTED__WORKER__PRELOAD": f'["{preload}"]',
        }

    @property
    def gate(self) -> Path:
        """File during whose existence started tasks wait."""
        return self.path.with_name("gate")

    def update(self) -> list[Event]:
        """Return all events so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                content = file.read()
            # The last line may be incomplete.
            whole = content[: content.rfind(b"\n") + 1]
            self._read += len(whole)
            for line in whole.decode().splitlines():
                kind, pid, at, task = line.split()
                self.events.append(Event(kind, int(pid), int(at), task))
        return self.events

    def computed(self) -> int:
        """Return the number of completed computations."""
        return sum(event.kind == "end" for event in self.update())

    def begun(self) -> list[str]:
        """Return the tasks in the order in which their computations started."""
        return [event.task for event in self.update() if event.kind == "begin"]

    def in_flight(self) -> set[tuple[int, str]]:
        """Return (process, task) of computations that started and did not end."""
        flying: set[tuple[int, str]] = set()
        for event in self.update():
            if event.kind == "begin":
                flying.add((event.pid, event.task))
            elif event.kind == "end":
                flying.discard((event.pid, event.task))
        return flying

    def workers(self) -> list[int]:
        """Return the process IDs of the workers that are alive."""
        pids = [event.pid for event in self.update() if event.kind == "worker"]
        return [pid for pid in pids if is_alive(pid)]


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill(pids: Sequence[int]) -> None:
    """Send SIGKILL to processes, and wait until they have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


def wait_until(condition: Callable[[], Seen], *, of: subprocess.Popen[str] | None = None) -> Seen:
    """Wait until `condition` is true or the process `of` has ended; return the last value."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (seen := condition()):
        if of is not None and of.poll() is not None:
            break
        assert time.monotonic() < until, "timeout"
        time.sleep(0.005)
    return seen


def command_of(command: str, arguments: Sequence[object]) -> list[str]:
    return [sys.executable, "-m", f"pipelines.{command}", *map(str, arguments)]


@contextmanager
def started(
    command: Sequence[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[str]]:
    """Start a command in its own process group, which is killed at the end."""
    with log.open("a") as stderr:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[str]) -> None:
    """Send SIGKILL to the process group of a command."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_address() -> str:
    (port,) = free_ports(1)
    return f"tcp://127.0.0.1:{port}"


def scheduler_at(address: str) -> list[str]:
    host, port = address.removeprefix("tcp://").split(":")
    return ["scheduler", "--host", host, "--port", port, "--no-dashboard"]


def worker_of(address: str) -> list[str]:
    return ["worker", address, "--no-dashboard", "--no-nanny", "--nthreads", "2"]


@contextmanager
def dask_process(
    directory: Path, journal: Journal, *words: str, environment: Mapping[str, str] = os.environ
) -> Iterator[subprocess.Popen[str]]:
    """Start ``dask scheduler`` or ``dask worker`` as a user does."""
    command = [sys.executable, "-m", "dask", *words]
    with started(
        command, {**environment, **journal.environment()}, directory / f"{words[0]}.log"
    ) as process:
        yield process
