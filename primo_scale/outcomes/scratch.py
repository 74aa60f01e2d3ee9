"""Rows that arrive in the order of one file and are read back in the order of another."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from primo_scale.storage.files import disk_errors_explained

_Int16 = npt.NDArray[np.int16]


class ScratchRows:
    """An int16 table (n, k) on disk, zero until written, gone with the process.

    The file has no name, so not even ``kill -9`` leaves private values behind. Memory is that of
    the rows given or asked for at once.

    Parameters
    ----------
    directory
        Where the disk space is taken.
    n_rows, n_columns
        Shape of the table.
    """

    def __init__(self, directory: Path, n_rows: int, n_columns: int) -> None:
        self._directory = directory
        self._n_columns = n_columns
        self._row_bytes = n_columns * np.dtype(np.int16).itemsize
        with disk_errors_explained(directory):
            self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 (closed in __exit__)
            self._file.truncate(n_rows * self._row_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, positions: npt.NDArray[np.int64], rows: _Int16) -> None:
        """Put ``rows[i]`` at row ``positions[i]``."""
        order = np.argsort(positions)
        positions, rows = positions[order], np.ascontiguousarray(rows[order])
        # Neighbours go out in one write: one for a whole group if the file is in our order.
        runs = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
        with disk_errors_explained(self._directory):
            for start, stop in itertools.pairwise([*runs, len(positions)]):
                self._file.seek(int(positions[start]) * self._row_bytes)
                self._file.write(rows[start:stop].tobytes())

    def read(self, start: int, stop: int) -> _Int16:
        """Rows ``start`` to ``stop``, int16 (stop - start, k)."""
        self._file.seek(start * self._row_bytes)
        content = self._file.read((stop - start) * self._row_bytes)
        return np.frombuffer(content, dtype=np.int16).reshape(stop - start, self._n_columns)
