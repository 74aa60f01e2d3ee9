"""Verification finds whatever was changed, even by somebody who makes every digest fit."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from release_examples import (
    OPTIONS,
    example_statement,
    example_weights,
    forge,
    read_document,
)

from primo_scale.errors import InputError
from primo_scale.release.publish import publish_release
from primo_scale.release.statement import serialise, statement_document
from primo_scale.release.verify import is_private, verify_release

FILES = (
    "weights.tsv.gz",
    "centre.afreq",
    "pgs/height.txt.gz",
    "pgs/LDL.txt.gz",
    "report.html",
    "release.log",
    "release.json",
)


def problems(directory: Path) -> list[str]:
    findings = verify_release(directory)
    return [f"{finding.check}: {finding.detail}" for finding in findings if not finding.ok]


def test_intact_releases_verify(pristine):
    for private, directory in pristine.items():
        assert problems(directory) == []
        assert is_private(directory) is private


def test_noise_from_a_known_seed_is_not_private(tmp_path):
    """Such a release may describe its noise, but carries no guarantee."""
    weights = example_weights()
    statement = dataclasses.replace(
        example_statement(weights, private=False), mechanism=example_statement(weights).mechanism
    )
    directory = publish_release(tmp_path / "out", weights, statement, OPTIONS)
    assert problems(directory) == []
    assert not is_private(directory)


@pytest.mark.parametrize("name", FILES)
def test_any_byte_of_any_file_matters(name, release):
    path = release / name
    content = path.read_bytes()
    for position in range(0, len(content), max(1, len(content) // 60)):
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
        )
        assert problems(release), f"byte {position} of {name}"
    path.write_bytes(content)
    assert problems(release) == []


@pytest.mark.parametrize("name", FILES[:-1])
def test_missing_extra_and_linked_files_are_found(name, release):
    path = release / name
    content = path.read_bytes()
    path.unlink()
    assert f"files: {name} is missing" in problems(release)
    (release.parent / "elsewhere").write_bytes(content)
    path.symlink_to(release.parent / "elsewhere")
    assert f"files: {name} is not a plain file" in problems(release)
    os.rename(release / "release.json", release / "release.json.bak")
    with pytest.raises(InputError, match="holds no release"):
        verify_release(release)


def test_a_file_that_does_not_belong_is_found(release):
    (release / "pgs" / "raw_statistics.npz").write_bytes(b"")
    assert problems(release) == ["files: pgs/raw_statistics.npz does not belong here"]


# ------------------------------------------------------------- changed numbers in release.json

DOCUMENT = json.loads(serialise(statement_document(example_statement(example_weights()))))


def numeric_leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in items:
            yield from numeric_leaves(child, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def changed(document: dict[str, Any], path: tuple[Any, ...], factor: float) -> dict[str, Any]:
    document = copy.deepcopy(document)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    number = place[path[-1]]
    if isinstance(number, int):
        place[path[-1]] = number + (1 if factor > 1 else -1)
    else:
        place[path[-1]] = number * factor if number else factor
    return document


def test_a_change_of_any_number_is_found(release):
    document = read_document(release)
    for path in numeric_leaves(document):
        (release / "release.json").write_bytes(serialise(changed(document, path, 1.0001)))
        assert problems(release), path


GUARANTEE_LEAVES = [
    path for path in numeric_leaves(DOCUMENT) if path[0] in ("guarantee", "mechanism")
]
# Changes that leave the guarantee as good as it was: more noise than is needed, or a finer lattice.
HARMLESS = {
    (("mechanism", "queries", 1, "sigma"), 1.001),
    (("mechanism", "queries", 0, "off_diagonal_sigma"), 1.001),
    (("mechanism", "queries", 2, "off_diagonal_sigma"), 1.001),
    *((("mechanism", "queries", index, "fine_bits"), 1.001) for index in range(4)),
}


@pytest.mark.parametrize("factor", [1.001, 0.999])
@pytest.mark.parametrize("path", GUARANTEE_LEAVES, ids=lambda path: ".".join(map(str, path)))
def test_a_forger_who_fits_the_digests_is_found_by_the_mathematics(path, factor, release):
    forge(release, changed(read_document(release), path, factor))
    found = problems(release)
    if (path, factor) in HARMLESS:
        assert found == []
    else:
        assert found
        assert not any(problem.startswith(("release.json", "files")) for problem in found)


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in numeric_leaves(DOCUMENT)
        if path[0] in ("ledger", "cohort") and path[1] != "n_samples"  # no formula has n
    ],
)
def test_a_forged_ledger_or_size_is_found(path, release):
    forge(release, changed(read_document(release), path, 1.001))
    assert problems(release)


def test_too_coarse_a_lattice_is_found(release):
    document = read_document(release)
    for query in document["mechanism"]["queries"]:
        query["fine_bits"] = 0
    forge(release, document)
    assert any(problem.startswith("noise lattice") for problem in problems(release))


def test_a_budget_overrun_is_found(release):
    document = read_document(release)
    ledger = document["ledger"]
    for name in ("mu_squared", "epsilon"):
        ledger[f"{name}_budget"] = ledger[f"{name}_before"]
    forge(release, document)
    assert any("over the budget" in problem for problem in problems(release))


@pytest.mark.parametrize("missing", range(3))
def test_a_query_left_out_is_found(missing, release):
    document = read_document(release)
    del document["mechanism"]["queries"][missing]
    document["mechanism"]["queries"] *= 2 if len(document["mechanism"]["queries"]) < 3 else 1
    forge(release, document)
    assert any(problem.startswith("queries") for problem in problems(release))


# ------------------------------------------------------------------ files that contradict


def test_a_release_without_noise_cannot_be_relabelled(open_release, pristine):
    """Take the statement of a private release; every file still says NOT PRIVATE."""
    document = read_document(pristine[True])
    document["files"] = read_document(open_release)["files"]
    forge(open_release, document)
    (contents,) = problems(open_release)
    for name in ("weights.tsv.gz", "centre.afreq", "report.html"):
        assert name in contents


@pytest.mark.parametrize("name", FILES[:-1])
def test_each_file_must_carry_the_stamp(name, open_release):
    path = open_release / name
    packed = name.endswith(".gz")
    text = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode()
    assert "NOT PRIVATE" in text or "NOT_PRIVATE" in text
    without = text.replace("NOT PRIVATE", "PRIVATE").replace("NOT_PRIVATE", "PRIVATE")
    path.write_bytes(gzip.compress(without.encode()) if packed else without.encode())
    forge(open_release, read_document(open_release))
    assert any(name in problem for problem in problems(open_release))


@pytest.mark.parametrize("damage", ["row lost", "row too many", "column lost", "nan", "empty"])
def test_weights_of_other_sizes_are_found(damage, release):
    path = release / "weights.tsv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    lines = {
        "row lost": lines[:3] + lines[4:],
        "row too many": [*lines[:3], "rs99\tA\tG\t22\t1\t0\t0\n", *lines[3:]],
        "column lost": [line.rsplit("\t", 1)[0] + "\n" for line in lines],
        "nan": [*lines[:3], "rs2\tA\tG\t22\t300\tnan\t0\n", *lines[4:]],
        "empty": [],
    }[damage]
    path.write_bytes(gzip.compress("".join(lines).encode()))
    forge(release, read_document(release))
    assert any("weights.tsv.gz" in problem for problem in problems(release))


@pytest.mark.parametrize("name", ["weights.tsv.gz", "pgs/LDL.txt.gz", "centre.afreq"])
def test_unreadable_files_are_problems_not_crashes(name, release):
    for content in (b"", b"\x1f\x8b\x08garbage", b"\xff\xfe", (release / name).read_bytes()[:-9]):
        (release / name).write_bytes(content)
        forge(release, read_document(release))
        assert problems(release)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"private": NaN}', '{"schema_version": 1}', "\xff"]
)
def test_release_json_that_is_no_statement(text, release):
    (release / "release.json").write_bytes(text.encode("latin-1"))
    (problem,) = problems(release)
    assert problem.startswith("release.json: ")


def test_duplicated_keys_are_found(release):
    path = release / "release.json"
    text = path.read_text().replace('"private": true', '"private": false,\n  "private": true')
    path.write_text(text)
    assert problems(release) == ["release.json: is not in the form it was written in"]


def test_numbers_too_large_for_floats_are_found(release):
    path = release / "release.json"
    path.write_text(path.read_text().replace('"lower": -4.0', '"lower": -1e999'))
    (problem,) = problems(release)
    assert "not finite" in problem
