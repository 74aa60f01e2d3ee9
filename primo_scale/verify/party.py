"""A party's release, verified from its files alone (docs/maths/parties.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from primo_scale.verify import finding, theorems
from primo_scale.verify.document import Document
from primo_scale.verify.files import COLUMNS_FILE, README_FILE, VALUES_FILE
from primo_scale.verify.guarantee import check_epsilon, check_ledger, check_mu

_UNIT = 1 << 20
_VALUE_BYTES = 8


def n_rows(document: Document) -> int:
    """Return the number of rows of the values: people, or mixtures of them."""
    mixtures = document["mixtures"]
    return int(document["n_people"] if mixtures is None else mixtures["count"])


def half_range(document: Mapping[str, Any]) -> float:
    """Return half the range of a column in lattice units, in a row or a mixture of unit norm."""
    mixtures = document["mixtures"]
    return float(document["mechanism"]["unit"] * math.sqrt(mixtures["count"] if mixtures else 1))


def columns_table(document: Document) -> str:
    """Return columns.tsv: name and bounds of every column."""
    lines = ["name\tlower\tupper"]
    lines += [f"{c['name']}\t{c['lower']!r}\t{c['upper']!r}" for c in document["columns"]]
    return "\n".join(lines) + "\n"


def contents_problems(directory: Path, document: Document) -> list[str]:
    """Return the contradictions between the other files and party.json."""
    names, problems = [column["name"] for column in document["columns"]], []
    listed = {entry["name"] for entry in document["files"]}
    if listed != {README_FILE, COLUMNS_FILE, VALUES_FILE}:
        problems.append(f"{', '.join(sorted(listed))} are not the files of a party")
    if (directory / COLUMNS_FILE).read_bytes() != columns_table(document).encode():
        problems.append(f"{COLUMNS_FILE} differs from party.json")
    if len(set(names)) < len(names):
        problems.append("two columns have the same name")
    if any(not column["lower"] < column["upper"] for column in document["columns"]):
        problems.append("the bounds of a column are not an increasing range")
    shape = n_rows(document), len(names)
    expected = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}"
    with (directory / VALUES_FILE).open("rb") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            return [*problems, f"{VALUES_FILE} is not in version 1.0 of NumPy's format"]
        header = file.read(int.from_bytes(file.read(2), "little"))
        size = file.tell() + math.prod(shape) * _VALUE_BYTES
    is_large = (directory / VALUES_FILE).stat().st_size == size
    if header.rstrip(b" \n") != expected.encode() or not is_large:
        problems.append(f"{VALUES_FILE} does not hold {shape[0]} rows of {shape[1]} integers")
    return problems


def promise_findings(document: Document) -> list[finding.Finding]:
    """Check every number from which the promise of a party follows."""
    mechanism, guarantee = document["mechanism"], document["guarantee"]
    rows, count, covered = n_rows(document), len(document["columns"]), document["person_columns"]
    mixed = 1 if document["mixtures"] is None else rows
    sensitivity = 2 * _UNIT * math.sqrt(count * mixed)
    mu_squared = (sensitivity / mechanism["sigma"]) ** 2
    steps = mechanism["sigma"] * 2.0 ** mechanism["fine_bits"]
    problems = [] if mechanism["unit"] == _UNIT else [f"unit {mechanism['unit']}, not {_UNIT}"]
    problems += theorems.differences([("sensitivity", sensitivity, mechanism["sensitivity"])])
    if not theorems.COARSEST_SIGMA <= steps <= theorems.FINEST_SIGMA:
        problems.append(f"sigma is {steps:.6g} steps of the noise lattice, needs 2^32 to 2^58")
    if guarantee["cost"]["epsilon"] or guarantee["cost"]["delta"]:
        problems.append("Gaussian noise has no separate cost (epsilon, delta)")
    if (guarantee["privacy"], guarantee["adjacency"]) != ("full", "replace-one"):
        problems.append("the promise of a party is full privacy under replace-one")
    if covered < count:
        problems.append(f"the promise covers {covered} of {count} columns")
    lattice = rows * max(count, covered), steps  # of all columns that the promise covers
    return [
        finding.finding_of("mechanism", problems, f"sensitivity {sensitivity:.6g}"),
        check_mu(guarantee, mu_squared),
        check_epsilon(guarantee, math.sqrt(mu_squared * covered / count), lattice),
        check_ledger(document),
    ]
