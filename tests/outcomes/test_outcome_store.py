"""Aligning outcome files with the people of the genotypes."""

import logging

import numpy as np
import pytest
from support.durable import flushes_seen
from support.filesets import sample_table

from primo_scale.errors import InputError
from primo_scale.outcomes import coding, tables
from primo_scale.outcomes import store as store_module
from primo_scale.outcomes.store import KIND, align_outcomes, open_outcome_store
from primo_scale.storage.groups import is_complete

PEOPLE = sample_table([("f1", "a"), ("f1", "b"), ("f2", "c"), ("f3", "d")])
CODING = coding.code_outcomes(
    [
        coding.PhenotypeBounds("y", -2, 2, 0, 1, "quantitative"),
        coding.PhenotypeBounds("cc", 1, 2, 1.5, 0.5, "binary"),
    ],
    [coding.CovariateBounds("age", 0, 100, 50)],
)
PHENOTYPES = "FID IID y cc\nf2 c 1 2\nf1 a -0.5 1\nzz z 3 2\nf1 b NA 0\n"
COVARIATES = "#FID IID sex age\nf3 d 1 100\nf1 a 2 0\nf2 c 1 NA\n"
EXPECTED = [
    [8192, -8192, -4096, -8192],
    [8192, 0, 0, 0],
    [8192, 0, 8192, 8192],
    [8192, 8192, 0, 0],
]


def files_in(directory, phenotypes=PHENOTYPES, covariates=COVARIATES):
    (directory / "pheno.tsv").write_text(phenotypes)
    (directory / "covar.tsv").write_text(covariates)
    return [directory / "pheno.tsv", directory / "covar.tsv"]


def aligned(path, *parameters):
    return align_outcomes(path, *parameters, scratch=path.parent)


def shuffled(text, seed):
    header, *rows = text.splitlines(keepends=True)
    np.random.default_rng(seed).shuffle(rows)
    return header + "".join(rows)


def test_rows_have_the_order_of_the_genotypes(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG, logger="primo_scale"):
        store = aligned(tmp_path / "o.zarr", PEOPLE, files_in(tmp_path), CODING)
    assert store.read_rows(slice(0, 4)).tolist() == EXPECTED
    assert store.read_rows(slice(1, 3)).tolist() == EXPECTED[1:3]
    assert store.read_rows(slice(0, 4)).dtype == np.int16
    assert store.observed.tolist() == [2, 2]
    assert store.n_samples == 4
    assert (
        "3 of 4 genotyped people matched; 1 rows without genotypes; "
        "1 genotyped people without a row" in caplog.text
    )
    again = open_outcome_store(tmp_path / "o.zarr")
    assert again.content_digest == store.content_digest
    assert {p.name for p in tmp_path.iterdir()} == {"o.zarr", "pheno.tsv", "covar.tsv"}


@pytest.mark.parametrize("cells", [1, 4, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_row_order_and_group_size_do_not_change_the_store(tmp_path, cells, seed, monkeypatch):
    reference = aligned(tmp_path / "o.zarr", PEOPLE, files_in(tmp_path), CODING)
    monkeypatch.setattr(tables, "CELLS_PER_GROUP", cells)
    monkeypatch.setattr(store_module, "CHUNK_BYTES", 8 * cells)  # so many rows of q = 4
    files = files_in(tmp_path, shuffled(PHENOTYPES, seed), shuffled(COVARIATES, seed + 9))
    store = aligned(tmp_path / "p.zarr", PEOPLE, files, CODING)
    assert store.content_digest == reference.content_digest
    assert store.read_rows(slice(0, 4)).tolist() == EXPECTED


def test_all_files_are_flushed_before_the_store_is_complete(tmp_path):
    path, flushed = tmp_path / "o.zarr", set()

    def note(seen):
        if not is_complete(path, KIND):
            flushed.add(seen)

    with flushes_seen(note):
        aligned(path, PEOPLE, files_in(tmp_path), CODING)
    assert flushed >= {path, *path.rglob("*")}


def test_a_finished_store_is_reused_only_for_the_same_request(tmp_path):
    path = tmp_path / "o.zarr"

    def written_at():
        return (path / "zarr.json").stat().st_mtime_ns

    first = aligned(path, PEOPLE, files_in(tmp_path), CODING)
    stamp = written_at()
    aligned(path, PEOPLE, files_in(tmp_path), CODING)
    assert written_at() == stamp
    changed = aligned(path, PEOPLE, files_in(tmp_path, PHENOTYPES + "f3 d 2 2\n"), CODING)
    assert written_at() > stamp
    assert changed.content_digest != first.content_digest
    assert changed.observed.tolist() == [3, 3]
    other = coding.OutcomeCoding(1, CODING.covariates, CODING.phenotypes, CODING.unit)
    stamp = written_at()
    aligned(path, PEOPLE, files_in(tmp_path), other)
    assert written_at() > stamp
    turned = PEOPLE.select(np.array([3, 2, 1, 0]))
    rows = aligned(path, turned, files_in(tmp_path), CODING).read_rows(slice(0, 4))
    assert rows.tolist() == EXPECTED[::-1]


@pytest.mark.parametrize(
    ("phenotypes", "line", "message"),
    [
        (PHENOTYPES + "f1 a 1 1\n", ":6", "one person in two rows: f1 a is also on line 3"),
        (PHENOTYPES + "f3 d x 1\n", ":6", "value of y is not a number .got x"),
        ("FID IID y cc\n1 a 1 1\n1 b 1 1\n", "", "found '1 a', '1 b', expected 'f1 a', 'f1 b', "),
        ("#IID y cc\nA 1 1\n", "", "no person .* matched by IID .found 'A', expected 'a', "),
        ("FID IID y cc\n", "", "no person of this file"),
        ("FID IID y\nf1 a 1\n", ":1", "no column 'cc' in the header.*columns are: y"),
    ],
)
def test_bad_files_are_refused_without_writing(tmp_path, phenotypes, line, message):
    files = files_in(tmp_path, phenotypes)
    with pytest.raises(InputError, match=message) as caught:
        aligned(tmp_path / "o.zarr", PEOPLE, files, CODING)
    assert str(caught.value.where) == f"{tmp_path}/pheno.tsv{line}"
    assert "\n" not in str(caught.value)
    assert {p.name for p in tmp_path.iterdir()} == {"pheno.tsv", "covar.tsv"}


def test_ambiguous_people_of_the_genotypes_are_refused(tmp_path):
    files = files_in(tmp_path)
    twice = sample_table([("f1", "a"), ("f2", "c"), ("f1", "a")])
    with pytest.raises(InputError, match="in two rows of the genotypes: f1 a, rows 1 and 3"):
        aligned(tmp_path / "o.zarr", twice, files, CODING)
    same_iid = sample_table([("f1", "a"), ("f2", "a")])
    files = files_in(tmp_path, "#IID y cc\na 1 1\n")
    with pytest.raises(InputError, match=r"two people .* have the IID a .rows 1 and 2.*FID column"):
        aligned(tmp_path / "o.zarr", same_iid, files, CODING)


@pytest.mark.parametrize(
    ("files", "said", "count"),
    [
        # The codes of cc are 1 and 2.
        ({"phenotypes": "FID IID y cc\nf1 a 0 0\nf1 b 0 1\n"}, "cc: 0 cases among 1 people", 1),
        ({"phenotypes": "FID IID y cc\nf1 a -9 1\nf1 b NA 2\n"}, "y: nobody has a value", 1),
        ({"covariates": "FID IID age\nf1 a 101\nf1 b 50\n"},
         "age: 50.0% of 2 values lie outside of the bounds 0 and 100", 1),
        ({"covariates": "FID IID age\nf1 a 101\nf1 b 50\n"}, "Weights have a wrong scale", 1),
        ({"phenotypes": "FID IID y cc\nf1 a 1 1\nf1 b NA 2\n"},
         "1 of 2 phenotypes have no value for more than half of 4 genotyped people: y 75.0%. Their",
         1),
        ({"phenotypes": "FID IID y cc\nf1 a -999 1\nf1 b 1 1\nf2 c -999 2\nf3 d 5 1\n"},
         "y: 75.0% of 4 values lie outside of the bounds -2 and 2", 1),
        ({"covariates": "FID IID age\nf1 a 999\nf1 b 50\nf2 c 999\n"},
         "age: 66.7% of 3 values lie outside of the bounds 0 and 100", 1),
        ({"phenotypes": "FID IID y cc\nf1 a 1 2\nf1 b -1 2\n"}, "cc: 2 cases among 2 people", 1),
    ],
)  # fmt: skip
def test_suspicious_values_give_warnings(tmp_path, caplog, files, said, count):
    aligned(tmp_path / "o.zarr", PEOPLE, files_in(tmp_path, **files), CODING)
    assert caplog.text.count(said) == count
