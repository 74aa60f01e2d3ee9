"""Compilation of the functions of this package, and the processor features that they may use."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import binding


def compiled(function: Any, *, reorders: bool = False) -> Any:
    """Compile a function with Numba at its first call, with a disk cache and without the GIL.

    If it `reorders`, sums of floats are in the order in which the processor adds fastest, and their
    last bits depend on the processor.

    The disk cache is renewed if the function's own file changes. After a change of `emitting`
    alone, touch `product_amx` and `product_avx512`.
    """
    flags = {"reassoc", "contract"} if reorders else False
    return numba.njit(nogil=True, cache=True, boundscheck=False, fastmath=flags)(function)


def host_features() -> frozenset[str]:
    """Return the processor features that Numba may use, by LLVM's names."""
    config = numba.config
    if config.DISABLE_JIT or config.CPU_NAME or config.CPU_FEATURES or not config.ENABLE_AVX:
        return frozenset()  # the user disables compilation or selects another processor
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot query this kind of processor
        return frozenset()
    return frozenset(name for name, present in features.items() if present)
