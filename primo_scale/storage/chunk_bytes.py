"""The bytes of a checksummed chunk as they are stored: its values, then their CRC-32C."""

from __future__ import annotations

import google_crc32c
import numpy as np
import numpy.typing as npt

CHECKSUM_BYTES = 4


def crc32c_of_chunk(content: bytes) -> int | None:
    """CRC-32C of the values of a chunk, or None if that is not what it ends with."""
    computed = int(google_crc32c.value(values_of_chunk(content)))
    stored = content[-CHECKSUM_BYTES:]
    return computed if stored == computed.to_bytes(CHECKSUM_BYTES, "little") else None


def values_of_chunk(content: bytes) -> npt.NDArray[np.uint8]:
    """All but the checksum, not copied."""
    return np.frombuffer(content, np.uint8)[:-CHECKSUM_BYTES]
