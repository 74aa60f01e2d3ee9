"""Row-wise writing of neighbouring chunks to disk, with their checksums.

Zarr writes a chunk only when it has all its rows. Each row of a .bed file holds a small part of
many chunks. Appending rows to the chunk files lets every byte be read, examined and written while
it is in the processor's cache. The finished files are identical to those that Zarr writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import google_crc32c
import numpy as np
import numpy.typing as npt
from zarr.codecs import BytesCodec, Crc32cCodec

from primo_scale.storage.chunks import chunk_path
from primo_scale.storage.encoding_stores import CHECKSUM_BYTES
from primo_scale.storage.files import write_all
from primo_scale.storage.groups import Array

Bytes = npt.NDArray[np.uint8]


class ChunkAppender:
    """Writer of neighbouring chunks in one row of the chunk grid, see `open_chunk_appender`.

    Until `finish` returns, incomplete files exist under the final names, so that the caller needs
    another record of which chunks are complete.
    """

    def __init__(self, array: Array, descriptors: Sequence[int], most_rows: int) -> None:
        self._height, self._width = array.chunks
        self._fill = np.uint8(array.fill_value)
        self._descriptors = descriptors
        self._checksums = [0] * len(descriptors)
        self._rows = 0
        self._piece = np.empty((min(most_rows, self._height), self._width), dtype=np.uint8)

    def append(self, values: Bytes) -> None:
        """Write the next rows of all chunks: uint8, shape (at most `most_rows`, bytes).

        The rows of all chunks lie side by side. The array's edge may make the last chunk narrower.
        """
        piece = self._piece[: len(values)]
        for column in range(len(self._descriptors)):
            part = values[:, column * self._width : (column + 1) * self._width]
            piece[:, : part.shape[1]] = part
            piece[:, part.shape[1] :] = self._fill
            self._write(column, piece)
        self._rows += len(values)

    def finish(self) -> npt.NDArray[np.uint32]:
        """Pad the chunks, append their CRC-32C, flush the files, and return the checksums."""
        for column, descriptor in enumerate(self._descriptors):
            missing = self._height - self._rows
            if missing:
                self._write(column, np.full((missing, self._width), self._fill))
            write_all(descriptor, self._checksums[column].to_bytes(CHECKSUM_BYTES, "little"))
        for descriptor in self._descriptors:
            os.fsync(descriptor)
        return np.array(self._checksums, dtype=np.uint32)

    def _write(self, column: int, rows: Bytes) -> None:
        content = rows.reshape(-1)
        self._checksums[column] = google_crc32c.extend(self._checksums[column], content)
        write_all(self._descriptors[column], content.data)


@contextmanager
def open_chunk_appender(
    array: Array, row: int, columns: range, *, most_rows: int
) -> Iterator[ChunkAppender]:
    """Open empty files for the chunks at `row` and `columns` of the chunk grid.

    The array holds uint8 in two dimensions, neither compressed nor encrypted, in a directory. The
    memory is that of `most_rows` rows of one chunk, the largest number for one `append`.
    """
    codecs = (*array.filters, array.serializer, *array.compressors)
    plain = [BytesCodec, Crc32cCodec]
    if array.dtype != np.uint8 or [type(codec) for codec in codecs] != plain:
        raise ValueError(f"{array.store_path} is not an uncompressed array of bytes")
    paths = [chunk_path(array, (row, column)) for column in columns]
    with ExitStack() as opened:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        files = [opened.enter_context(path.open("wb", buffering=0)) for path in paths]
        yield ChunkAppender(array, [file.fileno() for file in files], most_rows)
