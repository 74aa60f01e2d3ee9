"""The schema of release.json: valid and invalid statements."""

from pathlib import Path

import pytest
from support.documents import put, read_document, schema_problems, value_at
from support.release_edits import failed
from support.release_examples import example_document

from primo_scale.verify import document
from primo_scale.verify.document import PARTY, RELEASE, schema_text, statement_digest
from primo_scale.verify.words import public_by_assumption, unit_in_words

PRIVATE = example_document()

UNKNOWN_MEMBERS = ("r_squared", "guarantee.versions.people")


def test_the_shipped_schema_is_that_of_the_types():
    for kind in (RELEASE, PARTY):
        path = Path(document.__file__).with_name(kind.name.replace(".json", ".schema.json"))
        assert path.read_text() == schema_text(kind), "run make schema"


@pytest.mark.parametrize(
    "path, value",
    [
        ("guarantee", None),
        ("guarantee.epsilon", 0),
        ("guarantee.delta", 0),
        ("guarantee.delta", 1),
        ("guarantee.adjacency", "zero-out"),
        ("guarantee.privacy", "genotypes"),
        ("guarantee.cost.mu_squared", -1),
        ("guarantee.versions.people", "4711"),
        ("mechanism", None),
        ("mechanism.split", 0),
        ("mechanism.gram_copies", 0),
        ("mechanism.subsample", 0),
        ("mechanism.exact_parts", ["everything"]),
        ("mechanism.exact_parts", ["gram", "gram"]),
        ("mechanism.share", 1.1),
        ("mechanism.share", 0),
        ("mechanism.queries.0.sigma", []),
        ("mechanism.queries.0.sigma", [0]),
        ("mechanism.queries.0.sigma", [1e300]),
        ("mechanism.queries.0.off_diagonal_sigma", None),
        ("mechanism.queries.1.off_diagonal_sigma", [1.0]),
        ("cohort.n_samples", 0),
        ("cohort.n_samples", 7.0),  # written as a float
        ("ledger", None),
        ("ledger.charge", ""),
        ("public_by_assumption", []),
        ("unprotected", ["genotypes"]),
        ("signature", None),
        ("signature.algorithm", "RSA"),
        ("signature.value", "00"),
        ("stamp", "NOT PRIVATE"),
        ("created", "2026-11-20T10:00:00Z"),
        ("created", "2026-11-20\n"),
        ("files.0.sha256", "0" * 64 + "\n"),
        ("private", False),
        ("files.0.name", "../weights.tsv.gz"),
        ("files.0.name", "pgs/../x.txt.gz"),
        ("public_inputs.reference_frequencies", {"file": "/home/me/x.afreq", "sha256": "0" * 64}),
        ("r_squared", 0.3),
    ],
)
def test_a_private_statement_cannot_say(path, value, pristine):
    if path not in UNKNOWN_MEMBERS:
        assert value_at(read_document(pristine[True]), path) != value
    document = put(read_document(pristine[True]), path, value)
    assert schema_problems(document) or failed(document)


@pytest.mark.parametrize(
    "path, value",
    [
        ("private", True),
        ("unprotected", []),
        ("public_by_assumption", ["the number of people"]),
        ("stamp", "(1, 1e-6)-differentially private"),
        *((name, PRIVATE[name]) for name in ("guarantee", "mechanism", "ledger", "signature")),
    ],
)
def test_a_statement_without_noise_cannot_say(path, value, pristine):
    document = put(read_document(pristine[False]), path, value)
    assert schema_problems(document) or failed(document)


def test_an_older_statement_is_told_from_a_broken_one(pristine):
    old = put(read_document(pristine[True]), "schema_version", 1)
    assert schema_problems(old) == [
        "violates its schema: schema version 1: this program reads version 4"
    ]


def test_digest_covers_everything_but_files_and_signature(pristine):
    document = read_document(pristine[True])
    digest = statement_digest(document)
    assert statement_digest(put(document, "files", [])) == digest
    assert statement_digest(put(document, "signature", None)) == digest
    assert statement_digest(put(document, "accuracy.effective_sample_size", 1)) != digest
    assert statement_digest(put(document, "public_by_assumption", [])) != digest


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    "privacy, known, hidden",
    [
        ("full", "variants", "genotypes and covariates"),
        ("label", "genotypes and covariates", "every person's phenotypes"),
        ("feature", "every person's phenotypes", "genotypes and covariates"),
    ],
)
def test_words_say_what_is_protected_and_what_is_not(privacy, adjacency, known, hidden):
    listed = "; ".join(public_by_assumption(privacy, adjacency))
    assert known in listed
    assert hidden not in listed
    people_are_hidden = privacy == "full" and adjacency == "add-remove"
    assert ("people" not in listed) is people_are_hidden
    unit = unit_in_words(privacy, adjacency)
    assert ("nothing" in unit) is (adjacency == "add-remove" and privacy != "full")
    assert ("known" in unit) is (privacy != "full")
