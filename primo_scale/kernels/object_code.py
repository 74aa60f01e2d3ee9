"""Object code that Numba made of a function, kept on the disk and loaded without Numba.

Importing Numba and loading one function from its own disk cache takes 0.8 s of processor time, a
third of a small job. llvmlite loads the same machine code in 3 ms.

A function that Numba compiled is called as ``status f(result *, exception **, arguments)``, with
status 0 unless it raised an exception (`numba.core.callconv.CPUCallConv`). Object code may use
nothing that comes with Numba, such as its memory allocator.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llvmlite import binding

RESULTS: dict[str, Any] = {"none": ctypes.c_void_p, "bool": ctypes.c_bool, "int64": ctypes.c_int64}
"""Kinds of results that an object may return, by Numba's names of their types."""

NUMBA_SETTINGS = Path(".numba_config.yaml")
"""File in the working directory with settings of Numba."""

_RETURNED = 0
# Settings that do not change the generated code.
_WITHOUT_EFFECT = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
_DIGEST_BYTES = 32
_READABLE_BY_ALL = 0o644


@dataclass(frozen=True)
class ObjectCode:
    """Machine code of one function for one combination of argument types."""

    symbol: str
    result: str  # a key of RESULTS
    code: bytes
    portable: bool = True  # whether another process may load it

    def function(self, slots: Sequence[Any]) -> Callable[[list[Any]], Any]:
        """Load the code into this process, and return the function.

        `slots` are the C types of the words that it takes in a list. It releases the interpreter
        lock while it runs. Only one thread at a time may load code.
        """
        engine = _engine()
        engine.add_object_file(binding.ObjectFileRef.from_data(self.code))
        engine.finalize_object()
        address = engine.get_function_address(self.symbol)
        pointers = [ctypes.c_void_p] * 2
        call = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, *slots)(address)
        kind = RESULTS[self.result]

        def run(words: list[Any]) -> Any:
            result, exception = kind(), ctypes.c_void_p()
            if call(ctypes.byref(result), ctypes.byref(exception), *words) != _RETURNED:
                raise ArithmeticError(f"{self.symbol} raised an exception")
            return result.value

        return run


@functools.cache
def _engine() -> Any:
    """Return the engine that owns all loaded code, for the rest of the process."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


class DiskCache:
    """Object code of the functions of one source file.

    A file of the cache is for one function, combination of argument types and processor. It is
    replaced when Numba or any source beside the function or beside this module changes.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        # At once, because the files may change while this process runs what it imported.
        self._stamp = _sources(source.parent) + _sources(Path(__file__).parent)

    def read(self, name: str) -> ObjectCode | None:
        """Return the code of a function, unless it is absent, outdated or damaged."""
        for folder in _folders(self._source):
            with suppress(OSError):
                content = (folder / self._file(name)).read_bytes()
                digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
                if digest == self._digest(name, rest):
                    symbol, result, code = rest.split(b"\n", 2)
                    return ObjectCode(symbol.decode(), result.decode(), code)
        return None

    def write(self, name: str, made: ObjectCode) -> None:
        """Keep the code of a function, in the first folder that can be written."""
        if not made.portable:
            return
        rest = b"\n".join([made.symbol.encode(), made.result.encode(), made.code])
        for folder in _folders(self._source):
            temporary = folder / f"{secrets.token_hex(8)}.tmp"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                temporary.write_bytes(self._digest(name, rest) + rest)
                temporary.chmod(_READABLE_BY_ALL)
                temporary.replace(folder / self._file(name))
                return
            except OSError:
                with suppress(OSError):
                    temporary.unlink()

    def _file(self, name: str) -> str:
        made_for = f"{self._source} {name} {_processor()} {_versions()}"
        key = hashlib.blake2b(made_for.encode(), digest_size=8)
        return f"{name.partition('(')[0]}-{key.hexdigest()}.kernel"

    def _digest(self, name: str, rest: bytes) -> bytes:
        hashed = hashlib.blake2b(name.encode(), digest_size=_DIGEST_BYTES)
        hashed.update(self._stamp + rest)
        return hashed.digest()


def _folders(source: Path) -> list[Path]:
    """Return the folders of object code: Numba's, or that of bytecode and the user's cache."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return [Path(named)]
    users = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return [source.parent / "__pycache__", Path(users) / "primo_scale"]


def processor_features() -> dict[str, bool]:
    """Return whether this processor has each feature of LLVM; none if LLVM cannot query it."""
    try:
        return dict(binding.get_host_cpu_features())
    except RuntimeError:
        return {}


@functools.cache
def _processor() -> str:
    """Return this processor, and the settings by which Numba compiles for it."""
    settings = sorted(
        item
        for item in os.environ.items()
        if item[0].startswith("NUMBA_") and item[0] not in _WITHOUT_EFFECT
    )
    settings += [("", NUMBA_SETTINGS.read_text())] if NUMBA_SETTINGS.exists() else []
    return f"{binding.get_host_cpu_name()} {sorted(processor_features().items())} {settings}"


@functools.cache
def _versions() -> list[str]:
    return [importlib.metadata.version(name) for name in ("numba", "llvmlite", "numpy")]


@functools.cache
def _sources(folder: Path) -> bytes:
    """Return a digest of the modules in a folder."""
    hashed = hashlib.blake2b()
    for path in sorted(folder.glob("*.py")):
        hashed.update(path.read_bytes())
    return hashed.digest()
