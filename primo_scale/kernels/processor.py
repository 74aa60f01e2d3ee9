"""What the processor of this machine can do, and the system lets this process do with it."""

from __future__ import annotations

import ctypes
import sys

import numba
from llvmlite import binding

TILE_FEATURES = frozenset({"amx-tile", "amx-int8", "avx512f"})
"""What `primo_scale.kernels.amx` needs, as LLVM calls it."""

# Of Linux on x86-64, Documentation/arch/x86/xstate.rst: a system call, what it is asked for, and
# which part of the processor's state.
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


def host_features() -> frozenset[str]:
    """What this processor has and Numba may use, as LLVM calls it."""
    config = numba.config
    if config.DISABLE_JIT or config.CPU_NAME or config.CPU_FEATURES or not config.ENABLE_AVX:
        return frozenset()  # asked not to compile, or to do it for another processor
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know how to ask this kind of processor
        return frozenset()
    return frozenset(name for name, present in features.items() if present)


def lends_tiles() -> bool:
    """Whether this processor has AMX for bytes, and the system lends it to this process.

    Asks for it: the system keeps 8 KiB more for a thread that multiplies tiles, and stops a process
    that uses them unasked. What was lent once stays so, for processes that are forked too.
    """
    if sys.platform != "linux" or not host_features() >= TILE_FEATURES:
        return False
    lent = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    return int(lent) == 0
