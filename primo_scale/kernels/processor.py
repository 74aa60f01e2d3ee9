"""Processor features that this process can use."""

from __future__ import annotations

import ctypes
import sys

import numba
from llvmlite import binding

TILE_FEATURES = frozenset({"amx-tile", "amx-int8", "avx512f"})
"""Processor features that `primo_scale.kernels.amx` needs, by LLVM's names."""

# Linux on x86-64, Documentation/arch/x86/xstate.rst: the system call, the requested operation, and
# the component of the processor's state.
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


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


def request_tiles() -> bool:
    """Request AMX for bytes from the system, and return whether this process may use it.

    The request is needed because the system reserves 8 KiB more for each thread that uses tiles,
    and stops a process that uses them without permission. The permission is permanent, and forked
    processes inherit it.
    """
    if sys.platform != "linux" or not host_features() >= TILE_FEATURES:
        return False
    status = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    return int(status) == 0
