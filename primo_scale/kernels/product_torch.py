"""Exact int8 products by PyTorch: oneDNN (VNNI, AMX) on processors, cuBLAS on NVIDIA GPUs.

PyTorch is an optional dependency (docs/dependencies.md). It is imported only if ``--kernel`` names
one of these two kernels; they are never chosen automatically.
"""

from __future__ import annotations

import importlib.util
from functools import cached_property
from typing import Any

import numpy as np

from primo_scale.kernels.products import Int8, Int32, copied_bytes, whole_vectors
from primo_scale.ranges import whole_multiple

# cuBLAS requires int8 operands of multiples of 32 rows and 16 people, and `whole_vectors` pads the
# people to a multiple of 64. Zero padding changes no sum.
_ROW_MULTIPLE = 32
_CHECKED_PEOPLE = 1024


class Torch:
    """Kernel for any int8 codes that multiplies with ``torch._int_mm`` on the processor."""

    name = "torch"
    needs = "PyTorch and a processor with VNNI or AMX"
    # The import and one product of 2048 x 8192 took 482 MiB with PyTorch 2.11 for CUDA, and less
    # than 200 MiB with PyTorch 2.13 for processors alone (Linux, one thread).
    library_bytes = 512 << 20
    _device = "cpu"

    def __init__(self, largest_code: int) -> None:
        pass  # any int8 code will do

    def is_available(self) -> bool:
        """Return whether PyTorch is installed, finds the device and multiplies exactly on it."""
        if importlib.util.find_spec("torch") is None:
            return False
        if self._device == "cuda" and not self._torch.cuda.is_available():
            return False
        return self._is_exact

    @cached_property
    def _is_exact(self) -> bool:
        """Whether products of the largest codes are exact.

        On processors without VNNI, oneDNN adds pairs of products in saturating 16-bit arithmetic.
        """
        codes = np.repeat(np.array([[-128], [127]], dtype=np.int8), _CHECKED_PEOPLE, axis=1)
        total = self.zeros(2, 2)
        self.add(total, codes, codes)
        wide = codes.astype(np.int64)
        return bool(np.array_equal(self.read(total), wide @ wide.T))

    def zeros(self, rows: int, columns: int) -> Any:
        """Return a zero sum on the device, and the shape of the result."""
        shape = (whole_multiple(rows, _ROW_MULTIPLE), whole_multiple(columns, _ROW_MULTIPLE))
        total = self._torch.zeros(shape, dtype=self._torch.int32, device=self._device)
        return total, (rows, columns)

    def add(self, total: Any, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32."""
        first = self._on_device(left)
        second = first if right is left else self._on_device(right)
        total[0].add_(self._torch._int_mm(first, second.t()))

    def read(self, total: Any) -> Int32:
        """Return the sum as an array."""
        tensor, (rows, columns) = total
        return np.ascontiguousarray(tensor.cpu().numpy()[:rows, :columns])

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of copies of both operands and of the product."""
        copies = copied_bytes(left, right, people, same=same)
        return copies + left * right * np.dtype(np.int32).itemsize

    def _on_device(self, codes: Int8) -> Any:
        """Return the codes on the device, zero-padded.

        Rows of the layout of `spread_rows` move in one piece, with what lies between them.
        """
        whole = whole_vectors(codes, _ROW_MULTIPLE)
        (rows, people), stride = whole.shape, whole.strides[0]
        piece = np.lib.stride_tricks.as_strided(whole, ((rows - 1) * stride + people,), (1,))
        return self._torch.from_numpy(piece).to(self._device).as_strided(whole.shape, (stride, 1))

    @cached_property
    def _torch(self) -> Any:
        import torch

        return torch


class Cuda(Torch):
    """Kernel for any int8 codes that multiplies with ``torch._int_mm`` on an NVIDIA GPU."""

    name = "cuda"
    needs = "PyTorch and an NVIDIA GPU"
    # The import, the context and one product of 2048 x 8192 took 626 MiB (PyTorch 2.11, CUDA 13.0,
    # H200). Before CUDA 11.7 a context alone took 2 GB (pytorch/pytorch#87539).
    library_bytes = 1 << 30
    _device = "cuda"
