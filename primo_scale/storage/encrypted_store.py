"""Zarr store that encrypts every object with AES-256-GCM."""

from __future__ import annotations

from collections.abc import Sequence

from primo_scale.storage.base_store import (
    HEADER,
    BaseStore,
    damaged_chunk,
    damaged_store,
    is_chunk,
)
from primo_scale.storage.encoding_store import EncodingStore
from primo_scale.storage.encryption import StoreEncryption


class EncryptedStore(EncodingStore):
    """Zarr store that encrypts every object with AES-256-GCM.

    The object's key and its store are authenticated, so that one object cannot replace another.
    The store's own metadata document, `HEADER`, is not encrypted.

    Parameters
    ----------
    store
        Inner store, which holds the encrypted objects.
    encryption
        Identifier of the user's key, and name of the store.
    """

    def __init__(self, store: BaseStore, encryption: StoreEncryption) -> None:
        super().__init__(store)
        self.encryption = encryption

    def _with_store(self, store: BaseStore) -> EncryptedStore:
        return EncryptedStore(store, self.encryption)

    def _encode(self, key: str, parts: Sequence[memoryview]) -> list[memoryview]:
        if key == HEADER:
            return list(parts)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        return [memoryview(self.encryption.encrypt(content, key))]

    def _decode(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        if key == HEADER:
            return stored
        try:
            return self.encryption.decrypt(stored, key)
        except ValueError as error:
            if is_chunk(key):
                raise damaged_chunk(self.location / key) from error
            raise damaged_store(self.location / key) from error
