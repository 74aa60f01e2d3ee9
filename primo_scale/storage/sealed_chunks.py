"""The Zarr codec that encrypts chunks: ``primo_scale.aes256gcm``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from zarr.abc.codec import BytesBytesCodec
from zarr.registry import register_codec

from primo_scale.storage.encryption import NONCE_BYTES, TAG_BYTES, Sealing

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer
    from zarr.core.common import JSON

NAME = "primo_scale.aes256gcm"


@dataclass(frozen=True)
class SealedChunks(BytesBytesCodec):
    """AES-256-GCM of each chunk, bound to its store and its array (`encryption`).

    Its tag takes the place of the checksum: a chunk that was changed is an error to read.

    Attributes
    ----------
    sealing
        Key and store.
    array
        Name of the array in the store.
    """

    sealing: Sealing
    array: str
    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Read it from the metadata of an array."""
        stored = cast("dict[str, str]", data["configuration"])
        return cls(Sealing(stored["key"], stored["store"]), stored["array"])

    def to_dict(self) -> dict[str, JSON]:
        """Its metadata."""
        configuration: dict[str, JSON] = {**asdict(self.sealing), "array": self.array}
        return {"name": NAME, "configuration": configuration}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Bytes of a sealed chunk."""
        return input_byte_length + NONCE_BYTES + TAG_BYTES

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        sealed = self.sealing.seal(_bytes_of(chunk_data), self.array)
        return _buffer(sealed, chunk_spec)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return _buffer(self.sealing.open(_bytes_of(chunk_data), self.array), chunk_spec)


def _bytes_of(data: Buffer) -> memoryview:
    whole: Any = np.ascontiguousarray(data.as_numpy_array())
    return memoryview(whole).cast("B")


def _buffer(content: bytes, chunk_spec: ArraySpec) -> Buffer:
    return chunk_spec.prototype.buffer.from_bytes(content)


register_codec(NAME, SealedChunks)
