"""Compiled and BLAS kernels on plain arrays, without files, Dask or options."""

from __future__ import annotations

AUTOMATIC = "auto"
NAMES = (AUTOMATIC, "amx", "vnni", "torch", "cuda", "float32", "float64")
"""Values of ``--kernel``. Importing them does not import a kernel."""
