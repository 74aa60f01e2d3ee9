"""LD blocks from windows and from published tables."""

from __future__ import annotations

import itertools

import pytest
from filesets import variants_with
from hypothesis import given
from hypothesis import strategies as st

from primo_scale.accumulation.blocks import block_boundaries
from primo_scale.errors import InputError, UsageError


def variants(chromosomes, positions):
    return variants_with(len(chromosomes), chromosome=chromosomes, position=positions)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 50))
def test_windows_respect_their_size_and_chromosomes(lengths, size):
    names = [str(c) for c, length in enumerate(lengths) for _ in range(length)]
    boundaries = block_boundaries(f"window:{size}", variants(names, range(len(names))))
    assert boundaries[0] == 0 and boundaries[-1] == len(names)
    for start, stop in itertools.pairwise(boundaries):
        assert 0 < stop - start <= size
        assert len(set(names[start:stop])) == 1


def test_without_a_specification_there_is_one_dense_block():
    assert block_boundaries(None, variants(["1", "2"], [5, 6])) == (0, 2)


@pytest.mark.parametrize(
    "text", ["window:0", "window:-3", "window:", "window:1.5", "window:²", "window:" + "9" * 5000]
)
def test_an_invalid_window_size_is_a_usage_error(text):
    with pytest.raises(UsageError):
        block_boundaries(text, variants(["1"], [5]))


def boundaries_of(tmp_path, text, chromosomes, positions):
    table = tmp_path / "blocks.txt"
    table.write_text(text)
    return block_boundaries(str(table), variants(chromosomes, positions))


def test_a_table_assigns_variants_by_position(tmp_path):
    table = "chr start stop\nchr1 100 200\nchr1 200 300\nchr2 1 1000\n"
    made = boundaries_of(tmp_path, table, ["1", "1", "1", "1", "2"], [50, 199, 200, 900, 7])
    assert made == (0, 2, 4, 5)


@pytest.mark.parametrize(
    ("text", "chromosomes", "positions", "what"),
    [
        ("1 100 200\n", ["7"], [5], "no LD block for a chromosome"),
        ("1 100 200\n1 abc 3\n", ["1"], [5], r"blocks\.txt:2"),
        ("1 100 200\n1 200 300\n", ["1"] * 3, [150, 250, 160], "not runs"),
        *(
            (before + line.format("9" * 5000) + "\n", ["1"], [5], "is not `chrom start end`")
            for line in ("1 {} 300", "1 100 {}")
            for before in ("", "1 1 100\n")
        ),
    ],
)
def test_unsuitable_and_malformed_tables_are_refused(tmp_path, text, chromosomes, positions, what):
    with pytest.raises(InputError, match=what):
        boundaries_of(tmp_path, text, chromosomes, positions)
