"""Public linear maps of the coded genotypes of people, in integers.

Output i of a person is ``clip(round(m_i (A x)_i / 2^24), -127, 127)`` for the codes x of this
person, an int8 matrix A and positive multipliers m. It is a function of one row and of public
numbers, so that it costs no privacy (docs/maths/ld-components.md, Theorem 1). Every step is exact,
so that the outputs do not depend on the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.compiling import compiled
from primo_scale.kernels.products import Int8, Int32, Int64, ProductKernel, spread_rows

FRACTION_BITS = 24
LARGEST_OUTPUT = 127
PEOPLE_MAPPED = 1024
"""Number of people at a time, whose int32 outputs stay in a second-level cache."""
_SQUARE = 64  # side of a square that is transposed in the first-level cache


@dataclass(frozen=True, eq=False)
class LinearMap:
    """Integer map from k inputs to m outputs."""

    matrix: Int8  # A, shape (m, k)
    multipliers: Int64  # m_i, from 0 to 2^31 - 1, shape (m,)

    @property
    def real(self) -> npt.NDArray[np.float64]:
        """Map without rounding and clipping, shape (m, k)."""
        scales = np.ldexp(self.multipliers.astype(np.float64), -FRACTION_BITS)
        return np.asarray(self.matrix.astype(np.float64) * scales[:, None])

    def apply_into(self, outputs: Int8, codes: Int8, kernel: ProductKernel) -> Int8:
        """Write the outputs of every person to `outputs`, shape (m, people), and return them.

        `codes` has the shape (k, people). A code and an entry of the matrix are at most 127, so
        that the sums fit int32 for k below 133,000. `kernel` is made for such codes.
        """
        for part, sums in self._sums(codes, kernel):
            _requantise(sums, self.multipliers, outputs[:, part])
        return outputs[:, : codes.shape[1]]

    def add_into(self, totals: Int64, codes: Int8, kernel: ProductKernel) -> None:
        """Add the outputs of every person, which are not clipped, to `totals`, (m, people)."""
        for part, sums in self._sums(codes, kernel):
            _add_requantised(sums, self.multipliers, totals[:, part])

    def _sums(self, codes: Int8, kernel: ProductKernel) -> Iterator[tuple[slice, Int32]]:
        """Yield ``A x`` of people, shape (m, part)."""
        m, people = len(self.matrix), codes.shape[1]
        rows = spread_rows(min(people, PEOPLE_MAPPED), len(codes))
        for start in range(0, people, PEOPLE_MAPPED):
            part = slice(start, min(start + PEOPLE_MAPPED, people))
            here = rows[: part.stop - start]
            _transpose(codes[:, part], here)
            total = kernel.zeros(m, len(here))
            kernel.add(total, self.matrix, here)
            yield part, kernel.read(total)


def add_squared_outputs(norms: Int64, outputs: Int8) -> None:
    """Add the squared norm of every person's outputs, shape (m, people), to `norms`."""
    sums = np.zeros(len(norms), dtype=np.int32)
    _add_squares(outputs, sums)  # at most 127^2 m, which fits for m below 133,000
    norms += sums


@compiled
def _add_squares(outputs: Int8, sums: Int32) -> None:
    for i in range(outputs.shape[0]):
        for j in range(outputs.shape[1]):
            value = np.int32(outputs[i, j])
            sums[j] += value * value


@compiled
def _transpose(codes: Int8, rows: Int8) -> None:
    k, people = codes.shape
    for column in range(0, people, _SQUARE):
        for row in range(0, k, _SQUARE):
            for i in range(column, min(column + _SQUARE, people)):
                for j in range(row, min(row + _SQUARE, k)):
                    rows[i, j] = codes[j, i]


@compiled
def _requantise(sums: Int32, multipliers: Int64, outputs: Int8) -> None:
    half = np.int64(1) << (FRACTION_BITS - 1)
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            value = (np.int64(sums[i, j]) * multipliers[i] + half) >> FRACTION_BITS
            outputs[i, j] = np.int8(min(max(value, -LARGEST_OUTPUT), LARGEST_OUTPUT))


@compiled
def _add_requantised(sums: Int32, multipliers: Int64, totals: Int64) -> None:
    half = np.int64(1) << (FRACTION_BITS - 1)
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            totals[i, j] += (np.int64(sums[i, j]) * multipliers[i] + half) >> FRACTION_BITS
