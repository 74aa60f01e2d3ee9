"""Compilation of the functions of this package."""

from __future__ import annotations

from typing import Any

import numba


def compiled(function: Any) -> Any:
    """Compile a function with Numba at its first call, with a disk cache and without the GIL.

    The disk cache is renewed if the function's own file changes. After a change of only `avx512`,
    `amx` or `emitting`, touch the files whose functions use them.
    """
    return numba.njit(nogil=True, cache=True, boundscheck=False)(function)
