"""Compilation of kernels by Numba, and instructions that Numba has no name for.

A kernel takes arrays, numbers and tuples of them, releases the interpreter lock and allocates no
memory. Its machine code is kept in Numba's cache, in a folder that no other user may enter. Numba
does not see that a function changes which a kernel inlines, or that another processor reads the
folder, so the folder's name is a digest of all sources of a kernel and of the processor.

The product kernels emit instructions of one kind of processor, and `genotypes.bed` calls libc.
Addresses are integers, since Numba has no pointers.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core.caching import FunctionCache
from numba.core.registry import cpu_target
from numba.extending import intrinsic, register_jitable

I8, I32, I64 = (ir.IntType(bits) for bits in (8, 32, 64))
Builder = Any  # llvmlite has no types
Value = Any


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of a function, which a full disk or a damaged file does not stop."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature, or None.

        Two processes that compile different signatures at once may write them to one file.
        """
        with suppress(Exception):  # a damaged pickle raises any
            # Numba refreshes the context first, which only compilation needs: 0.25 s and 50 MB.
            found = self._load_overload(sig, target_context)
            return found if found is not None and found.signature.args == tuple(sig) else None
        with suppress(OSError):
            self.flush()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function."""
        with suppress(OSError):
            super().save_overload(sig, data)


def compiled(function: Callable[..., Any], *, reorders: bool = False) -> Any:
    """Return the kernel of a function.

    If it `reorders`, sums of floats are in the order in which the processor adds fastest, and their
    last bits depend on the processor.
    """
    fast = {"reassoc", "contract"} if reorders else False
    kernel = numba.njit(nogil=True, boundscheck=False, fastmath=fast, _nrt=False)(function)
    folder = _cache_folder(function.__code__.co_filename)
    if folder is not None and not numba.config.DISABLE_JIT:
        others, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
        try:
            kernel._cache = _Cache(function)
        finally:
            numba.config.CACHE_DIR = others
    return kernel


def inlined(function: Callable[..., Any]) -> Any:
    """Return the function, which becomes part of the machine code of the kernels that call it."""
    return register_jitable(boundscheck=False, _nrt=False)(function)


@functools.cache
def _cache_folder(source: str) -> Path | None:
    """Return a folder for the kernels of a source file, or None if there is no private one."""
    digest = hashlib.sha256(repr(_processor()).encode())
    users = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    parent = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(users, "primo_scale"))
    with suppress(OSError):
        for path in (*sorted(Path(__file__).parent.glob("*.py")), Path(source)):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        folder = parent / digest.hexdigest()[:16]
        folder.mkdir(0o700, parents=True, exist_ok=True)
        found = folder.stat()  # Numba unpickles what it finds
        if found.st_uid == os.getuid() and not found.st_mode & 0o077 and os.access(folder, os.W_OK):
            return folder
    return None


def _processor() -> tuple[str, str, str]:
    """Return the platform, the processor and its features for which Numba compiles."""
    platform, name, features = cpu_target.target_context.codegen().magic_tuple()
    return platform, name, features


def host_features() -> frozenset[str]:
    """Return the processor features that Numba may use, by LLVM's names."""
    if numba.config.DISABLE_JIT:
        return frozenset()
    return frozenset(name[1:] for name in _processor()[2].split(",") if name.startswith("+"))


def emitted(result: str = "void") -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes a function of a builder callable from kernels.

    The function gets the builder, and integers for addresses and counts. It emits instructions, and
    returns a value of the type `result`, by Numba's name.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        @functools.wraps(emit)
        def typed(_context: Any, *arguments: Any) -> Any:
            def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
                value = emit(builder, *values)
                return context.get_dummy_value() if value is None else value

            return getattr(numba.types, result)(*[numba.types.intp] * len(arguments)), generate

        return intrinsic(typed) if not numba.config.DISABLE_JIT else lambda *_: None

    return decorate


def pointer(builder: Builder, address: Value, kind: Any) -> Value:
    """Return an address as an LLVM pointer."""
    return builder.inttoptr(address, kind.as_pointer())


def function(builder: Builder, name: str, arguments: list[Any], result: Any) -> Value:
    """Return LLVM's function for an instruction."""
    existing = builder.module.globals.get(name)
    return existing or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def word(value: int) -> Value:
    """Return a 64-bit constant."""
    return ir.Constant(I64, value)
