"""Compiled code finds weights as written, and writes scoring files, as Python does."""

import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.release_edits import cell, problems, rewrite
from support.release_examples import PUBLIC_KEY

from primo_scale.publication import check_pgs, check_weights
from primo_scale.publication.weight_rows import are_as_written, weights_in
from primo_scale.publication.weights import weights_in_text

WEIGHTS = st.floats(allow_nan=False, allow_infinity=False)
CELLS = st.one_of(
    WEIGHTS.map("{:.9g}".format),
    st.text("0123456789.e+-NA \r", max_size=8),
    st.sampled_from(["nan", "inf", "NA", "-0", "1e22", "1e23", "1e-30", "0.10", "1e400"]),
)


@settings(max_examples=1000)
@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=3))
def test_texts_that_are_as_written_are_so_for_python(rows):
    texts = ["\t".join(row) for row in rows]
    if are_as_written(texts, 2):
        for row, text in zip(rows, texts, strict=True):
            values = list(map(float, row))
            assert np.isfinite(values).all() and weights_in_text(values) == text


@settings(max_examples=300)
@given(st.lists(st.floats(1e-12, 1e20), min_size=1, max_size=9), st.sampled_from(["", "-"]))
def test_usual_weights_are_not_left_to_python(values, sign):
    texts = [f"{sign}{value:.9g}" for value in values]
    assert are_as_written(texts, 1)
    assert weights_in(texts, 1)[:, 0].tolist() == list(map(float, texts))


@pytest.mark.parametrize(
    "texts",
    [["1\t2", "3"], ["1\t2\t3"], ["1 2"], [""], ["1\t\t2"], ["1\t2\r"], ["-0\t1"], ["NA\t1"]],
)
def test_other_texts_are_not_as_written(texts):
    assert not are_as_written(texts, 2)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(WEIGHTS, WEIGHTS), min_size=1, max_size=5),
    st.tuples(*[st.none() | st.floats(0.001, 0.999)] * 2),
)
@example([(0.0, -0.0)], (None, 0.5))
@example([(1e-4, 99999.99995)], (0.5, 0.01))
def test_rows_of_scoring_files_are_those_of_python(weights, shares):
    rows = [
        [f"rs{k}", "A", "é", "22", str(k), ".", weights_in_text(row)]
        for k, row in enumerate(weights)
    ]
    with pytest.MonkeyPatch.context() as patch:
        by_python = check_pgs._written_again(shares, rows)
        patch.setattr(check_weights, "_COMPILED_FROM", 0)
        assert check_pgs._written_again(shares, rows) == by_python


@pytest.mark.parametrize("size", [1, 300, 1 << 20])
def test_releases_are_checked_by_compiled_code(release, monkeypatch, size):
    monkeypatch.setattr(check_weights, "_COMPILED_FROM", 0)
    monkeypatch.setattr(check_weights, "_GROUP", size)
    assert problems(release, PUBLIC_KEY) == []
    rewrite(release, "weights.tsv.gz", cell(2, 6, "0.123456789"))
    (problem,) = problems(release, PUBLIC_KEY)
    assert problem.startswith("contents: pgs/height.txt.gz has another")
    rewrite(release, "weights.tsv.gz", cell(3, 7, "0.10"))
    (problem,) = problems(release, PUBLIC_KEY)
    assert problem.startswith("contents: weights.tsv.gz line 4 has a weight that is not finite")


def test_a_verifier_without_numba_checks_many_weights(release, monkeypatch):
    monkeypatch.setattr(check_weights, "_COMPILED_FROM", 0)
    monkeypatch.setitem(sys.modules, "primo_scale.publication.weight_rows", None)
    assert check_weights.weight_rows_module(1) is None
    assert problems(release, PUBLIC_KEY) == []


def test_few_long_rows_are_checked_together():
    rows = [[str(number), "A" * (1 << 20)] for number in range(20)]
    groups = list(check_weights.groups_of(iter(rows)))
    assert [row for group in groups for row in group] == rows
    assert max(map(len, groups)) == 8
