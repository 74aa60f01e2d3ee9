"""Verification of a party's release from its files alone (docs/maths/parties.md)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from primo_scale.publication.document import PARTY, Document
from primo_scale.publication.file_names import COLUMNS_FILE, README_FILE, VALUES_FILE
from primo_scale.publication.finding import Finding, finding_of
from primo_scale.publication.party_readme import (
    columns_table,
    n_rows,
    party_unit,
    render_party_readme,
)
from primo_scale.publication.recompute import check_epsilon
from primo_scale.publication.recompute_ledger import ledger_problems
from primo_scale.publication.recompute_profile import COARSEST_SIGMA, FINEST_SIGMA, Lattice, close
from primo_scale.publication.signed_document import check_words, directory_findings, verdict
from primo_scale.version import __version__

_UNIT = 1 << 20
_VALUE_BYTES = 8


def verify_party(directory: Path, *, public_key: str | None = None) -> list[Finding]:
    """Return the results of all checks of a party's release, as `verify_release` does."""
    document, findings = directory_findings(directory, PARTY, public_key, _check_contents)
    if document is None:
        return findings
    promised = {"privacy": "full", "adjacency": "replace-one"}
    findings += verdict("stamp", lambda: [check_words(document, party_unit(document), **promised)])
    return findings + verdict("guarantee", lambda: _guarantee(document))


def _shape(document: Document) -> tuple[int, int]:
    return n_rows(document), len(document["columns"])


def _check_contents(directory: Path, document: Document, trusted: bool) -> list[Finding]:
    """Check the other files; a README of another version only if no trusted signature covers it."""
    expected = {COLUMNS_FILE: columns_table(document)}
    if document["software"]["version"] == __version__ or not trusted:
        expected[README_FILE] = render_party_readme(document)
    problems = [
        f"{name} differs from what this version renders from party.json"
        for name, text in expected.items()
        if (directory / name).read_bytes() != text.encode()
    ]
    names = [column["name"] for column in document["columns"]]
    if len(set(names)) < len(names):
        problems.append("two columns have the same name")
    if any(not column["lower"] < column["upper"] for column in document["columns"]):
        problems.append("the bounds of a column are not an increasing range")
    problems += _values_problems(directory / VALUES_FILE, _shape(document))
    detail = "README, columns and values agree with party.json"
    return [finding_of("contents", problems, detail)]


def _values_problems(path: Path, shape: tuple[int, int]) -> list[str]:
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            return [f"{path.name} is not in version 1.0 of NumPy's format"]
        header = file.read(int.from_bytes(file.read(2), "little"))
        size = file.tell() + math.prod(shape) * _VALUE_BYTES
    expected = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}"
    if header.rstrip(b" \n") != expected.encode() or path.stat().st_size != size:
        return [f"{path.name} does not hold {shape[0]} rows of {shape[1]} 64-bit integers"]
    return []


def _guarantee(document: Document) -> list[Finding]:
    mechanism, guarantee = document["mechanism"], document["guarantee"]
    (rows, count), covered = _shape(document), document["person_columns"]
    mixed = 1 if document["mixtures"] is None else rows
    sensitivity = 2 * _UNIT * math.sqrt(count * mixed)
    mu_squared = (sensitivity / mechanism["sigma"]) ** 2
    steps = mechanism["sigma"] * 2.0 ** mechanism["fine_bits"]
    problems = [] if mechanism["unit"] == _UNIT else [f"unit {mechanism['unit']}, not {_UNIT}"]
    if not close(mechanism["sensitivity"], sensitivity):
        problems.append(f"sensitivity {mechanism['sensitivity']:.12g}, not {sensitivity:.12g}")
    if not COARSEST_SIGMA <= steps <= FINEST_SIGMA:
        problems.append(f"sigma is {steps:.6g} steps of the noise lattice, needs 2^32 to 2^58")
    if not close(guarantee["mu"] ** 2, mu_squared):
        problems.append(f"mu is {math.sqrt(mu_squared):.12g}, stated {guarantee['mu']:.12g}")
    if not close(guarantee["cost"]["mu_squared"], mu_squared):
        problems.append("the cost is not mu^2")
    if guarantee["cost"]["epsilon"] or guarantee["cost"]["delta"]:
        problems.append("Gaussian noise has no separate cost (epsilon, delta)")
    if covered < count:
        problems.append(f"the promise covers {covered} of {count} columns")
    mechanism_finding = finding_of("mechanism", problems, f"sensitivity {sensitivity:.6g}")
    ledger = ledger_problems(document, mu_squared)
    lattice = Lattice(rows * max(count, covered), steps)  # of all columns that the promise covers
    return [
        mechanism_finding,
        check_epsilon(guarantee, math.sqrt(mu_squared * covered / count), lattice),
        finding_of("ledger", ledger, f"charge {document['ledger']['charges'][0]['id']}"),
    ]
