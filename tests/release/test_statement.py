"""The schema of release.json: what it lets through and what not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from release_examples import read_document

from primo_scale.errors import InputError
from primo_scale.release.statement import check_schema, schema_problems, statement_digest

ABSENT = object()


def changed(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    document = copy.deepcopy(document)
    *parents, last = path.split(".")
    place: Any = document
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    if value is ABSENT:
        del place[last]
    else:
        place[last] = value
    return document


def test_both_kinds_of_release_follow_the_schema(pristine):
    for directory in pristine.values():
        assert schema_problems(read_document(directory)) == []


@pytest.mark.parametrize(
    "path, value",
    [
        ("schema_version", 2),
        ("guarantee", None),
        ("guarantee", ABSENT),
        ("guarantee.epsilon", 0),
        ("guarantee.epsilon", -1),
        ("guarantee.epsilon", "5"),
        ("guarantee.delta", 0),
        ("guarantee.delta", 1),
        ("guarantee.adjacency", "add-remove"),
        ("guarantee.unit", "one genotype"),
        ("mechanism", None),
        ("mechanism.row_norm_squared", 1.5),
        ("mechanism.split", 0),
        ("mechanism.split", 2.1),
        ("mechanism.queries.0.sigma", 0),
        ("mechanism.queries.0.sigma", 1e300),
        ("mechanism.queries.0.off_diagonal_sigma", None),
        ("mechanism.queries.1.off_diagonal_sigma", 1.0),
        ("mechanism.queries.0.observed_total", 12),
        ("cohort.n_phenotyped", 900),
        ("cohort.n_samples", 0),
        ("ledger", None),
        ("unprotected", ["genotypes"]),
        ("stamp", "NOT PRIVATE"),
        ("created", "2026-11-20T10:00:00Z"),
        ("private", False),
        ("files.0.name", "../weights.tsv.gz"),
        ("files.0.name", "pgs/../x.txt.gz"),
        ("public_inputs.reference_frequencies", {"file": "/home/me/x.afreq", "sha256": "0" * 64}),
        ("r_squared", 0.3),
    ],
)
def test_a_private_statement_cannot_say(path, value, pristine):
    with pytest.raises(InputError, match=r"release\.json"):
        check_schema(changed(read_document(pristine[True]), path, value))


@pytest.mark.parametrize(
    "path, value",
    [
        ("private", True),
        ("guarantee", {"epsilon": 1}),
        ("unprotected", []),
        ("stamp", "(1, 1e-6)-differentially private"),
    ],
)
def test_a_statement_without_noise_cannot_say(path, value, pristine):
    with pytest.raises(InputError):
        check_schema(changed(read_document(pristine[False]), path, value))


def test_digest_covers_everything_but_the_files(pristine):
    document = read_document(pristine[True])
    digest = statement_digest(document)
    assert statement_digest(changed(document, "files", [])) == digest
    assert statement_digest(changed(document, "accuracy.effective_sample_size", 1)) != digest
