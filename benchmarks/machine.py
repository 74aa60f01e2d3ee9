"""Which machine a benchmark ran on, and an environment that favours nobody."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from primo_scale.machine import usable_cpus

_PACKAGES = ("numpy", "numba", "zarr", "dask", "distributed", "scikit-learn", "bed-reader", "torch")
# A shell may choose another processor's BLAS kernels, which halves their speed: ours and others'.
_NOT_PASSED_ON = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def clean_environment() -> dict[str, str]:
    """The environment of every program that is timed."""
    return {name: text for name, text in os.environ.items() if name not in _NOT_PASSED_ON}


def description() -> dict[str, Any]:
    """Processor, memory, system, versions, date and load, as they are now."""
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
    """The model, and which of its instructions decide what is chosen."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    fields = {name.strip(): text for name, _, text in (line.partition(":") for line in lines)}
    flags = fields.get("flags", "").split()
    wanted = ("avx2", "avx512_vnni", "amx_int8")
    found = [name for name in wanted if name in flags]
    model = fields.get("model name", platform.machine()).strip()
    return f"{model} ({', '.join(found)})"


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str:
    """The commit that is checked out, and whether files differ from it."""
    try:
        words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def module_command(module: str, *words: object, python: str = sys.executable) -> list[str]:
    """A command line that runs one of this project's modules."""
    return [python, "-m", module, *map(str, words)]
