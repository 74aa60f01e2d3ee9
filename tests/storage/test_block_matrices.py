"""Block statistics on disk: tiles and panels, pieces, digest and damage."""

import hashlib
import struct

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stores import flip_a_bit, pieces_of, write_gram, write_matrices

from primo_scale.errors import DamagedChunk
from primo_scale.storage import block_matrices
from primo_scale.storage.block_matrices import (
    BlockLayout,
    BlockMatricesWriter,
    panels,
    upper_tiles,
    whole_tiles,
)
from primo_scale.storage.groups import chunk_path

LAYOUT = BlockLayout((0, 23, 24, 40), n_fixed=2, n_phenotypes=3)
LARGE = 2**40


def statistics(layout, largest, seed=0, copies=1):
    rng = np.random.default_rng(seed)

    def entries(*shape):
        return rng.integers(-largest, largest + 1, shape)

    grams = {}
    for block, size in enumerate(layout.sizes):
        for copy in range(copies):
            upper = np.triu(entries(size, size))
            grams[block, copy] = upper + np.triu(upper, 1).T
    q = layout.n_outcomes
    crosses = [entries(size, q) for size in layout.sizes]
    return grams, crosses, entries(q, q), entries(1 + layout.n_phenotypes)


def written(path, layout, content, *, largest=None, eigenvalue=None):
    copies = max(copy for _, copy in content[0]) + 1
    known = {} if largest is None else {"largest_gram": largest}
    writer = write_matrices(path, layout, *content, gram_copies=copies, **known)
    if eigenvalue is not None:
        writer.write_smallest_eigenvalue(eigenvalue)
    return writer


def store(path, layout=LAYOUT, content=None, **options):
    content = content or statistics(layout, 1000)
    return written(path, layout, content, **options).finish({})


def digest_by_hand(layout, content, *, side, height, eigenvalue):
    """Return the digest that the module's docstring describes, from whole matrices."""
    grams, crosses, outcome_gram, observed = content
    copies = max(copy for _, copy in grams) + 1

    def piece(values):
        flat = [int(value) for value in np.ravel(values)]
        wide = any(not -(2**31) <= value < 2**31 for value in flat)
        return hashlib.sha256(struct.pack(f"<{len(flat)}{'q' if wide else 'i'}", *flat)).digest()

    shape = [layout.n_fixed, layout.n_phenotypes, copies, *layout.boundaries]
    pieces = [struct.pack(f"<{len(shape)}q", *shape)]
    for block, size in enumerate(layout.sizes):
        for copy in range(copies):
            for row in range(0, size, side):
                for column in range(row, size, side):
                    part = grams[block, copy][row : row + side, column : column + side]
                    pieces.append(piece(part))
        pieces += [piece(crosses[block][row : row + height]) for row in range(0, size, height)]
    pieces += [piece(outcome_gram), piece(observed), piece([eigenvalue])]
    return hashlib.sha256(b"".join(pieces)).hexdigest()


@settings(max_examples=10)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    side=st.sampled_from([5, 8, 10, 31]),
    largest=st.sampled_from([5, 2**31 - 1, 2**31, LARGE]),
    copies=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_matrices_are_read_back_whole_and_in_pieces(
    tmp_path_factory, sizes, side, largest, copies, seed
):
    layout = BlockLayout(tuple(np.cumsum([0, *sizes]).tolist()), 1, 2)
    content = statistics(layout, largest, seed, copies)
    grams, crosses, outcome_gram, observed = content
    path = tmp_path_factory.mktemp("store") / "s"
    with pieces_of(side, 20):
        writer = written(path, layout, content, largest=largest, eigenvalue=7)
        read = writer.finish({})
        assert read.sha256() == writer.sha256()
        by_hand = digest_by_hand(layout, content, side=side, height=6, eigenvalue=7)
        assert read.sha256() == by_hand
        for (block, copy), gram in grams.items():
            whole = read.gram(block, copy)
            assert whole.dtype == np.int64
            np.testing.assert_array_equal(whole, gram)
            if copy == 0:
                for tile, values in read.gram_tiles(block):
                    assert values.dtype == np.int64
                    np.testing.assert_array_equal(values, gram[tile.selection])
        for block, cross in enumerate(crosses):
            np.testing.assert_array_equal(read.cross(block), cross)
            parts = [values for _, values in read.cross_panels(block)]
            np.testing.assert_array_equal(np.vstack(parts), cross)
    np.testing.assert_array_equal(read.outcome_gram(), outcome_gram)
    np.testing.assert_array_equal(read.observed(), observed)
    assert read.smallest_eigenvalue() == 7
    small = zarr.open_group(path, mode="r")["gram/0"].dtype == np.int32
    assert small == (largest < 2**31)


def test_chunks_below_the_diagonal_are_neither_written_nor_read(tmp_path):
    content = statistics(LAYOUT, 1000)
    with pieces_of(8, 20):
        read = store(tmp_path / "s", content=content)
        array = zarr.open_group(tmp_path / "s", mode="r+")["gram/0"]
        chunks = {
            (int(path.parent.name), int(path.name))
            for path in (tmp_path / "s" / "gram" / "0" / "c").glob("*/*")
        }
        assert chunks == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)}
        of_23 = 8 * 8 + 8 * 8 + 8 * 7 + 8 * 8 + 8 * 7 + 7 * 7
        assert sum(height * width for height, width in (t.shape for t in LAYOUT.tiles(0))) == of_23
        before = read.sha256()
        array[8:16, 0:8] = 12345
        assert read.sha256() == before
        np.testing.assert_array_equal(read.gram(0), content[0][0, 0])


def test_the_digest_does_not_depend_on_the_stored_type(tmp_path):
    content = statistics(LAYOUT, 1000)
    narrow = store(tmp_path / "narrow", content=content, largest=1000)
    wide = store(tmp_path / "wide", content=content)
    assert narrow.sha256() == wide.sha256()


@pytest.mark.parametrize(
    ("name", "index"),
    [("gram/0", (0, 0)), ("gram/0", (1, 2)), ("gram/2", (1, 1)), ("cross/0", (3, 0)),
     ("outcome_gram", (0, 0)), ("observed", (0,))],
)  # fmt: skip
@pytest.mark.parametrize("forged", [False, True])
def test_damage_to_any_array_is_detected(tmp_path, name, index, forged):
    """A flipped bit, and an integer that was changed with a correct checksum."""
    with pieces_of(8, 20):
        read = store(tmp_path / "s")
        array = zarr.open_group(tmp_path / "s", mode="r+")[name]
        if forged:
            corner = (slice(i * s, i * s + 1) for i, s in zip(index, array.chunks, strict=True))
            array[tuple(corner)] = 10**6
        else:
            flip_a_bit(chunk_path(array, index))
        gram = [lambda: read.gram(0), lambda: list(read.gram_tiles(0))]
        for reading in [read.sha256, *(gram if name == "gram/0" else [])]:
            with pytest.raises(DamagedChunk, match="chunk is damaged"):
                reading()


def test_an_entry_larger_than_announced_is_refused(tmp_path):
    writer = BlockMatricesWriter(tmp_path / "s", "statistics", LAYOUT, largest_gram=2**31 - 1)
    gram = np.zeros((23, 23), np.int64)
    write_gram(writer, LAYOUT, 0, gram)
    for entry in (2**31, -(2**31) - 1):
        gram[4, 7] = gram[7, 4] = entry
        with pytest.raises(ValueError, match="larger than largest_gram"):
            write_gram(writer, LAYOUT, 0, gram)


SIZES = st.integers(0, 60)
SIDES = st.integers(1, 70)


def counted(size, parts):
    found = np.zeros((size, size), int)
    for part in parts:
        assert found[part.selection].shape == part.shape
        found[part.selection] += 1
    return found


@given(SIZES, SIDES)
def test_tiles_cover_the_upper_triangle_once(size, side):
    parts = list(upper_tiles(size, side))
    found = counted(size, parts)
    position = np.arange(size) // side
    square_above = position[:, None] <= position
    np.testing.assert_array_equal(found, square_above.astype(int))
    for part in parts:
        assert part.rows.start == part.row * side
        assert part.columns.start == part.column * side
        assert part.on_diagonal == (part.rows == part.columns)
        assert part.on_diagonal or part.rows.stop <= part.columns.start
        np.testing.assert_array_equal(found.T[part.mirrored], found[part.selection].T)


@given(SIZES, SIDES, SIDES)
def test_a_tile_can_be_cut_by_another_grid(size, side, finer):
    whole = np.arange(size * size).reshape(size, size)
    for region in upper_tiles(size, side):
        parts = list(region.cut(finer))
        found = counted(size, parts)[region.selection]
        assert found.size == 0 or found.max() == 1
        upper = np.triu(np.ones((size, size), bool))[region.selection]
        assert found[upper].all()
        for part in parts:
            inside = whole[region.selection][part.inside(region)]
            np.testing.assert_array_equal(inside, whole[part.selection])


@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 90))
def test_panels_cover_all_rows_once(height, width, entries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_matrices, "PANEL_ENTRIES", entries)
        found = list(panels(height, width))
    rows = [row for panel in found for row in range(height)[panel]]
    assert rows == list(range(height))
    for panel in found:
        assert (panel.stop - panel.start) * width <= max(entries, width)


def test_the_stored_format_is_the_documented_one():
    assert block_matrices.TILE == 1024
    assert list(panels(2**20, 1)) == [slice(0, 2**20)]
    assert len(list(panels(2**20 + 1, 1))) == 2
    assert (whole_tiles(1), whole_tiles(1024), whole_tiles(1025)) == (1024, 1024, 2048)
    assert len(list(upper_tiles(20_000))) == 210
