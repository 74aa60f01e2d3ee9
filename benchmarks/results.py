"""The file of results, which holds for each benchmark the machine and everything measured."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from primo_scale.machine import usable_cpus
from primo_scale.storage.files import write_atomically

_PACKAGES = ("numpy", "numba", "zarr", "dask", "distributed", "scikit-learn", "bed-reader")
_DECISIVE_INSTRUCTIONS = ("avx2", "avx512_vnni", "amx_int8")
Section = dict[str, Any]


def stored(path: Path) -> dict[str, Section]:
    """Return all sections of the file by name of the benchmark; none if there is no file."""
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def record(path: Path, name: str, measure: Callable[[], dict[str, object]]) -> None:
    """Measure, and replace the section of that name if the measurement succeeds."""
    machine = description()  # first, so that its load does not include the measurement
    section = {"machine": machine, "measured": measure()}
    text = json.dumps({**stored(path), name: section}, indent=1)
    write_atomically(path, f"{text}\n".encode())


def description() -> dict[str, Any]:
    """Return processor, memory, system, versions, date and load, as they are now."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cpus": usable_cpus(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 2),
        "commit": _commit(),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def _processor() -> str:
    """Return the model, and the instructions that decide which kernel is chosen."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    fields = {name.strip(): text for name, _, text in (line.partition(":") for line in lines)}
    flags = fields.get("flags", "").split()
    found = ", ".join(name for name in _DECISIVE_INSTRUCTIONS if name in flags)
    return f"{fields.get('model name', platform.machine()).strip()} ({found})"


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _commit() -> str:
    """Return the commit that is checked out, and whether files differ from it."""
    try:
        words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
