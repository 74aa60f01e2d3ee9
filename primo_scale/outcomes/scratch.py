"""Temporary table on disk, for rows that are written in one order and read in another."""

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
    """Temporary int16 table (n, k) on disk, initially zero.

    The file has no name, so that no private values remain even if the process is killed. Only rows
    that are written or read need memory.

    Parameters
    ----------
    directory
        Directory on the disk to use.
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
        """Write ``rows[i]`` to row ``positions[i]``."""
        order = np.argsort(positions)
        positions, rows = positions[order], np.ascontiguousarray(rows[order])
        # Neighbouring rows are written together.
        runs = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
        with disk_errors_explained(self._directory):
            for start, stop in itertools.pairwise([*runs, len(positions)]):
                self._file.seek(int(positions[start]) * self._row_bytes)
                self._file.write(rows[start:stop].tobytes())

    def read(self, start: int, stop: int) -> _Int16:
        """Return rows ``start`` to ``stop``, int16 (stop - start, k)."""
        self._file.seek(start * self._row_bytes)
        content = self._file.read((stop - start) * self._row_bytes)
        return np.frombuffer(content, dtype=np.int16).reshape(stop - start, self._n_columns)
