"""Lines of text tables of users, plain or gzipped, with cells separated by blanks, tabs or commas.

A table is CSV if the first word of its first line, ``##`` comments aside, contains a comma. Blanks
and double quotes around CSV cells are removed, and an empty cell is missing. A comma or a line end
inside quotes is not supported and gives a row of another length. A UTF-8 byte-order mark is
skipped.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from primo_scale.errors import CHECK_PERMISSIONS, InputError

_COMMENT = b"##"
_BUFFER_BYTES = 1 << 18  # many lines, even of thousands of cells


def table_lines(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (line number, cells) of every line that is not blank; the first line has number 1."""
    for line, content, comma_separated in numbered_lines(path):
        cells = cells_of(content, comma_separated=comma_separated)
        if cells:
            yield line, cells


def cells_of(content: bytes, *, comma_separated: bool) -> list[bytes]:
    """Return the cells of a line; none if it is blank."""
    if comma_separated:
        cells = [cell.strip().strip(b'"') for cell in content.split(b",")]
        return cells if any(cells) else []
    return content.split()  # only at ASCII whitespace, which includes CR


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield line number, content, and whether commas separate the cells, of every line."""
    comma_separated: bool | None = None
    with open_lines(path) as lines:
        for line, content in lines:
            if line == 1:
                content = content.removeprefix(codecs.BOM_UTF8)
            if comma_separated is None:
                word = content.split(None, 1)[:1]
                if word and not word[0].startswith(_COMMENT):
                    comma_separated = b"," in word[0]
            yield line, content, bool(comma_separated)


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[tuple[int, bytes]]]:
    """Open a text file, decompressed if its name ends in .gz or .zst, as numbered lines from 1.

    The content of a .zst file is held in memory. A file that is missing, a directory, or cannot be
    read or decompressed is refused.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb", _BUFFER_BYTES) as file:
            content = io.BytesIO(_decompressed(file.read())) if path.suffix == ".zst" else file
            yield enumerate(content, start=1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError("no such file", where=path, remedy="Check the path") from error
    except IsADirectoryError as error:
        raise InputError("is a directory, not a table", where=path) from error
    except PermissionError as error:
        raise InputError(
            "cannot be read: permission denied", where=path, remedy=CHECK_PERMISSIONS
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"cannot be decompressed: {error}", where=path) from error


def _decompressed(content: bytes) -> bytes:
    from numcodecs import Zstd  # only few tables are compressed

    try:
        return bytes(Zstd().decode(content))
    except RuntimeError as error:
        raise zlib.error(str(error)) from error


def utf8_text(content: bytes, path: Path, line: int) -> str:
    """Decode cells of a line, or refuse them."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "not UTF-8 text", where=f"{path}:{line}", remedy="Convert the file to UTF-8"
        ) from error
