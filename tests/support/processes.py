"""Commands in processes of their own, which a test starts, waits for and kills; free ports."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]
# Only detects hangs.
PATIENCE_SECONDS = 600
# Below the ephemeral ports, which other processes may get before the server starts.
_PORTS = range(20_000, 32_000)
Seen = TypeVar("Seen")


def command_of(command: str, arguments: Sequence[object]) -> list[str]:
    module = (ROOT / "pipelines" / f"{command}.py").exists()
    words = [f"pipelines.{command}"] if module else ["primo_scale", command]
    return [sys.executable, "-m", *words, *map(str, arguments)]


def run(
    command: Sequence[object],
    environment: Mapping[str, str] = os.environ,
    *,
    folder: Path = ROOT,
    umask: int = -1,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), cwd=folder, env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, umask=umask, timeout=2 * PATIENCE_SECONDS,
    )  # fmt: skip


def run_program(*words: object, folder: Path | None = None) -> None:
    """Run another program, such as plink2, which has to succeed; its output is not shown."""
    subprocess.run(list(map(str, words)), cwd=folder, check=True, capture_output=True)


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str], log: Path, *, umask: int = -1
) -> Iterator[subprocess.Popen[str]]:
    """Start a command in its own process group, which is killed at the end."""
    with log.open("a") as stderr:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True,
            start_new_session=True, umask=umask,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(condition: Callable[[], Seen], *, of: subprocess.Popen[str] | None = None) -> Seen:
    """Wait until `condition` is true or the process `of` has ended; return the last value."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (seen := condition()):
        if of is not None and of.poll() is not None:
            break
        assert time.monotonic() < until, "timeout"
        time.sleep(0.005)
    return seen


def free_ports(count: int) -> list[int]:
    free = (port for port in random.sample(_PORTS, len(_PORTS)) if _is_free(port))
    return list(islice(free, count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
