"""Every fault of the table still fits the product; `make mutation` runs the tests against them."""

import ast

import pytest
from fault_table import ROOT, BrokenTableError, Fault, read_faults

FAULTS = read_faults()
FEWEST_FAULTS = 80
PACKAGES = {"accumulation", "gaussian", "ledger", "privacy", "publication"}


@pytest.mark.parametrize("path", sorted({fault.path for fault in FAULTS}))
def test_faults_apply_to_one_place_each_and_leave_a_program(path: str) -> None:
    product = (ROOT / path).read_text(encoding="utf-8")
    for fault in FAULTS:
        if fault.path == path:
            faulty = fault.applied_to(product)
            assert faulty != product, fault.name
            ast.parse(faulty, filename=fault.name)


def test_tests_of_faults_exist() -> None:
    named = {test.split("::")[0] for fault in FAULTS for test in (*fault.tests, *fault.slow_tests)}
    assert all(fault.tests for fault in FAULTS)
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []


def test_table_covers_the_packages_that_privacy_rests_on() -> None:
    assert len(FAULTS) >= FEWEST_FAULTS
    assert {fault.package for fault in FAULTS} >= PACKAGES


def test_old_text_that_does_not_occur_once_is_refused() -> None:
    fault = Fault("example", "file.py", old="x = 1", new="x = 2", why="", tests=())
    for content, count in (("x = 1\nx = 1\n", 2), ("y = 1\n", 0)):
        with pytest.raises(BrokenTableError, match=f"{count} places"):
            fault.applied_to(content)
