"""Streaming phenotype and covariate tables."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from primo_scale.errors import InputError
from primo_scale.outcomes import tables
from primo_scale.outcomes.tables import RowGroup, open_outcome_table


def write(directory: Path, text: str) -> Path:
    path = directory / "table.tsv"
    path.write_text(text)
    return path


def read_all(path: Path, names: list[str]) -> list[RowGroup]:
    return list(open_outcome_table(path).row_groups(names))


@pytest.mark.parametrize("header", ["FID IID", "#FID\tIID", "#FID IID SID", "## x\n#FID IID"])
def test_headers_with_family(tmp_path, header):
    identity = "f1 i1 s1" if header.endswith("SID") else "f1 i1"
    table = open_outcome_table(write(tmp_path, f"{header} A B\n{identity} 1 2\n"))
    assert table.names == ("A", "B")
    ((people, _, values),) = table.row_groups(["B", "A"])
    assert people == ["f1 i1"]
    assert values.tolist() == [[2, 1]]


def test_spellings_of_numbers_and_missing_values(tmp_path):
    numbers = ["1", "-2.5", "+3", ".5", "5.", "1e3", "1E-2", "inf", "-inf", "1e400", "-9"]
    cells = [*numbers, "NA", "na", "nA", "Na", "nan", "NaN", "NAN"]
    text = "FID IID V NOTE_1\n\n" + "".join(f"NA i_{c}\t {c}  x_{c}\r\n\n" for c in cells)
    ((people, lines, values),) = read_all(write(tmp_path, text), ["V"])
    infinity = np.inf
    expected = [1, -2.5, 3, 0.5, 5, 1000, 0.01, infinity, -infinity, infinity, -9]
    np.testing.assert_array_equal(values[:, 0], expected + [np.nan] * 7)
    assert people == [f"NA i_{cell}" for cell in cells]
    assert lines.tolist() == list(range(3, 3 + 2 * len(cells), 2))


@pytest.mark.parametrize("cell", ["abc", "0x10", "1,5", "1_000", "True", "-", ".", '"1"', "1d3"])
def test_text_in_a_numeric_column_is_named(tmp_path, cell):
    path = write(tmp_path, f"FID IID A B\n1 1 1 2\n2 2 NA {cell}\n")
    with pytest.raises(InputError, match="the value of B is not a number") as caught:
        read_all(path, ["A", "B"])
    assert (caught.value.where, caught.value.value) == (f"{path}:3", cell)
    assert len(read_all(path, ["A"])) == 1  # columns that are not requested may hold text


@pytest.mark.parametrize("row", ["3 3 1", "3 3 1 2 3", "3"])
@pytest.mark.parametrize("names", [["A"], ["A", "B"]])
def test_rows_of_another_length_are_refused(tmp_path, row, names):
    path = write(tmp_path, f"FID IID A B\n1 1 1 2\n{row}\n")
    with pytest.raises(InputError, match="the row and the header differ in length") as caught:
        read_all(path, names)
    assert caught.value.where == f"{path}:3"


def test_names_must_occur_once(tmp_path):
    path = write(tmp_path, "FID IID A B A C D E\n1 1 1 2 3 4 5 6\n")
    with pytest.raises(
        InputError, match=r"'A' is repeated in the header \(got A, B, A, C, D, \.\.\."
    ):
        read_all(path, ["A"])
    with pytest.raises(InputError, match=r"no column 'X' in the header.*columns are: A, B, A, C,"):
        read_all(path, ["B", "X"])
    assert read_all(path, ["B"])[0][2].tolist() == [[2]]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (None, ["PC1", "PC2", "PC10", "AGE", "A*E"]),
        (["AGE", "PC?"], ["AGE", "PC1", "PC2"]),
        (["PC*", "PC1"], ["PC1", "PC2", "PC10"]),
        (["A*E"], ["A*E"]),  # a column of this very name
    ],
)
def test_names_with_wildcards_stand_for_columns(tmp_path, wanted, names):
    table = open_outcome_table(write(tmp_path, "IID PC1 PC2 PC10 AGE A*E\n1 1 2 3 4 5\n"))
    assert list(table.matching(wanted)) == names
    with pytest.raises(InputError, match=r"no column 'pc\*'"):
        table.matching(["pc*"])


@pytest.mark.parametrize(
    "text", ["", "1 1 2.5\n", "fid iid A\n1 1 2\n", "Person;BMI\np1;3\n", "FID A\n1 2\n"]
)
def test_a_file_without_header_is_refused(tmp_path, text):
    with pytest.raises(InputError, match="does not begin with a header") as caught:
        open_outcome_table(write(tmp_path, text))
    assert not text or repr(text.splitlines()[0]) in str(caught.value)


def test_unreadable_files(tmp_path):
    with pytest.raises(InputError, match="has no column after the IDs"):
        open_outcome_table(write(tmp_path, "FID IID\n1 1\n"))
    with pytest.raises(InputError, match="no such file"):
        open_outcome_table(tmp_path / "nothing.tsv")
    whole = gzip.compress(b"FID IID A\n" + b"1 1 2\n" * 1000)
    for name, content in {"cut": whole[:-20], "flipped": whole[:30] + b"\xff" + whole[31:]}.items():
        path = tmp_path / f"{name}.tsv.gz"
        path.write_bytes(content)
        with pytest.raises(InputError, match="cannot be decompressed"):
            read_all(path, ["A"])


@pytest.mark.parametrize("cells", [1, 11, 1 << 20])
def test_groups_of_rows_join_to_what_pandas_reads(tmp_path, cells, monkeypatch):
    monkeypatch.setattr(tables, "CELLS_PER_GROUP", cells)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(23, 3)), columns=["A", "B", "C"])
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame.insert(0, "IID", [f"i{k}" for k in range(23)])
    frame.insert(0, "FID", "0")
    path = tmp_path / "t.tsv.gz"
    frame.to_csv(path, sep="\t", na_rep="NA", index=False)
    groups = read_all(path, ["C", "A"])
    assert len(groups) == -(-23 // max(1, cells // 5))
    values = np.concatenate([values for *_, values in groups])
    np.testing.assert_array_equal(values, frame[["C", "A"]])  # every digit kept
    assert [i for people, *_ in groups for i in people] == [f"0 i{k}" for k in range(23)]
    assert [i for _, lines, _ in groups for i in lines] == list(range(2, 25))
