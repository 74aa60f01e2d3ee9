"""A store under a key: every object in it is encrypted, as what it is called (`encryption`)."""

from __future__ import annotations

from collections.abc import Sequence

from primo_scale.errors import InputError
from primo_scale.storage.encryption import Sealing
from primo_scale.storage.location_store import HEADER, LocationStore, damaged_chunk, is_chunk
from primo_scale.storage.view_store import ViewStore


class SealedStore(ViewStore):
    """Zarr store that encrypts every object with AES-256-GCM.

    An object opens only under its own key in its own store, so that none can stand in for another.
    The key of the store's own metadata, `HEADER`, stays in the clear.

    Parameters
    ----------
    store
        Store that holds the sealed objects.
    sealing
        Key and name of the store.
    """

    def __init__(self, store: LocationStore, sealing: Sealing) -> None:
        super().__init__(store)
        self.sealing = sealing

    def _with_store(self, store: LocationStore) -> SealedStore:
        return SealedStore(store, self.sealing)

    def _stored(self, key: str, parts: Sequence[memoryview]) -> list[memoryview]:
        if key == HEADER:
            return list(parts)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        return [memoryview(self.sealing.seal(content, key))]

    def _given(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        if key == HEADER:
            return stored
        try:
            return self.sealing.open(stored, key)
        except ValueError as error:
            if is_chunk(key):
                raise damaged_chunk(self.location / key) from error
            raise InputError(
                "the store is damaged",
                where=str(self.location / key),
                remedy="Remove the store and run the same command again",
            ) from error
