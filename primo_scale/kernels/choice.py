"""Which kernel multiplies on this machine."""

from __future__ import annotations

from functools import cache

import numpy as np

from primo_scale.errors import UsageError
from primo_scale.kernels.clipping import UNCLIPPED, scale_columns
from primo_scale.kernels.packed import add_squared_norms, decode
from primo_scale.kernels.processor import looks_up_fast
from primo_scale.kernels.product_amx import Amx
from primo_scale.kernels.product_avx512 import Signs, Vnni
from primo_scale.kernels.product_blas import Blas
from primo_scale.kernels.product_lookup import Lookup
from primo_scale.kernels.product_torch import Torch
from primo_scale.kernels.products import LARGEST_BYTE, ProductKernel, ProductSum

AUTOMATIC = "auto"
NAMES = (AUTOMATIC, "amx", "lookup", "signs", "vnni", "torch", "cuda", "float32", "float64")
"""What ``--kernel`` takes."""


def choose_kernel(name: str, largest_code: int) -> ProductKernel:
    """The kernel called `name`, or the fastest one that this machine has.

    Every kernel gives the same integers, so machines of one cluster may choose differently.

    Parameters
    ----------
    name
        One of `NAMES`.
    largest_code
        Bound on the magnitude of the codes on both sides.

    Raises
    ------
    UsageError
        This machine cannot run it, or what multiplies such codes in its place.
    """
    if name == AUTOMATIC:
        return _fastest(largest_code)
    kernel = _kernels(largest_code)[name]
    if largest_code > kernel.largest_code:
        # Some multiply genotypes coded about 1, and leave everything else to their neighbour.
        kernel = _kernels(largest_code)["vnni"]
    if not kernel.is_available():
        raise UsageError(
            f"this machine cannot run the kernel, which needs {kernel.needs}",
            where="--kernel",
            value=name,
            remedy="Leave the option out: the fastest one there is is chosen",
        )
    return kernel


def warmed_up(name: str, largest_code: int) -> str:
    """Compile what `choose_kernel` chooses before workers all do, and say what it is called.

    Raises
    ------
    UsageError
        As `choose_kernel`.
    """
    kernel = choose_kernel(name, largest_code)
    # Two rows: Numba compiles again for an array of one, which has no room between its rows.
    packed, table = np.zeros((2, 1), dtype=np.uint8), np.zeros((2, 4), dtype=np.int8)
    codes = decode(packed, table, 4)
    scale_columns(codes, np.zeros(1, dtype=np.intp), np.full(1, UNCLIPPED))
    add_squared_norms(np.zeros(4, dtype=np.int64), packed, table)
    for needed in (kernel, choose_kernel(name, LARGEST_BYTE)):
        ProductSum(needed, (2, 2), 1).add(codes, codes)
    return kernel.name


@cache
def _fastest(largest_code: int) -> ProductKernel:
    kernels = _kernels(largest_code)
    about_1 = ("lookup", "signs") if looks_up_fast() else ("signs", "lookup")
    names = ("cuda", "amx", *about_1, "vnni", "float32")
    suitable = (kernels[name] for name in names if largest_code <= kernels[name].largest_code)
    return next(kernel for kernel in suitable if kernel.is_available())


def _kernels(largest_code: int) -> dict[str, ProductKernel]:
    float32, float64 = (Blas(kind, largest_code) for kind in (np.float32, np.float64))
    found: list[ProductKernel] = [
        Amx(), Lookup(), Signs(), Vnni(), Torch("cpu"), Torch("cuda"), float32, float64,
    ]  # fmt: skip
    return {kernel.name: kernel for kernel in found}
