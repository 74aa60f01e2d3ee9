"""The custodian's signature on release.json: who released it, and that nothing was changed since.

The signature is Ed25519 (RFC 8032) over the document without its ``signature`` member, as JSON
with sorted keys and without spaces. The document holds the SHA-256 of every other file, so the
signature covers the whole release. It says that the holder of a ledger made the statement; that
the statement adds up is for `primo_scale.publication.verify` to check. Whose key it is can only be
known from elsewhere: the custodian tells the public key, which ``pipelines.ledger show`` prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from primo_scale.storage.files import canonical_json

ALGORITHM = "Ed25519"
MEMBER = "signature"
_PUBLIC_KEY = re.compile(r"[0-9a-f]{64}")
_VALUE = re.compile(r"[0-9a-f]{128}")


def signed_content(document: Mapping[str, Any]) -> bytes:
    """The bytes that are signed: the document without its signature, canonically.

    Raises
    ------
    ValueError
        It holds a number that is not finite, which JSON has not.
    """
    return canonical_json({name: value for name, value in document.items() if name != MEMBER})


def signature_of(
    document: Mapping[str, Any], *, public_key: str, sign: Callable[[bytes], bytes]
) -> dict[str, str]:
    """The document's ``signature`` member.

    Parameters
    ----------
    document
        Complete, but for its signature.
    public_key
        64 hexadecimal digits.
    sign
        Signs bytes with the private key to it.
    """
    value = sign(signed_content(document)).hex()
    return {"algorithm": ALGORITHM, "public_key": public_key, "value": value}


def signature_problem(document: Mapping[str, Any], expected_public_key: str | None) -> str | None:
    """Check the signature of a release.json.

    Parameters
    ----------
    document
        As read from the file.
    expected_public_key
        The custodian's, in hexadecimal, learned elsewhere. None accepts any key: the document is
        then only known to be unchanged since the holder of the key that it names signed it.

    Returns
    -------
    str or None
        What is wrong, as a clause; None if nothing is.
    """
    if MEMBER not in document:
        return "it is not signed"
    signature = document[MEMBER]
    if not isinstance(signature, Mapping) or set(signature) != {"algorithm", "public_key", "value"}:
        return "its signature does not have the members algorithm, public_key and value"
    if signature["algorithm"] != ALGORITHM:
        return f"it is signed with {signature['algorithm']!r}, not {ALGORITHM}"
    key, value = signature["public_key"], signature["value"]
    if not (isinstance(key, str) and _PUBLIC_KEY.fullmatch(key)):
        return "its public key is not 64 hexadecimal digits"
    if not (isinstance(value, str) and _VALUE.fullmatch(value)):
        return "its signature is not 128 hexadecimal digits"
    if expected_public_key is not None and key != expected_public_key.strip().lower():
        return f"it is signed with another key, {key}"
    return _mismatch(document, bytes.fromhex(key), bytes.fromhex(value))


def _mismatch(document: Mapping[str, Any], public_key: bytes, value: bytes) -> str | None:
    try:
        content = signed_content(document)
    except ValueError:
        return "it holds a number that is not finite, which nobody can have signed"
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(value, content)
    except InvalidSignature:
        return "it was changed after it was signed"
    return None
