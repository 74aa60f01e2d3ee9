"""Registries: every registered name keeps its protocol, and a toy extension works end to end.

docs/extending.md shows the registration of each.
"""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

from primo_scale.kernels import AUTOMATIC, FASTEST_FIRST, KERNELS
from primo_scale.kernels.choice import choose_kernel
from primo_scale.kernels.products import ArraySums, Int8, Int32, ProductSum

ROOT = Path(__file__).parents[1]


def protocol_members(protocol: type) -> set[str]:
    """Return the names that an implementation of a protocol needs."""
    return {*vars(protocol).get("__annotations__", ()), *vars(protocol)} - {
        *vars(type("_Empty", (), {})), "__annotations__", "__protocol_attrs__", "__init__",
    }  # fmt: skip


# ---- Kernels -------------------------------------------------------------------------------------


class PlainKernel(ArraySums):
    """Toy kernel: products of int64."""

    name = "plain"
    needs = "nothing"

    def is_available(self) -> bool:
        return True

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        total += (left.astype(np.int64) @ right.astype(np.int64).T).astype(np.int32)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_keeps_its_protocol(name: str) -> None:
    kernel = pkgutil.resolve_name(KERNELS[name])(largest_code=1)
    assert kernel.name == name
    assert kernel.needs
    assert isinstance(kernel.is_available(), bool)
    assert all(callable(getattr(kernel, method)) for method in ("zeros", "add", "read"))


def test_the_documentation_lists_every_kernel() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/kernels.md").read_text(), re.MULTILINE)
    assert rows == list(KERNELS)
    assert set(FASTEST_FIRST) < set(KERNELS)


def test_a_toy_kernel_gives_the_same_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KERNELS, "plain", f"{__name__}:PlainKernel")
    codes = np.random.default_rng(1).integers(-127, 128, (20, 3001)).astype(np.int8)
    sums = []
    for name in ("plain", AUTOMATIC):
        total = ProductSum(choose_kernel(name, 127), (20, 20), 127**2)
        total.add(codes, codes)
        sums.append(np.triu(total.total()))
    assert np.array_equal(*sums)
