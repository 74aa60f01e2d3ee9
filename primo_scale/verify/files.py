"""Files of a release: names, digests, the signature, and reading in bounded memory.

A recipient reads files that anybody may have crafted, and a few MB can unpack to many GB.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TextIO

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from primo_scale.verify.finding import Finding, finding_of

README_FILE = "README.txt"
WEIGHTS_FILE = "weights.tsv.gz"
COVARIATES_FILE = "covariates.tsv"
CENTRE_FILE = "centre.afreq"
STACK_FILE = "stack.tsv"
REPORT_FILE = "report.html"
DEPLOYMENT_FILE = "deployment.yaml"
VALUES_FILE = "values.npy"
COLUMNS_FILE = "columns.tsv"
PGS_DIRECTORY, PGS_SUFFIX = "pgs", ".txt.gz"
SUMSTATS_DIRECTORY, SUMSTATS_SUFFIX = "sumstats", ".tsv.gz"

# Largest size in bytes of release.json and report.html, for 400,000 LD blocks.
LARGEST_DOCUMENT = 64 << 20
# Characters of ID, alleles and position of one variant; insertions are long alleles.
_LONGEST_NAMES, _MEAN_NAMES = 1 << 20, 1 << 12
_LONGEST_NUMBER = 32  # characters, with a tab
_ROWS_BESIDE_VARIANTS = 16
_MOST_CHARACTERS = 1 << 40  # of a table, whatever release.json states

# ISA-L has the same interface, and is three times as fast.
_zlib: Any = zlib
with suppress(ImportError):
    _zlib = import_module("isal.isal_zlib")
_damaged: type[Exception] = _zlib.error
# Errors that the content of a malformed file can raise.
UNREADABLE = (
    OSError, EOFError, zlib.error, _damaged, ValueError, TypeError, IndexError, ArithmeticError,
)  # fmt: skip

_COMPRESSION = 1  # the digits of noisy weights are incompressible
_GZIP = 31  # of zlib: a gzip header without a date, and the largest window
# Beginning of a gzip header without optional fields and without a date; two bytes follow.
_HEADER = b"\x1f\x8b\x08" + bytes(5)
_PART = 1 << 16  # bytes that are read together
_OTHERWISE = "it is not one gzip member without header fields"


def canonical_json(value: Any) -> bytes:
    """Return canonical JSON, with sorted keys and without spaces; what is signed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def sha256_of(content: bytes) -> str:
    """Return the hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def file_entries(directory: Path) -> list[dict[str, Any]]:
    """Return name, SHA-256 and size of every file below a directory, as `files` lists them."""
    entries = []
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        name = path.relative_to(directory).as_posix()
        entries.append({"name": name, "sha256": digest, "bytes": path.stat().st_size})
    return entries


def check_files(directory: Path, stated: list[dict[str, Any]], document_name: str) -> Finding:
    """Check that a directory holds the stated files, unchanged, and nothing else."""
    listed = {entry["name"]: entry for entry in stated}
    folders = {parent.as_posix() for name in listed for parent in PurePosixPath(name).parents}
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*")}
    found = {
        name: path
        for name, path in found.items()
        if path.is_symlink() or not (path.is_dir() and name in folders)
    }
    problems = []
    if found.pop(document_name).is_symlink():
        problems.append(f"{document_name} is not a plain file")
    problems += [f"{name} is missing" for name in sorted(listed.keys() - found.keys())]
    problems += [f"{name} does not belong here" for name in sorted(found.keys() - listed.keys())]
    if len(listed) != len(stated):
        problems.append("a file is listed twice")
    for name in sorted(listed.keys() & found.keys()):
        path, entry = found[name], listed[name]
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name} is not a plain file")
        elif path.stat().st_size != entry["bytes"]:
            problems.append(f"{name} has another size than stated")
        else:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
                    problems.append(f"{name} was changed: its SHA-256 is not the stated one")
    detail = f"{len(listed)} files with the stated SHA-256, and nothing else"
    return finding_of("files", problems, detail)


# ---- The signature -------------------------------------------------------------------------------
# Ed25519 (RFC 8032) over canonical JSON of everything else in a document. The document contains the
# SHA-256 of every other file, so the signature covers the whole release. It proves that the owner
# of a ledger made the statement; the other modules check whether it is right.


@dataclass(frozen=True)
class Signer:
    """Ed25519 key that signs a release."""

    public_key: str  # 64 hexadecimal digits
    sign: Callable[[bytes], bytes]  # from bytes to their signature by the private key


def signed_content(document: Mapping[str, Any]) -> bytes:
    """Return the signed bytes; ValueError if a number is not finite."""
    return canonical_json({name: value for name, value in document.items() if name != "signature"})


def signature_of(document: Mapping[str, Any], signer: Signer) -> dict[str, str]:
    """Return the member ``signature`` of a document that is complete except for it."""
    value = signer.sign(signed_content(document)).hex()
    return {"algorithm": "Ed25519", "public_key": signer.public_key, "value": value}


def signature_problem(document: Mapping[str, Any], expected_public_key: str | None) -> str | None:
    """Return what is wrong with the signature of a document, as a clause; None if it is valid.

    Without an expected key, in hexadecimal, any key is accepted. That only proves that the document
    is unchanged since the owner of the stated key signed it.
    """
    key, value = document["signature"]["public_key"], document["signature"]["value"]
    if expected_public_key is not None and key != expected_public_key.strip().lower():
        return f"it is signed with another key, {key}"
    try:
        signer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        signer.verify(bytes.fromhex(value), signed_content(document))
    except InvalidSignature:
        return "it was changed after it was signed"
    return None


# ---- Reading of unchecked files ------------------------------------------------------------------


def bounded_bytes(path: Path, n_numbers: int = 0) -> bytes:
    """Return the content of a document with some numbers; ValueError if it is too large."""
    most = LARGEST_DOCUMENT + _LONGEST_NUMBER * n_numbers
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise ValueError(f"is larger than {most} bytes")
        return file.read()


def bounded_lines(file: TextIO, document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table; ValueError if it is longer than release.json allows."""
    public, n_variants = document["public_inputs"], document["cohort"]["n_variants"]
    numbers = _LONGEST_NUMBER * (1 + len(public["phenotypes"]))
    rows = n_variants + len(public["covariates"]) + _ROWS_BESIDE_VARIANTS
    longest = _LONGEST_NAMES + numbers
    most = min(_LONGEST_NAMES + rows * (_MEAN_NAMES + numbers), _MOST_CHARACTERS)
    number = total = 0
    while line := file.readline(longest + 1):
        number, total = number + 1, total + len(line)
        if len(line) > longest:
            raise ValueError(f"line {number} is longer than {longest} characters")
        if total > most:
            raise ValueError(f"it unpacks to more than {most} characters")
        yield line


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
