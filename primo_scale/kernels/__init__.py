"""Compiled and BLAS kernels on plain arrays: no files, no Dask, no options."""

from __future__ import annotations

AUTOMATIC = "auto"
NAMES = (AUTOMATIC, "amx", "vnni", "torch", "cuda", "float32", "float64")
"""Values of ``--kernel``. Reading them imports none of the kernels."""
