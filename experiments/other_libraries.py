"""Baselines by Opacus and diffprivlib, which need an environment of their own."""

from __future__ import annotations

import math
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.gaussian_noise import Float64

_ROOT = Path(__file__).resolve().parents[1]
_PYTHON = _ROOT / ".venv-baselines" / "bin" / "python"
INSTALLED = _PYTHON.exists()
WITHOUT = "" if INSTALLED else " (without Opacus and diffprivlib: make baselines)"
"""What a title says where the environment is missing."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Result of a library."""

    weights: Float64  # of each outcome, shape (d, l)
    cpu_seconds: float  # processor time of the fit, without imports
    multiplier: float = math.nan  # of the noise by Opacus; nan for other libraries


def fit_by(script: str, **inputs: Any) -> Fitted:
    """Run a script of this package, such as ``opacus_dp_sgd``, with arrays as its inputs."""
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder) / "inputs.npz", Path(folder) / "result.npz"
        np.savez(given, **inputs)
        module = f"experiments.{script}"
        command: list[str | Path] = [_PYTHON, "-W", "ignore", "-m", module, given, result]
        subprocess.run(command, check=True, cwd=_ROOT)
        found = np.load(result)
        return Fitted(**{name: found[name][()] for name in found})
