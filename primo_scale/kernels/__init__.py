"""Compiled and BLAS kernels on plain arrays, without data files, Dask or options."""

from __future__ import annotations

KERNELS = {
    "amx": "primo_scale.kernels.product_kernels:Amx",
    "vnni": "primo_scale.kernels.product_kernels:Vnni",
    "avx2": "primo_scale.kernels.product_kernels:Avx2",
    "float32": "primo_scale.kernels.products:Float32",
}
"""Class of every kernel (`kernels.products.ProductKernel`), the fastest first.

It is imported when the kernel is chosen, by default the first that the machine can run.
"""

AUTOMATIC = "auto"
NAMES = (AUTOMATIC, *KERNELS)
"""Values of `kernel`. Importing them does not import a kernel."""
