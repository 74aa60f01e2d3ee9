"""A fault is found by the name of its function and by its code, wherever both are."""

import ast
from pathlib import Path

import pytest
from fault_table import Fault, Product, StaleFaultError

MODULE = """
LIMIT = 3

class Range:
    # A comment.
    def clipped(self, value):
        if value > self.high:
            value = self.high
        return max(
            value, self.low, key=abs)

def twice(value):
    return value + value

def ends(value):
    return [value, value]
"""


@pytest.fixture
def product(tmp_path: Path) -> Product:
    (tmp_path / "primo_scale").mkdir()
    (tmp_path / "primo_scale" / "ranges.py").write_text(MODULE)
    return Product(tmp_path)


def fault(function: str, old: str, new: str) -> Fault:
    return Fault("table", "name", function, old, new, why="", tests=())


@pytest.mark.parametrize(
    ("function", "old", "new", "was", "becomes"),
    [
        ("Range.clipped", "value>self.high", "False", "value > self.high", "False"),
        ("Range.clipped", "if value > self.high:", "while 1:", "if value > self.high", "while 1"),
        ("clipped", "value = self.high", "pass", "value = self.high", "pass"),
        ("clipped", "key=abs", "key=len", "key=abs", "key=len"),
        ("ranges.Range.clipped", "max", "min", "max(", "min("),
        ("moved.Other.clipped", "max", "min", "max(", "min("),
        ("LIMIT", "3", "4", "LIMIT = 3", "LIMIT = 4"),
        ("ends", "return [value, value]", "return x", "[value, value]", "x"),
    ],
)  # fmt: skip
def test_a_fault_changes_one_place(
    product: Product, function: str, old: str, new: str, was: str, becomes: str
) -> None:
    sound = ast.unparse(ast.parse(MODULE))
    faulty = product.with_fault(fault(function, old, new))
    assert faulty == ("primo_scale/ranges.py", sound.replace(was, becomes))
    assert product.with_fault(fault(function, old, new)) == faulty


@pytest.mark.parametrize(
    ("function", "old", "homes"),
    [
        ("twice", "value", ["Range.clipped", "twice", "ends"]),
        ("gone", "value + value", ["twice"]),
        ("Range.clipped", "value + 1", []),
    ],
)
def test_a_stale_fault_is_refused_with_the_functions_that_have_its_code(
    product: Product, function: str, old: str, homes: list[str]
) -> None:
    stale = fault(function, old, "0")
    with pytest.raises(StaleFaultError):
        product.with_fault(stale)
    assert product.homes(stale) == [f"primo_scale.ranges.{home}" for home in homes]
