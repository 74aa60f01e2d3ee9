"""The custodian's signature on release.json: its origin, and that it is unchanged.

The signature is Ed25519 (RFC 8032) over the document without its ``signature`` member, as JSON
with sorted keys and without spaces. The document contains the SHA-256 of every other file, so the
signature covers the whole release. It proves that the owner of a ledger made the statement;
`primo_scale.publication.verify` checks whether the statement is right. The recipient must learn the
public key from the custodian, for whom ``primo-scale ledger show`` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from primo_scale.storage.files import canonical_json

ALGORITHM = "Ed25519"
MEMBER = "signature"


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
