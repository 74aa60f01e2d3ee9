"""Kernels: functions that Numba compiles, called with arrays, numbers and tuples of them.

The object code of a kernel, for each combination of argument types, is kept on the disk
(`object_code`), and Numba is imported only to compile. A kernel releases the interpreter lock and
allocates no memory. The functions that it calls must be decorated with `inlined` or `emitted`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from primo_scale.kernels.object_code import NUMBA_SETTINGS, DiskCache, processor_features

_compiling = threading.Lock()
_SIZE = ctypes.c_ssize_t
_MOST = 1 << 63

# Functions that kernels may call and Numba does not know yet.
_INLINED: list[Callable[..., Any]] = []


def compiled(function: Any, *, reorders: bool = False) -> Any:
    """Return the kernel of a function.

    If it `reorders`, sums of floats are in the order in which the processor adds fastest, and their
    last bits depend on the processor.
    """
    return functools.wraps(function)(_Kernel(function, reorders))


def inlined(function: Any) -> Any:
    """Return the function, which becomes part of the object code of the kernels that call it."""
    _INLINED.append(function)
    return function


class _Kernel:
    def __init__(self, function: Callable[..., Any], reorders: bool) -> None:
        self._function, self._reorders = function, reorders
        self._versions: dict[str, Callable[[list[Any]], Any]] = {}
        self._cache = DiskCache(Path(function.__code__.co_filename))

    def __call__(self, *arguments: Any) -> Any:
        words: list[Any] = []
        types = ",".join([_flatten(argument, words) for argument in arguments])
        version = self._versions.get(types)
        if version is None:
            if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
                return self._function(*arguments)
            with _compiling:  # threads load one version, one after the other
                version = self._versions.get(types) or self._load(types, arguments)
                self._versions[types] = version
        return version(words)

    def _load(self, types: str, arguments: tuple[Any, ...]) -> Callable[[list[Any]], Any]:
        """Return the version for these types of arguments, compiled unless the disk has it."""
        name = f"{self._function.__module__}.{self._function.__qualname__}({types})"
        found = self._cache.read(name)
        if found is None:
            # Importing Numba takes long, and most processes need not compile.
            from primo_scale.kernels.numba_compiler import compile_for

            found = compile_for(
                self._function, arguments, inlined=_INLINED, reorders=self._reorders
            )
            self._cache.write(name, found)
        return found.function(list(_slots(arguments)))


def _flatten(argument: Any, words: list[Any]) -> str:
    """Append the words of an argument, and return a name of its type.

    Numba passes the items of a tuple one by one, and an array as owner, parent, size, bytes of an
    item, address, shape and strides (`numba.core.datamodel.models.ArrayModel`). Without an owner,
    Numba counts no references.
    """
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        address = argument.__array_interface__["data"][0]
        words += (0, 0, argument.size, argument.itemsize, address)
        words += argument.shape + argument.strides
        kind = f"{argument.dtype.str}[{argument.ndim}]{layout}"
        return kind + " read-only" * (not flags.writeable) + " unaligned" * (not flags.aligned)
    if isinstance(argument, tuple):
        return (
            f"{type(argument).__name__}({','.join([_flatten(item, words) for item in argument])})"
        )
    if type(argument) is int and not -_MOST <= argument < _MOST:
        raise OverflowError(f"{argument} does not fit in 64 bits")
    words.append(argument.item() if isinstance(argument, np.generic) else argument)
    return type(argument).__name__


def _slots(arguments: Iterable[Any]) -> Iterator[Any]:
    """Yield the C type of every word of the arguments."""
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            yield from [_SIZE] * (5 + 2 * argument.ndim)
        elif isinstance(argument, tuple):
            yield from _slots(argument)
        else:
            yield np.ctypeslib.as_ctypes_type(np.result_type(argument))


def host_features() -> frozenset[str]:
    """Return the processor features that Numba may use, by LLVM's names."""
    settings = os.environ.get
    if settings("NUMBA_CPU_NAME") or settings("NUMBA_CPU_FEATURES") or NUMBA_SETTINGS.exists():
        return frozenset()  # the user selects another processor, or may do so in the file
    if settings("NUMBA_DISABLE_JIT", "0") != "0" or settings("NUMBA_ENABLE_AVX", "1") == "0":
        return frozenset()
    return frozenset(name for name, present in processor_features().items() if present)
