"""The file of public bounds."""

import pytest
from support.filesets import written

from primo_scale.errors import InputError
from primo_scale.outcomes import coding


def test_defaults_and_order(tmp_path):
    path = written(
        tmp_path / "bounds.tsv",
        "name\tlower\tupper\tmean\tsd\n"
        "height\t120\t220\t170\t10\n"
        "\n"
        "bmi\t10\t70\tNA\tNA\r\n"
        "unused\t5\t4\tNA\tNA\n"
        "case12\t1\t2\t1.1\t0.3\n"
        "case01\t0\t1\tNA\tNA\n",
    )
    names = ["case01", "bmi", "height", "case12"]
    assert coding.read_phenotype_bounds(path, names) == (
        coding.PhenotypeBounds("case01", 0, 1, 0.5, 0.5, "binary"),
        coding.PhenotypeBounds("bmi", 10, 70, 40, 30, "quantitative"),
        coding.PhenotypeBounds("height", 120, 220, 170, 10, "quantitative"),
        coding.PhenotypeBounds("case12", 1, 2, 1.1, 0.3, "binary"),
    )
    assert coding.read_covariate_bounds(path, ["height", "bmi"]) == (
        coding.CovariateBounds("height", 120, 220, 170),
        coding.CovariateBounds("bmi", 10, 70, 40),
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("name lower upper\ny 2 1\n", 2, "not an increasing range .*found 2 and 1"),
        ("name lower upper\ny 1 1\n", 2, "not an increasing range"),
        ("name lower upper\ny 1 NA\n", 2, "upper of y is not a finite number .*NA"),
        ("name lower upper\ny -inf 1\n", 2, "lower of y is not a finite number .*-inf"),
        ("name lower upper\ny -1e308 1e308\n", 2, "not an increasing range"),
        ("name lower upper\ny x 1\n", 2, "lower of y is not a finite number .*got x"),
        ("name lower upper\ny 1\n", 2, "differ in length .*found 2 cells, expected 3"),
        ("name lower upper\n\ny 1 2\ny 1 3\n", 4, "y is repeated .*bounds.tsv:3"),
        ("name lower upper sd\ny 1 3 0\n", 2, "sd of y is not positive"),
        ("name lower upper mean\ny 1 3 4\n", 2, "mean of y is outside its bounds .*1 to 3"),
        ("name lower upper type\ny 1 3 ordinal\n", 2, "unknown type of y .*ordinal"),
        ("name lower upper type\ny 1 3 binary\n", 2, "not case/control codes .*1 and 3"),
        ("name lower upper lower\n", 1, "not a header of bounds"),
        ("name min max\n", 1, "not a header of bounds .*name min max"),
    ],
)
def test_bad_lines_are_named(tmp_path, text, line, message):
    path = written(tmp_path / "bounds.tsv", text)
    with pytest.raises(InputError, match=message) as caught:
        coding.read_phenotype_bounds(path, ["y"])
    assert caught.value.where == f"{path}:{line}"
    assert "\n" not in str(caught.value)


def test_phenotypes_without_bounds_are_listed(tmp_path):
    path = written(tmp_path / "bounds.tsv", "name lower upper\ny 0 9\n")
    with pytest.raises(InputError, match=r"6 of 7 columns: a, b, c, d, e, \.\.\..*--pheno"):
        coding.read_phenotype_bounds(path, ["a", "b", "y", "c", "d", "e", "f"])
    with pytest.raises(InputError, match=r"1 of 1 columns: age\. .*--covar-bounds"):
        coding.read_covariate_bounds(path, ["age"])
    with pytest.raises(InputError, match="no such file"):
        coding.read_phenotype_bounds(tmp_path / "nothing", ["y"])
