"""The cohort of the tests, the journal of their tasks, and schedulers and workers of a user."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from support.command_io import PANEL, table_options
from support.processes import command_of, free_ports, started, wait_until
from support.small_cohort import BUDGET, share_adjustment
from support.task_journal import GATE, JOURNAL


@dataclass(frozen=True)
class Cohort:
    prefix: Path
    environment: dict[str, str]

    @property
    def paid(self) -> Path:
        """Adjustment of the finished run."""
        return Path(f"{self.prefix}.paid")

    def command(self, work: Path, *options: object) -> list[str]:
        """Return the command that accumulates the cohort in a few tasks, of one adjustment."""
        if self.paid.exists():
            share_adjustment(self.paid, work)
        return command_of("accumulate", [
            "--genotypes", f"{self.prefix}.zarr", *table_options(self.prefix),
            "--ref-freq", f"{PANEL}.afreq", "--work-dir", work, *BUDGET,
            "--ledger", f"{self.prefix}.sqlite", *options,
        ])  # fmt: skip


@dataclass(frozen=True)
class Finished:
    work: Path
    digest: str


@dataclass(frozen=True)
class Event:
    kind: str
    pid: int
    at: int
    task: str


@dataclass
class Journal:
    path: Path
    events: list[Event] = field(default_factory=list)
    _read: int = 0

    def environment(self) -> dict[str, str]:
        preload = Path(__file__).with_name("task_journal.py")
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
        return sum(event.kind == "end" for event in self.update())

    def begun(self) -> list[str]:
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
        pids = [event.pid for event in self.update() if event.kind == "worker"]
        return [pid for pid in pids if is_alive(pid)]


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


def free_address() -> str:
    (port,) = free_ports(1)
    return f"tcp://127.0.0.1:{port}"


def scheduler_at(
    address: str, folder: Path, journal: Journal, environment: Mapping[str, str] = os.environ
) -> AbstractContextManager[subprocess.Popen[str]]:
    host, port = address.removeprefix("tcp://").split(":")
    return _dask("scheduler", ["--host", host, "--port", port], folder, journal, environment)


def worker_of(
    address: str, folder: Path, journal: Journal, environment: Mapping[str, str] = os.environ
) -> AbstractContextManager[subprocess.Popen[str]]:
    return _dask("worker", [address, "--no-nanny", "--nthreads", "2"], folder, journal, environment)


def _dask(kind, words, folder, journal, environment):
    """Start ``dask scheduler`` or ``dask worker`` as a user does."""
    command = [sys.executable, "-m", "dask", kind, *words, "--no-dashboard"]
    return started(command, {**environment, **journal.environment()}, folder / f"{kind}.log")
