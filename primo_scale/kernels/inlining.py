"""Functions that kernels call, and that become part of each kernel's object code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Emitter:
    """Function of a builder of LLVM instructions, called from the kernels of its module."""

    emit: Callable[..., Any]
    result: str  # Numba's name of a type


INLINED: list[Callable[..., Any]] = []
"""Functions of Python that kernels may call and Numba does not know yet."""

EMITTERS: list[Emitter] = []
"""Functions that emit instructions and Numba does not know yet."""


def inlined(function: Any) -> Any:
    """Return the function, which kernels may call."""
    INLINED.append(function)
    return function
