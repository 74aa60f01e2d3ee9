"""Exact sums for phenotype means and sds, compared with a direct count from the file's text."""

import math
from fractions import Fraction

import numpy as np
from filesets import sample_table

from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import BOUNDED_UNIT as UNIT
from primo_scale.outcomes.moments import sum_moments

BOUNDS = (
    PhenotypeBounds("height", 100.0, 200.0, 150.0, 50.0, "quantitative"),
    PhenotypeBounds("case", 1.0, 2.0, 1.5, 0.5, "binary"),
)
ROWS = {
    "a": ("150.5", "1"), "b": ("NA", "2"), "c": ("999", "2"), "d": ("-inf", "NA"),
    "e": ("-9", "0"), "f": ("123.4567", "1"),
}  # fmt: skip


def test_sums_equal_a_direct_count(tmp_path):
    file = tmp_path / "pheno.tsv"
    lines = [f"{name}\t{name}\t{x}\t{y}" for name, (x, y) in ROWS.items()]
    file.write_text("\n".join(["FID\tIID\theight\tcase", *lines, "z\tz\t170\t1"]) + "\n")
    samples = sample_table((name, name) for name in [*ROWS, "not in the file"])
    found = sum_moments(file, samples, BOUNDS).sums

    height = [Fraction("150.5"), Fraction(200), Fraction(100), Fraction("123.4567")]
    units = [math.trunc(UNIT * (value - 150) / 50) for value in height]
    case = [-UNIT, UNIT, UNIT, -UNIT]  # 0 is missing where codes are 1 and 2
    expected = [
        [sum(units), sum(case)],
        [sum(unit**2 // UNIT for unit in units), 4 * UNIT],
        [4 * UNIT, 4 * UNIT],
    ]
    np.testing.assert_array_equal(found, expected)


def test_no_value_exceeds_the_unit_where_the_midpoint_is_rounded(tmp_path):
    """Near 10^16 floats are 2 apart: the midpoint of these bounds becomes the lower one."""
    bounds = (PhenotypeBounds("y", 1e16, 1e16 + 2, 1e16, 1.0, "quantitative"),)
    file = tmp_path / "pheno.tsv"
    file.write_text("FID\tIID\ty\na\ta\t10000000000000002\n")
    found = sum_moments(file, sample_table([("a", "a")]), bounds).sums
    assert found.tolist() == [[UNIT]] * 3
