"""Choice of the product kernel on this machine."""

from __future__ import annotations

import pkgutil
from functools import cache

import numpy as np

from primo_scale.errors import UsageError
from primo_scale.kernels import AUTOMATIC, KERNELS
from primo_scale.kernels.clipping import UNCLIPPED, scale_columns
from primo_scale.kernels.packed import add_squared_norms, decode
from primo_scale.kernels.products import ProductKernel, ProductSum


def choose_kernel(name: str, largest_code: int) -> ProductKernel:
    """Return the kernel called `name`, or the fastest kernel that this machine can run.

    All kernels return the same integers, so machines of one cluster may choose different kernels.
    `largest_code` bounds the magnitude of the codes on both sides. It determines how the BLAS
    kernel splits its sums, and does not affect the choice.
    """
    if name == AUTOMATIC:
        return _fastest(largest_code)
    kernel = kernel_named(name, largest_code)
    if not kernel.is_available():
        raise UsageError(
            f"this machine cannot run the kernel, which needs {kernel.needs}",
            where="--kernel",
            value=name,
            remedy="Leave the option out, to use the fastest kernel that the machine can run",
        )
    return kernel


def kernel_named(name: str, largest_code: int) -> ProductKernel:
    """Return the kernel of a name, whether this machine can run it or not."""
    kind: type[ProductKernel] = pkgutil.resolve_name(KERNELS[name])
    return kind(largest_code)


@cache
def _fastest(largest_code: int) -> ProductKernel:
    kernels = (kernel_named(name, largest_code) for name in KERNELS)
    return next(kernel for kernel in kernels if kernel.is_available())


def warmed_up(name: str, largest_code: int) -> str:
    """Compile the kernel that `choose_kernel` chooses, and return its name.

    Workers then load the compiled functions from the disk, and do not compile them themselves.
    """
    kernel = choose_kernel(name, largest_code)
    # Two rows, because Numba compiles a different version for a single, contiguous row.
    packed, table = np.zeros((2, 1), dtype=np.uint8), np.zeros((2, 4), dtype=np.int8)
    codes = decode(packed, table, 4)
    scale_columns(codes, np.full(4, UNCLIPPED))
    add_squared_norms(np.zeros(4, dtype=np.int64), packed, table)
    ProductSum(kernel, (2, 2), 1).add(codes, codes)
    return kernel.name
