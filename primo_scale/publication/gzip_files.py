"""Gzip files of a release, by ISA-L, which reads and writes them three times as fast as zlib.

A verifier may lack ISA-L, and then reads with zlib.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, TextIO

_zlib: ModuleType
try:  # both modules have the same interface
    _zlib = import_module("isal.isal_zlib")
except ImportError:
    _zlib = zlib

_damaged: type[Exception] = _zlib.error
GZIP_ERRORS = (OSError, EOFError, zlib.error, _damaged)
"""Errors that the content of a malformed gzip file can raise."""

_COMPRESSION = 1  # the digits of noisy weights are incompressible
_GZIP = 31  # of zlib: a gzip header without a date, and the largest window
# Beginning of a gzip header without optional fields and without a date; two bytes follow.
_HEADER = b"\x1f\x8b\x08" + bytes(5)
_PART = 1 << 16  # bytes that are read together
_OTHERWISE = "it is not one gzip member without header fields"


class _OneMember(io.RawIOBase):
    """Content of a gzip file as `write_gzip` writes it; any other file raises a ValueError.

    The file is one gzip member, in whose header nothing is optional. Of several members, programs
    read the first one or all of them, and a header can carry any text.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._unpacker = _zlib.decompressobj(wbits=_GZIP)
        self._started = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Unpack no more than fits, in bounded memory; at the end, check that the file ends."""
        while not self._unpacker.eof:
            packed = self._unpacker.unconsumed_tail or self._file.read(_PART)
            if not (self._started or packed.startswith(_HEADER)):
                raise ValueError(_OTHERWISE)
            self._started = True
            part = self._unpacker.decompress(packed, len(buffer))
            if part:
                buffer[: len(part)] = part
                return len(part)
            if not packed:
                raise EOFError("it ends within its gzip member")
        if self._unpacker.unused_data or self._file.read(1):
            raise ValueError(_OTHERWISE)
        return 0


def open_gzip(path: Path) -> BinaryIO:
    """Open a gzip file of a release to read its content, which is checked as `_OneMember` does."""
    return io.BufferedReader(_OneMember(path), _PART)


def open_gzip_text(path: Path) -> TextIO:
    """Open a file as `open_gzip` does, as text in UTF-8, with its line ends."""
    return io.TextIOWrapper(open_gzip(path), encoding="utf-8", newline="\n")


def write_gzip(path: Path, parts: Iterable[bytes]) -> None:
    """Write the parts of a content as a reproducible gzip file."""
    compressor = _zlib.compressobj(_COMPRESSION, wbits=_GZIP)
    with path.open("wb") as file:
        for part in parts:
            file.write(compressor.compress(part))
        file.write(compressor.flush())
