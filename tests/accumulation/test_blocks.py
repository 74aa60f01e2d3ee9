"""LD blocks from windows and from published tables."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_io import PANEL
from support.filesets import variants_with

from primo_scale.accumulation.plan import block_boundaries
from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.tables import read_bim


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
            (before + line.format(number) + "\n", ["1"], [5], "as whole numbers of base pairs")
            for line in ("1 {} 300", "1 100 {}")
            for before in ("", "1 1 100\n")
            for number in ("9" * 5000, "3.65e7", "38000000.0")
        ),
        ("1 1 100\n1 100\n", ["1"], [5], r"blocks\.txt:2: an LD block is not `chrom start end`"),
        ("1 100 200\n1 300 201\n", ["1"], [150], "txt:2: an LD block is not `chrom start end`"),
        ("1 365 380\n2 1 9\n1 350 366\n", ["1"], [360],
         "lines 3 and 1 overlap .got 350 to 366 and 365 to 380.. End each block at or before"),
        ("1 100 200\n1 100 200\n", ["1"], [150], "lines 1 and 2 overlap"),
        ("1 100 900\n1 200 300\n", ["1"], [150], "lines 1 and 2 overlap"),
    ],
)  # fmt: skip
def test_unsuitable_and_malformed_tables_are_refused(tmp_path, text, chromosomes, positions, what):
    with pytest.raises(InputError, match=what):
        boundaries_of(tmp_path, text, chromosomes, positions)


def test_touching_blocks_in_any_order_and_the_demos_blocks_are_taken(tmp_path):
    """LDetect's blocks start at the end of the one before."""
    ldetect = "chr start stop\nchr1 200 300\nchr1 100 200\nchr1 301 400\n"
    assert boundaries_of(tmp_path, ldetect, ["1"] * 3, [150, 200, 350]) == (0, 1, 2, 3)
    genotypes = read_bim(PANEL.with_suffix(".bim"))
    rows = Path(f"{PANEL}.blocks.tsv").read_text().splitlines()[1:]
    assert len(block_boundaries(f"{PANEL}.blocks.tsv", genotypes)) == len(rows) + 1
