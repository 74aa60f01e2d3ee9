"""Verification finds every change, also one with the right digests and signature."""

import os
import re
from typing import Any

import pytest
from support.documents import places, put, read_document, schema_problems, value_at
from support.release_edits import failed, forge, problems, rewrite
from support.release_examples import (
    FILES,
    MODES,
    PUBLIC_KEY,
    SIGNER,
    example_document,
    publish_example,
)
from support.small_cohort import command, succeeded
from support.tiers import thinned

from primo_scale.cli.commands import verify as main
from primo_scale.errors import InputError
from primo_scale.verify.document import serialise
from primo_scale.verify.files import signature_of
from primo_scale.verify.release import document_findings, release_findings, verify
from primo_scale.verify.words import stamp_of


@pytest.mark.parametrize("depth", [*range(800, 1001, 10), 200_000])
@pytest.mark.parametrize("start", ["[", '{"schema_version":3,"cohort":', '{"stamp":'])
def test_a_document_nested_too_deeply_is_refused_in_a_line(release, start, depth):
    end = "}" if start.startswith("{") else ""
    (release / "release.json").write_text(start + "[" * depth + "]" * depth + end)
    (finding,) = release_findings(release)
    assert not finding.ok
    assert "\n" not in finding.detail
    (release / "release.json").write_text("[" * depth)
    assert len(release_findings(release)) == 1


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_of_release_verifies(mode, tmp_path):
    directory = publish_example(tmp_path / "out", mode=mode)
    assert problems(directory) == []
    assert verify(directory).private
    calibration = read_document(directory)["mechanism"]["calibration"]
    assert calibration == MODES[mode].calibration


@pytest.mark.parametrize("name", thinned(sorted((*FILES, "release.json")), every=3))
def test_any_byte_of_any_file_matters(name, release):
    path = release / name
    content = path.read_bytes()
    for position in range(0, len(content), max(1, len(content) // 60)):
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
        )
        found = problems(release)
        assert found, f"byte {position} of {name}"
        # Another check would notice most changes too.
        assert name == "release.json" or any(f"{name} was changed" in each for each in found)
    path.write_bytes(content)
    assert problems(release) == []


@pytest.mark.parametrize("name", FILES)
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
        release_findings(release)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda files: files[0].update(bytes=1), "README.txt has another size than stated"),
        (lambda files: files.append(files[0]), "a file is listed twice"),
    ],
)
def test_a_wrong_list_of_files_is_found(change, problem, release):
    document = read_document(release)
    change(document["files"])
    document["signature"] = signature_of(document, SIGNER)
    (release / "release.json").write_bytes(serialise(document))
    assert problems(release) == [f"files: {problem}"]


def test_a_file_that_does_not_belong_is_found(release):
    (release / "pgs" / "raw_statistics.npz").write_bytes(b"")
    (release / "a message").mkdir()
    assert problems(release) == [
        "files: a message does not belong here; pgs/raw_statistics.npz does not belong here"
    ]


def test_the_document_is_a_plain_file(release):
    path = release / "release.json"
    path.rename(release.parent / "elsewhere")
    path.symlink_to(release.parent / "elsewhere")
    assert problems(release) == ["files: release.json is not a plain file"]


def test_no_key_vouches_for_a_release_without_noise(pristine):
    findings = release_findings(pristine[False], public_key=PUBLIC_KEY)
    assert [finding.check for finding in findings if not finding.ok] == ["signature"]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def nudged(document: dict[str, Any], path: str, factor: float) -> dict[str, Any]:
    """Return a copy with another number at a path: an integer by one, or a number by a factor."""
    number = value_at(document, path)
    if isinstance(number, int):
        return put(document, path, number + (1 if factor > 1 else -1))
    return put(document, path, number * factor if number else factor)


# Members with words and data that follow from no other number; digest and signature protect them.
UNCHECKED = {"public_inputs", "estimation", "accuracy", "files", "schema_version"}
ADDS_UP = ("observed", "smallest_eigenvalue")


def is_harmless(document: dict[str, Any], path: str, factor: float) -> bool:
    """Return whether the guarantee still holds: more noise than needed, or a finer lattice."""
    if path.startswith("mechanism.queries."):
        _, _, number, name, *_ = path.split(".")
        query = document["mechanism"]["queries"][int(number)]
        if factor > 1 and name == "sigma":
            added = document["guarantee"]["adjacency"] == "add-remove"
            alone = (*ADDS_UP, "phenotype_cross") if added else ADDS_UP
            return query["name"] not in alone
        return factor > 1 and name in ("off_diagonal_sigma", "fine_bits")
    # Only amplification depends on the number of people, and the last digits of an eigenvalue's
    # sensitivity.
    people = path in ("cohort.n_samples", "cohort.nominal_n")
    return people and document["mechanism"]["subsample"] is None


@pytest.mark.parametrize(
    ("mode", "factor"),
    # In the quick tier every other mode has one factor, and modes take turns.
    thinned(
        [
            (mode, factor)
            for number, mode in enumerate(MODES)
            for factor in ((1.001, 0.999) if number % 4 else (0.999, 1.001))
        ],
        every=4,
    ),
)
def test_a_change_of_any_number_is_found_by_the_mathematics(mode, factor):
    """Digests and signature do not matter here: only the numbers are checked."""
    document = example_document(mode)
    checked = (".".join(map(str, path)) for path in places(document) if path[0] not in UNCHECKED)
    leaves = [path for path in checked if is_number(value_at(document, path))]
    assert len(leaves) > 40
    for path in leaves:
        forged = nudged(document, path, factor)
        found = schema_problems(forged) or [f for f in document_findings(forged) if not f.ok]
        assert bool(found) is not is_harmless(document, path, factor), path


@pytest.mark.parametrize("mode", ["full-blocks", "label", "subsampled"])
def test_a_lie_of_the_custodian_is_found_in_the_files_too(mode, tmp_path):
    directory = publish_example(tmp_path / "out", mode=mode)
    forge(directory, nudged(read_document(directory), "guarantee.epsilon", 0.999))
    assert [problem.split(":")[0] for problem in problems(directory)] == [
        "contents", "stamp", "epsilon",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "path", "value", "check"),
    [
        ("label", "public_by_assumption.0", "nothing but other people", "stamp"),
        ("naive", "estimation.attenuation", [0.9], "sizes"),
        ("naive", "estimation.penalties", [1.5] * 3, "sizes"),
        ("full", "estimation.penalties", [], "sizes"),
        ("naive", "public_inputs.phenotypes", [], "sizes"),
        ("naive", "cohort.block_sizes", [3], "sizes"),
        ("naive", "files", [], "sizes"),
        ("full", "mechanism.queries.0.fine_bits", [0], "noise lattice"),
        ("full", "ledger.epsilon_after", 0.1, "ledger"),
    ],
)
def test_contradictions_within_a_statement_are_found(mode, path, value, check):
    assert check in failed(put(example_document(mode), path, value))


def test_another_unit_is_found_although_the_stamp_repeats_it():
    document = put(example_document("label"), "guarantee.unit", "nothing but other people")
    document["stamp"] = stamp_of(document)
    assert failed(document) == ["stamp"]


def test_a_budget_overrun_is_found():
    """The budget pays for this release alone, and the account has spent a tenth of it before."""
    document = example_document()
    promise = document["guarantee"]
    document["ledger"] |= {
        "budget_epsilon": promise["epsilon"],
        "budget_mu_squared": promise["cost"]["mu_squared"],
    }
    findings = document_findings(document)
    assert any("exceeds the budget" in finding.detail for finding in findings)


def test_a_release_without_noise_cannot_be_relabelled(open_release, pristine):
    """The statement is that of a private release, but every file is marked NOT PRIVATE."""
    document = read_document(pristine[True])
    document["files"] = read_document(open_release)["files"]
    forge(open_release, document)
    assert verify(open_release).private
    (contents,) = problems(open_release)
    for name in ("weights.tsv.gz", "covariates.tsv", "centre.afreq", "and 2 more"):
        assert name in contents


@pytest.mark.parametrize("name", FILES)
def test_each_file_must_carry_the_stamp(name, open_release):
    rewrite(open_release, name, lambda old: re.sub("NOT[ _]PRIVATE", "PRIVATE", old))
    assert any(name in problem for problem in problems(open_release))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"private": NaN}', '{"schema_version": 3}', "\xff"]
)
def test_release_json_that_is_no_statement(text, release):
    (release / "release.json").write_bytes(text.encode("latin-1"))
    (problem,) = problems(release)
    assert problem.startswith("release.json: ")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"private": true', '"private": false,\n  "private": true', "is not in the canonical form"),
        ('"lower": -4.0', '"lower": -1e999', "Number out of range"),
    ],
)
def test_duplicated_keys_and_numbers_too_large_for_floats_are_found(old, new, what, release):
    path = release / "release.json"
    path.write_text(path.read_text().replace(old, new))
    (problem,) = problems(release)
    assert what in problem


def test_a_good_release(pristine):
    result = command(main, pristine[True])
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert all(line.startswith("ok ") for line in lines[:-4])
    assert lines[-4].startswith("guarantee, recomputed: epsilon 5, delta 1e-07, mu 0.94")
    assert "hiding one person's whole row (replace-one)" in lines[-4]
    assert "are the signer's word" in lines[-3]
    assert lines[-2].startswith("WARNING: NO --public-key WAS GIVEN")
    assert "recomputed 4.999995 at delta 1e-07" in result.stdout
    assert lines[-1].startswith("verified: ")


def test_a_damaged_release(release):
    (release / "weights.tsv.gz").write_bytes(b"")
    result = command(main, release)
    assert result.exit_code == 1
    assert "PROBLEM  files" in result.output
    assert "weights.tsv.gz has another size than stated" in result.output
    assert result.output.splitlines()[-1].startswith("NOT VERIFIED: 1 of ")


def test_a_release_without_noise_is_intact_but_never_called_verified(pristine):
    result = succeeded(command(main, pristine[False]))
    assert result.output.splitlines()[-1].startswith("intact, but NOT PRIVATE")
    assert "verified" not in result.output


def test_an_expected_key(pristine):
    result = succeeded(command(main, pristine[True], "--public-key", PUBLIC_KEY))
    assert f"by {PUBLIC_KEY}, as expected" in result.output
    assert "WARNING" not in result.output
    result = command(main, pristine[True], "--public-key", "0" * 64)
    assert result.exit_code == 1
    assert "PROBLEM  signature" in result.output
