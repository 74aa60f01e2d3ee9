"""Key pair with which a ledger signs its releases: Ed25519 (RFC 8032)."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def new_signing_key() -> bytes:
    """Return a new private key of 32 bytes from the operating system's entropy. PRIVATE."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key_of(signing_key: bytes) -> str:
    """Return the public key as 64 hexadecimal digits.

    Raises
    ------
    ValueError
        `signing_key` is not 32 bytes long.
    """
    return Ed25519PrivateKey.from_private_bytes(signing_key).public_key().public_bytes_raw().hex()


def sign(signing_key: bytes, data: bytes) -> bytes:
    """Return the signature of `data`, 64 bytes, which is deterministic."""
    return Ed25519PrivateKey.from_private_bytes(signing_key).sign(data)
