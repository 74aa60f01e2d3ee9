"""Signature of release.json, reading of a document that may be forged, and checks of its files.

The signature is Ed25519 (RFC 8032) over the document without its ``signature`` member, as JSON
with sorted keys and without spaces. The document contains the SHA-256 of every other file, so the
signature covers the whole release. It proves that the owner of a ledger made the statement;
`primo_scale.publication.verify` checks whether the statement is right. The recipient must learn the
public key from the custodian, for whom ``primo-scale ledger show`` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from primo_scale.publication.bounded_text import bounded_bytes
from primo_scale.publication.document import (
    PARTY,
    RELEASE,
    Document,
    DocumentKind,
    schema_problems,
    serialise,
)
from primo_scale.publication.finding import Finding, finding_of, some_of
from primo_scale.publication.wording import (
    NOT_PRIVATE,
    accountant_in_words,
    public_by_assumption,
    stamp_of,
)
from primo_scale.storage.files import canonical_json, sha256_of_file

_MOST_CONTAINERS = 1 << 20
_UNCOMPUTABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
ALGORITHM = "Ed25519"
MEMBER = "signature"


def verdict(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Return the findings of a check, or a problem if a crafted number makes it fail."""
    try:
        return check()
    except _UNCOMPUTABLE as error:
        return [finding_of(name, [f"cannot be checked: {error!r}"], "")]


def kind_of(directory: Path) -> DocumentKind:
    """Return the kind of release that a directory holds; without a party.json, a whole release."""
    return PARTY if (directory / PARTY.name).is_file() else RELEASE


def read_document(directory: Path, kind: DocumentKind = RELEASE) -> tuple[Document | None, Finding]:
    """Return the contents of a signed document, or None if invalid, and the result of the check."""
    try:
        content = bounded_bytes(directory / kind.name)
    except ValueError as error:
        return None, Finding(False, kind.name, f"is {error}")
    problem = _content_problem(content, kind)
    if problem:
        return None, finding_of(kind.name, [problem], "")
    return json.loads(content), Finding(True, kind.name, "follows its schema")


@lru_cache(maxsize=1)  # a command reads the same document several times
def _content_problem(content: bytes, kind: DocumentKind) -> str:
    """Return what is wrong with the content of a signed document, or an empty text."""
    if content.count(b"{") + content.count(b"[") > _MOST_CONTAINERS:
        return f"holds more than {_MOST_CONTAINERS} objects and lists"
    try:
        return _form_problem(json.loads(content, parse_constant=_refuse_constant), content, kind)
    except ValueError as error:
        return f"is not JSON: {error}"
    except RecursionError:
        return "is nested too deeply to be read"


def _form_problem(document: Any, content: bytes, kind: DocumentKind) -> str:
    """Return the violations of the schema or the canonical form, or an empty text."""
    problems = schema_problems(document, kind)
    if problems:
        return f"violates its schema: {some_of(problems)}"
    try:
        as_written = serialise(document)
    except ValueError as error:  # 1e999 is valid JSON and is parsed as infinity
        return f"holds a number that is not finite: {error}"
    return "" if as_written == content else "is not in the canonical form"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def directory_findings(
    directory: Path,
    kind: DocumentKind,
    public_key: str | None,
    check_contents: Callable[[Path, Document, bool], list[Finding]],
) -> tuple[Document | None, list[Finding]]:
    """Return the signed document, None if invalid, and the checks of it and of the other files.

    `check_contents` compares these with the document if their digests are in it; its last argument
    is whether the signature is by the key that the caller expects.
    """
    document, schema = read_document(directory, kind)
    if document is None:
        return None, [schema]
    files = check_files(directory, document, kind)
    signature = verdict("signature", lambda: [check_signature(document, public_key)])
    findings = [schema, files, *signature]
    if files.ok:
        trusted = public_key is not None and all(finding.ok for finding in signature)
        findings += verdict("contents", lambda: check_contents(directory, document, trusted))
    return document, findings


def check_files(directory: Path, document: Document, kind: DocumentKind = RELEASE) -> Finding:
    """Check that a directory holds the listed files, unchanged, and nothing else."""
    listed = {entry["name"]: entry for entry in document["files"]}
    folders = {parent.as_posix() for name in listed for parent in PurePosixPath(name).parents}
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*")}
    found = {
        name: path
        for name, path in found.items()
        if path.is_symlink() or not (path.is_dir() and name in folders)
    }
    problems = []
    if found.pop(kind.name).is_symlink():
        problems.append(f"{kind.name} is not a plain file")
    problems += [f"{name} is missing" for name in sorted(listed.keys() - found.keys())]
    problems += [f"{name} does not belong here" for name in sorted(found.keys() - listed.keys())]
    if len(listed) != len(document["files"]):
        problems.append("a file is listed twice")
    for name in sorted(listed.keys() & found.keys()):
        path = found[name]
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name} is not a plain file")
        elif path.stat().st_size != listed[name]["bytes"]:
            problems.append(f"{name} has another size than stated")
        elif sha256_of_file(path) != listed[name]["sha256"]:
            problems.append(f"{name} was changed: its SHA-256 is not the stated one")
    return finding_of(
        "files", problems, f"{len(listed)} files with the stated SHA-256, and nothing else"
    )


def check_words(document: Document, unit: str | None, **fixed: str) -> Finding:
    """Check that the sentences of a document agree with its numbers and names.

    `unit` is the protected unit in words. `fixed` are members of the guarantee that can have only
    one value.
    """
    expected, promise = stamp_of(document), document["guarantee"]
    pairs: dict[str, tuple[Any, Any]] = {"stamp": (document["stamp"], expected)}
    if promise is not None:
        public = public_by_assumption(promise["privacy"], promise["adjacency"])
        accountant = accountant_in_words(subsampled=promise["cost"]["delta"] > 0)
        pairs |= {name: (promise[name], value) for name, value in fixed.items()} | {
            "unit": (promise["unit"], unit),
            "list of public values": (document["public_by_assumption"], list(public)),
            "accountant": (promise["accountant"]["method"], accountant),
        }
    problems = [
        f"the stated {name} is {found!r}, not {right!r}"
        for name, (found, right) in pairs.items()
        if found != right
    ]
    return finding_of("stamp", problems, expected)


def check_signature(document: Document, public_key: str | None) -> Finding:
    """Check that the custodian signed a document."""
    if not document["private"]:
        problems = [] if public_key is None else [f"a {NOT_PRIVATE} release has no signature"]
        return finding_of("signature", problems, f"none: {NOT_PRIVATE}")
    problem = signature_problem(document, public_key)
    key = document["signature"]["public_key"]
    expected = "as expected" if public_key else "compare it with the custodian's key"
    return finding_of("signature", [problem] if problem else [], f"by {key}, {expected}")


@dataclass(frozen=True)
class Signer:
    """Ed25519 key that signs a release."""

    public_key: str  # 64 hexadecimal digits
    sign: Callable[[bytes], bytes]  # from bytes to their signature by the private key


def signed_content(document: Mapping[str, Any]) -> bytes:
    """Return the signed bytes, canonical JSON; ValueError if a number is not finite."""
    return canonical_json({name: value for name, value in document.items() if name != MEMBER})


def signature_of(document: Mapping[str, Any], signer: Signer) -> dict[str, str]:
    """Return the member ``signature`` of a document that is complete except for it."""
    value = signer.sign(signed_content(document)).hex()
    return {"algorithm": ALGORITHM, "public_key": signer.public_key, "value": value}


def signature_problem(document: Mapping[str, Any], expected_public_key: str | None) -> str | None:
    """Return what is wrong with the signature of a document, as a clause; None if it is valid.

    The document is valid under its schema, which the member ``signature`` follows too. Without an
    expected key, in hexadecimal, any key is accepted. That only proves that the document is
    unchanged since the owner of the stated key signed it.
    """
    key, value = document[MEMBER]["public_key"], document[MEMBER]["value"]
    if expected_public_key is not None and key != expected_public_key.strip().lower():
        return f"it is signed with another key, {key}"
    signer, content = (
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)),
        signed_content(document),
    )
    try:
        signer.verify(bytes.fromhex(value), content)
    except InvalidSignature:
        return "it was changed after it was signed"
    return None
