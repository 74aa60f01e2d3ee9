"""Compiled and BLAS kernels on plain arrays, without data files, Dask or options."""

from __future__ import annotations

KERNELS = {
    "amx": "primo_scale.kernels.product_amx:Amx",
    "vnni": "primo_scale.kernels.product_avx512:Vnni",
    "avx2": "primo_scale.kernels.product_avx2:Avx2",
    "torch": "primo_scale.kernels.product_torch:Torch",
    "cuda": "primo_scale.kernels.product_torch:Cuda",
    "float32": "primo_scale.kernels.product_blas:Float32",
    "float64": "primo_scale.kernels.product_blas:Float64",
}
"""Class of every kernel (`kernels.products.ProductKernel`), imported when the kernel is chosen."""

FASTEST_FIRST = ("amx", "vnni", "avx2", "float32")
"""Kernels that are chosen automatically: the first that the machine can run."""

AUTOMATIC = "auto"
NAMES = (AUTOMATIC, *KERNELS)
"""Values of ``--kernel``. Importing them does not import a kernel."""
