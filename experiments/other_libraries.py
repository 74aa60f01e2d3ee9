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
WITHOUT = "" if INSTALLED else " (without Opacus and diffprivlib: make other-environments)"
"""What a title says where the environment is missing."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Result of a library.

    Attributes
    ----------
    weights : ndarray of float64, shape (d, l)
        Weights of each outcome.
    cpu_seconds : float
        Processor time of the fit, without imports.
    multiplier : float
        Noise multiplier of Opacus; nan for other libraries.
    """

    weights: Float64
    cpu_seconds: float
    multiplier: float = math.nan


def fit_by(script: str, **inputs: Any) -> Fitted:
    """Run a script of this package, such as ``opacus_dp_sgd``, with arrays as its inputs."""
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder) / "inputs.npz", Path(folder) / "result.npz"
        np.savez(given, **inputs)
        command = [
            str(_PYTHON),
            "-W",
            "ignore",
            "-m",
            f"experiments.{script}",
            str(given),
            str(result),
        ]
        subprocess.run(command, check=True, cwd=_ROOT)
        found = np.load(result)
        return Fitted(**{name: found[name][()] for name in found})
