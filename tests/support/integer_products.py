"""Products in numpy's int64, which no kernel uses, and the kernels that this machine has."""

import numpy as np
import numpy.typing as npt
import pytest

from primo_scale.errors import UsageError
from primo_scale.kernels.product_kernels import choose_kernel
from primo_scale.kernels.products import ProductKernel

Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]


def available(name: str, largest_code: int) -> ProductKernel:
    """Return the kernel, or skip the test with the reason why it is not available."""
    try:
        return choose_kernel(name, largest_code)
    except UsageError as refusal:
        pytest.skip(str(refusal))


def product(left: Int8, right: Int8) -> Int64:
    """Return ``left @ right.T``; sums of at most 2^17 products of at most 2^14 fit int64."""
    return left.astype(np.int64) @ right.astype(np.int64).T


def modulo_int32(values: Int64) -> Int64:
    return (values + 2**31) % 2**32 - 2**31


def codes_of(
    rng: np.random.Generator, rows: int, people: int, *, largest: int, pattern: str
) -> Int8:
    """Return codes of one of `PATTERNS`, with magnitudes up to `largest`."""
    highest = min(largest, 127)
    ends = np.array([-largest, highest], dtype=np.int8)
    if pattern == "any":
        return rng.integers(-largest, highest + 1, (rows, people)).astype(np.int8)
    if pattern == "ends":
        return rng.choice(ends, (rows, people))
    value = {"lowest": -largest, "highest": highest, "zero": 0}[pattern]
    return np.full((rows, people), value, dtype=np.int8)


PATTERNS = ("any", "ends", "lowest", "highest", "zero")
