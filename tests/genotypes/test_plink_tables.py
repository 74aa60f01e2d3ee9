"""Strict reading of .bim and .fam files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.filesets import written

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import read_bim, read_fam
from primo_scale.verify.chromosomes import canonical_chromosome


def test_absent_and_empty_files_are_named(tmp_path):
    for read, name in ((read_bim, "x.bim"), (read_fam, "x.fam")):
        with pytest.raises(InputError, match=f"{name}: no such file"):
            read(tmp_path / name)
        with pytest.raises(InputError, match=f"{name}: has no"):
            read(written(tmp_path / name, b""))
        with pytest.raises(InputError, match="below: no such file"):
            read(tmp_path / name / "below")


TOKEN = st.text(st.characters(codec="utf-8"), min_size=1).filter(
    lambda text: len(text.encode().split()) == 1 and text.encode().split()[0] == text.encode()
)
BLANK = st.sampled_from([b" ", b"\t", b" \t ", b"\x0b", b"\x0c"])


@given(
    rows=st.lists(
        st.tuples(TOKEN, TOKEN.filter(lambda text: text != "0")),
        min_size=1, max_size=30,
    ),
    blanks=st.lists(BLANK, min_size=8, max_size=8),
    margins=st.tuples(st.sampled_from([b"", b" "]), st.sampled_from([b"", b"\t", b"\r", b" 7"])),
)  # fmt: skip
def test_any_fam_file_is_read_back(tmp_path_factory, rows, blanks, margins):
    lines = []
    for family, individual in rows:
        tokens = [family.encode(), individual.encode(), b"0", b"0", b"1"]
        cells = b"".join(token + blank for token, blank in zip(tokens, blanks, strict=False))
        lines.append(margins[0] + cells + b"-9" + margins[1])
    path = tmp_path_factory.mktemp("fam") / "x.fam"
    samples = read_fam(written(path, b"\n".join(lines) + b"\n"))
    assert samples.family.tolist() == [family for family, _ in rows]
    assert samples.individual.tolist() == [individual for _, individual in rows]


@pytest.mark.parametrize(
    ("read", "content", "line"),
    [
        (read_bim, b"1 a 0 5 A C\n1 b 0 6 A\n", 2),
        (read_bim, b"1 a 0 abc A C\n", 1),
        (read_bim, b"1 a 0 2147483647 A C\n", 1),
        (read_bim, b"1 a 0 -9999999999999999999 A C\n", 1),
        (read_bim, b"1 a 0 " + b"9" * 5000 + b" A C\n", 1),
        (read_bim, b"1 a 0 1e+06 A C\n", 1),  # plink2 reads position 1
        (read_bim, b"1 a 0 +-5 A C\n", 1),
        (read_bim, b"1 a 0 5 A C\n\n1 b 0 5 A C\n", 2),
        (read_bim, b"1 \xff 0 5 A C\n", 1),
        (read_fam, b"F I 0 0 1 -9\nF J 0 0 1\nF K 0 0 1 -9 7\n", 2),  # 18 tokens in 3 lines
        (read_fam, b"F I 0 0 1\n", 1),
        (read_fam, b"F I 0 0 1 -9\nF 0 0 0 1 -9\n", 2),
        (read_fam, b"F I 0 0 1 -9\n\nF J 0 0 1 -9\n", 2),
        (read_fam, b"F I 0 0 1 -9\nF \xff 0 0 1 -9\n", 2),
    ],
)
def test_bad_lines_are_named(tmp_path, read, content, line):
    path = written(tmp_path / "x", content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "canonical"),
    # The names plink2 --export A-transpose gives them.
    [
        ("chr1", "1"),
        ("01", "1"),
        ("23", "X"),
        ("24", "Y"),
        ("xy", "XY"),
        ("chrM", "MT"),
        ("26", "MT"),
        ("27", "PAR1"),
        ("PAR2", "PAR2"),
        ("0", "0"),
        ("chrUn", "chrUn"),
    ],
)
def test_chromosome_spellings(code, canonical):
    assert canonical_chromosome(code) == canonical
