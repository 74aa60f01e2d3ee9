"""Names and sentences of release.json that follow from its numbers.

The writers and the checks share them: a check compares a stated sentence with the one that the
numbers imply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from primo_scale.verify.document import Document
from primo_scale.verify.finding import Finding, finding_of

NOT_PRIVATE = "NOT PRIVATE"
NOT_PRIVATE_COLUMN = NOT_PRIVATE.replace(" ", "_")
# Beginning of the name of the column that states the guarantee of a private release.
STAMP_BEGINNING = "epsilon="
# Cohort in the ledger that the custodian gave no name.
UNNAMED = "unnamed"
# Total variation between a keystream draw and the rounded Gaussian (docs/maths/noise.md).
KEYSTREAM_DISTANCE = 4e-119
# Source of the noise, and its distance to the ideal distribution.
SAMPLER = (
    "Gaussian from an AES-256-CTR keystream under a fresh key from operating system entropy, so "
    "that the guarantee is computational; rounded to a lattice with at least 2^32 steps to a "
    f"standard deviation, each draw within {KEYSTREAM_DISTANCE:g} of that in total variation "
    "(docs/maths/noise.md)"
)

_UNITS = {
    ("full", "replace-one"): "one person's whole row",
    ("full", "add-remove"): "one person's whole row",
    ("label", "replace-one"): "one person's phenotypes (genotypes and covariates are known)",
    ("label", "add-remove"): (
        "one person's phenotypes replaced by nothing (genotypes and covariates are known)"
    ),
    ("feature", "replace-one"): "one person's genotypes and covariates (phenotypes are known)",
    ("feature", "add-remove"): (
        "one person's genotypes and covariates replaced by nothing (phenotypes are known)"
    ),
}
_PEOPLE = ("the number of people", "the list of people: who is in the cohort")
_KNOWN = {
    "full": (),
    "label": ("every person's genotypes and covariates",),
    "feature": ("every person's phenotypes, and which of them are missing",),
}
_VARIANTS_AND_NAMES = (
    "the variants: IDs, positions, alleles and which allele is counted",
    "names, public bounds and codings of phenotypes and covariates",
)


def unit_in_words(privacy: str, adjacency: str) -> str:
    """Return what neighbouring cohorts may differ in, under a privacy unit and an adjacency."""
    return _UNITS[privacy, adjacency]


def unit_of(document: Document) -> str:
    """Return what neighbouring cohorts may differ in, under the promise of a document."""
    if "party" in document:
        alone = document["person_columns"] == len(document["columns"])
        return f"one person's values at {'this party' if alone else 'all parties'}"
    return unit_in_words(document["guarantee"]["privacy"], document["guarantee"]["adjacency"])


def public_by_assumption(privacy: str, adjacency: str) -> tuple[str, ...]:
    """Return what the guarantee assumes to be public and does not protect."""
    hides_people = (privacy, adjacency) == ("full", "add-remove")
    return (*_KNOWN[privacy], *(() if hides_people else _PEOPLE), *_VARIANTS_AND_NAMES)


def people_in_words(document: Document) -> str:
    """Return the number of people in words, or the nominal number if it is private."""
    cohort, hold_out = document["cohort"], document["hold_out"]
    if cohort["n_samples"] is None:
        return f"a private number of people (planned for {cohort['nominal_n']})"
    if hold_out is None:
        return f"{cohort['n_samples']} people"
    return f"{cohort['n_samples'] - hold_out['people']} people, with {hold_out['people']} held out"


def stamp_of(document: Document) -> str:
    """Return the line with the guarantee that every file of the release carries."""
    guarantee = document["guarantee"]
    if guarantee is None:
        return f"{NOT_PRIVATE}: no noise protects the people in the cohort"
    return (
        f"({guarantee['epsilon']:.12g}, {guarantee['delta']:.12g})-differentially private, "
        f"{guarantee['adjacency']}, {guarantee['unit']}"
    )


def stamp_column(document: Mapping[str, Any]) -> str:
    """Return the guarantee as a column name without blanks."""
    guarantee = document["guarantee"]
    if guarantee is None:
        return NOT_PRIVATE_COLUMN
    return (
        f"{STAMP_BEGINNING}{guarantee['epsilon']:.12g},delta={guarantee['delta']:.12g},"
        f"unit={guarantee['privacy']},adjacency={guarantee['adjacency']}"
    )


def check_words(document: Document) -> Finding:
    """Check that the sentences of a document agree with its numbers and names."""
    expected, promise = stamp_of(document), document["guarantee"]
    pairs: dict[str, tuple[Any, Any]] = {"stamp": (document["stamp"], expected)}
    public: tuple[str, ...] = ()
    if promise is not None:
        public = public_by_assumption(promise["privacy"], promise["adjacency"])
        pairs["unit"] = promise["unit"], unit_of(document)
        pairs["sampler"] = document["mechanism"]["sampler"], SAMPLER
    pairs["list of public values"] = document["public_by_assumption"], list(public)
    problems = [
        f"the stated {name} is {found!r}, not {right!r}"
        for name, (found, right) in pairs.items()
        if found != right
    ]
    return finding_of("stamp", problems, expected)
