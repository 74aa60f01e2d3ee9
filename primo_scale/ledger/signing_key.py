"""The key that a ledger signs its releases with: Ed25519 (RFC 8032)."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def new_signing_key() -> bytes:
    """A private key from the operating system's entropy, 32 bytes. PRIVATE."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key_of(signing_key: bytes) -> str:
    """The public key, 64 hexadecimal digits.

    Raises
    ------
    ValueError
        `signing_key` is not 32 bytes long.
    """
    return Ed25519PrivateKey.from_private_bytes(signing_key).public_key().public_bytes_raw().hex()


def sign(signing_key: bytes, data: bytes) -> bytes:
    """Sign `data`: 64 bytes, the same for the same data."""
    return Ed25519PrivateKey.from_private_bytes(signing_key).sign(data)
