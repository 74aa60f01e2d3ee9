"""How functions of this package are compiled."""

from __future__ import annotations

from typing import Any

import numba


def compiled(function: Any) -> Any:
    """Compile by Numba when first called, and keep that on the disk; lets go of the GIL.

    The copy on the disk is renewed when the function's own file changes. After a change of
    `avx512`, `amx` or `emitting` alone, touch the files whose functions use it.
    """
    return numba.njit(nogil=True, cache=True, boundscheck=False)(function)
