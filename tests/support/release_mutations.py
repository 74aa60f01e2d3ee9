"""Seeded mutations of the documents, tables and files of a release."""

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jinja2 import TemplateError

from primo_scale.verify.files import Signer
from support.documents import places, read_document, value_at
from support.release_edits import forge, restate

_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
ATTACKER = Signer(_KEY.public_key().public_bytes_raw().hex(), _KEY.sign)

_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 1.5, 240.0, -0.0, 1e308, -1e308, 5e-324, 1e100, 10**18, 2**62,
    10**400, "", "abc", "\x00", "\x1b[2J", "\ud800", "9" * 5_000, "../../etc/passwd", "a\nb", [],
    {}, [[]], [1e308] * 3, [None], {"x": 1}, "full", "label", "add-remove", "subsampled", "naive",
]  # fmt: skip
_CELLS = [
    "", "abc", "1.5", "-1", "0", "9" * 5_000, "1e400", "nan", "inf", "-0", "1_000", " 1", "+1", ".",
    "\x00", "é", "٣", "a\tb", "a\nb", "rs0", "(intercept)", "A" * 2_000_000, "\x1b[2J", "#", "NaN",
]  # fmt: skip
_TABLES = ("weights.tsv.gz", "centre.afreq", "pgs/height.txt.gz", "pgs/LDL.txt.gz")
CANNOT_BE_SIGNED = (
    ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError, TemplateError,
)  # fmt: skip
_TEXTS = ("report.html", "README.txt")


def mutate(directory: Path, generator: random.Random) -> str:
    change = generator.choice(_CHANGES)
    change(directory, generator)
    return change.__name__


def _change_value(document: dict[str, Any], generator: random.Random) -> None:
    path = generator.choice(list(places(document)))
    holder, last = value_at(document, path[:-1]), path[-1]
    kind, old = generator.randrange(7), holder[last]
    if kind == 0 and isinstance(holder, dict):
        del holder[last]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(generator.randrange(len(holder) + 1), old)
    elif kind == 2 and isinstance(holder, list):
        holder.pop()
    elif kind == 3 and isinstance(old, list):
        holder[last] = old * generator.choice([2, 3, 1_000])
    elif kind == 4 and isinstance(old, int | float):
        holder[last] = old * generator.choice([-1, 0.5, 2, 1e-9, 1e9, 1 + 1e-7])
    elif kind == 5 and isinstance(holder, dict):
        holder["extra"] = generator.choice(_VALUES)
    else:
        holder[last] = generator.choice(_VALUES)


def _changed(directory: Path, generator: random.Random) -> dict[str, Any]:
    document = read_document(directory)
    for _ in range(generator.choice([1, 1, 1, 2, 5])):
        _change_value(document, generator)
    return document


def _write(directory: Path, document: object) -> None:
    text = json.dumps(document, indent=2) + "\n"
    (directory / "release.json").write_text(text, encoding="utf-8", errors="replace")


def document_as_it_is(directory: Path, generator: random.Random) -> None:
    _write(directory, _changed(directory, generator))


def document_signed_again(directory: Path, generator: random.Random) -> None:
    _finish(directory, _changed(directory, generator), forge)


def document_and_texts_made_again(directory: Path, generator: random.Random) -> None:
    _finish(directory, _changed(directory, generator), restate)


def _finish(directory: Path, document: Any, finish: Callable[..., None]) -> None:
    """Sign a document if it can be signed at all; write it in any case."""
    try:
        finish(directory, document, ATTACKER)
    except CANNOT_BE_SIGNED:
        _write(directory, document)


def document_bytes(directory: Path, generator: random.Random) -> None:
    _harm(directory / "release.json", generator)


def _harm(path: Path, generator: random.Random) -> None:
    content = bytearray(path.read_bytes())
    at = generator.randrange(len(content))
    kind = generator.randrange(6)
    if kind == 0:
        content[at] ^= 1 << generator.randrange(8)
    elif kind == 1:
        del content[at:]
    elif kind == 2:
        content[at:at] = generator.randbytes(generator.choice([1, 10, 1_000]))
    elif kind == 3:
        del content[at : at + generator.choice([1, 10, 100])]
    elif kind == 4:
        content += content[at:]
    else:
        content[at:at] = generator.choice([b"[", b"{", b"9", b"\xff"]) * 5_000
    path.write_bytes(content)


def table_cell(directory: Path, generator: random.Random) -> None:
    name = generator.choice(_TABLES)
    path = directory / name
    packed = name.endswith(".gz")
    text = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode()
    rows = [line.split("\t") for line in text.split("\n")]
    row = generator.choice(rows)
    kind = generator.randrange(6)
    if kind == 0:
        rows.remove(row)
    elif kind == 1:
        rows.insert(generator.randrange(len(rows) + 1), list(row))
    elif kind == 2:
        row.pop()
    elif kind == 3:
        generator.shuffle(rows)
    else:
        row[generator.randrange(len(row))] = generator.choice(_CELLS)
    content = "\n".join("\t".join(row) for row in rows).encode()
    path.write_bytes(gzip.compress(content, 1, mtime=0) if packed else content)
    forge(directory, read_document(directory), ATTACKER)


def file_bytes(directory: Path, generator: random.Random) -> None:
    _harm(directory / generator.choice([*_TABLES, *_TEXTS]), generator)
    if generator.randrange(3):
        forge(directory, read_document(directory), ATTACKER)


def files_of_the_directory(directory: Path, generator: random.Random) -> None:
    path = directory / generator.choice([*_TABLES, *_TEXTS, "pgs"])
    kind = generator.randrange(6)
    if kind == 0:
        (directory / "more").write_bytes(b"x")
    elif kind == 1:
        Path(os.fsdecode(os.fsencode(directory) + b"/\xff\x1b")).write_bytes(b"x")
    elif kind == 2:
        os.mkfifo(directory / "pipe")
    else:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if kind == 3:
            path.mkdir()
        elif kind == 4:
            path.symlink_to("/dev/zero")


_CHANGES = (
    document_as_it_is, document_signed_again, document_signed_again,
    document_and_texts_made_again, document_and_texts_made_again, document_bytes, table_cell,
    table_cell, file_bytes, files_of_the_directory,
)  # fmt: skip
