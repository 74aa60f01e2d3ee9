"""Lines of the tables that users write: blanks, tabs or commas between cells, plain or gzipped.

The first line that is no ``##`` comment decides: where its first word holds a comma, the table is
CSV. Then blanks and double quotes around a cell are taken off and an empty cell is missing; a
comma or a line end inside quotes is not understood, and shows as a row of another length. A UTF-8
byte-order mark is skipped.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from primo_scale.errors import InputError

_COMMENT = b"##"


def table_lines(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (line number from 1, cells) of every line that is not blank.

    Raises
    ------
    InputError
        No such file, a directory, no permission, or a file that cannot be decompressed.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    comma_separated: bool | None = None
    try:
        with opener(path, "rb") as file:
            for line, content in enumerate(file, start=1):
                if line == 1:
                    content = content.removeprefix(codecs.BOM_UTF8)
                # bytes.split() splits at ASCII blanks alone, and takes CR LF along.
                cells = content.split()
                if cells and comma_separated is None and not cells[0].startswith(_COMMENT):
                    comma_separated = b"," in cells[0]
                if cells and comma_separated:
                    cells = [cell.strip().strip(b'"') for cell in content.split(b",")]
                if any(cells):
                    yield line, cells
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, remedy="Check the path") from error
    except IsADirectoryError as error:
        raise InputError("is a directory, not a table", where=path) from error
    except PermissionError as error:
        raise InputError("cannot be read: permission denied", where=path) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"cannot be decompressed: {error}", where=path) from error


def utf8_text(cell: bytes, where: str) -> str:
    """Decode a cell.

    Raises
    ------
    InputError
        It is not UTF-8; `where` is ``path:line``.
    """
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "not UTF-8 text", where=where, remedy="Convert the file to UTF-8"
        ) from error
