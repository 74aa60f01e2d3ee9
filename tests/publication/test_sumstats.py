"""Summary statistics in a release: their format, their values, and their verification."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from msgspec import structs
from scipy import stats
from support.documents import read_document
from support.release_edits import cell, forge, problems, restate, rewrite
from support.release_examples import (
    example_statement,
    example_summary,
    example_weights,
    publish,
    publish_example,
)

FILES = ("sumstats/height.tsv.gz", "sumstats/LDL.tsv.gz")


@pytest.fixture
def release(tmp_path):
    return publish_example(tmp_path / "release", summary=True)


def test_files_have_the_columns_of_the_standard_and_the_values_of_their_definition(release):
    summary = example_summary(example_weights())
    for k, name in enumerate(FILES):
        table = pd.read_csv(release / name, sep="\t", dtype={"p_value": str})
        assert list(table)[:8] == [
            "chromosome", "base_pair_location", "effect_allele", "other_allele", "beta",
            "standard_error", "effect_allele_frequency", "p_value",
        ]  # fmt: skip
        assert table["rsid"].tolist() == table["ID"].tolist() == [f"rs{j}" for j in range(7)]
        np.testing.assert_allclose(table["beta"], summary.beta[:, k], rtol=1e-5)
        people = 1 / (0.7**2 * 0.5)
        np.testing.assert_allclose(table["n_eff"], people, rtol=1e-5)
        z = summary.beta[:, k] / 0.7
        for text, expected in zip(table["p_value"], 2 * stats.norm.sf(np.abs(z)), strict=True):
            head, tail = text.split("e")
            found = math.log10(float(head)) + int(tail)
            if expected > 0:
                assert found == pytest.approx(math.log10(expected), rel=1e-3, abs=1e-3)
            else:
                assert found < -300
        assert table["p_value"].str.contains("e-[0-9]{4}").any()


def test_verification_compares_every_value_that_follows_from_others(release):
    assert problems(release) == []
    changes = {
        0: "21", 1: "101", 2: "C", 3: "C", 4: "nan", 5: "-0.7", 6: "0.45", 7: "0.5e0", 8: "rs9",
        9: "rs9", 10: "5", 11: "4711",
    }  # fmt: skip
    original = (release / FILES[1]).read_bytes()
    for column, text in changes.items():
        rewrite(release, FILES[1], cell(2, column, text))
        (problem,) = problems(release)
        assert problem.startswith(f"contents: {FILES[1]} line 3 ")
        (release / FILES[1]).write_bytes(original)


@pytest.mark.parametrize(
    ("column", "change"),
    [(4, "{}01"), (5, "+{}"), (5, "{}0"), (5, "0.7000000000004711"), (6, "0.50"), (6, "0.500001"),
     (7, "0{}"), (7, "{}_0"), (10, "{}11"), (10, " {}")],
)  # fmt: skip
def test_numbers_have_the_digits_that_are_written(column, change, release):
    """Further digits could tell more than the noisy statistics."""

    def longer(table: str) -> str:
        number = table.split("\n")[2].split("\t")[column]
        return cell(2, column, change.format(number))(table)

    rewrite(release, FILES[0], longer)
    (problem,) = problems(release)
    assert problem == f"contents: {FILES[0]} line 3 is not the row of the next variant as written"


def test_a_missing_row_and_an_unstated_file_are_found(release):
    rewrite(release, FILES[0], lambda text: text[: text.rindex("22\t")])
    assert "line 8 is not the row" in problems(release)[0]
    document = read_document(release)
    document["summary_statistics"] = False
    forge(release, document)
    assert any(f"{FILES[1]} is no file of this release" in each for each in problems(release))


@pytest.mark.parametrize(("flat", "names"), [([0], ["LDL.tsv.gz"]), ([0, 1], [])])
def test_a_phenotype_without_variance_has_no_file_without_noise(flat, names, tmp_path):
    """A standard error of 0 would be certainty; validators refuse missing values."""
    weights = example_weights()
    statement = structs.replace(example_statement(weights, private=False), summary_statistics=True)
    summary = example_summary(weights)
    summary.standard_error[:, flat] = 0
    weights = replace(weights, summary=summary)
    out = publish(tmp_path / "out", weights, statement)
    assert [path.name for path in out.glob("sumstats/*")] == names
    assert problems(out) == []


def test_a_private_release_has_a_file_of_every_phenotype(release):
    document = read_document(release)
    (release / FILES[0]).unlink()
    document["files"] = [each for each in document["files"] if each["name"] != FILES[0]]
    restate(release, document)
    assert any(f"{FILES[0]} is not listed" in problem for problem in problems(release))
