"""README.txt and columns.tsv of a party's release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from primo_scale.publication.document import Document
from primo_scale.publication.file_names import COLUMNS_FILE, PARTY_FILE, VALUES_FILE

_README = """\
Noisy values of {columns} of {n_people} people, released by the party "{party}"
{stamp}
{software[name]} {software[version]}, {created} (UTC)

{values_file} has {rows} rows and {columns}, 64-bit integers in the format of NumPy.
{meaning}
A value of {unit:.12g} is half the range of its column, and 0 is the middle of its bounds
({columns_file}). The noise on every value has a standard deviation of {sigma:.6g}, which is
{relative:.3g} times half the range.

What is promised
{promise}

Whether a central release would serve better
The average over {n_people} people of the product of two columns, in half ranges, has noise with a
standard deviation of {here:.2g} here. If one trusted node held {all_columns} columns and released
their products under the same promise, it would be {central:.2g}. {advice}

To join the releases of several parties and fit a model:

  primo-scale party fit --release THIS --release OTHER --outcome COLUMN --out MODEL

Files
  {values_file:<14}the noisy values
  {columns_file:<14}name and public bounds of every column
  {party_file:<14}the numbers from which the guarantee follows, and SHA-256 digests of the files
"""
_ROWS = "A row is one person, in the order of the roster, which only the parties know."
_MIXTURES = "A row is a sum of all people with random signs from the public seed {seed}."
_THIS_PARTY = (
    "Epsilon and delta bound what is learned about a person from this release. For the releases\n"
    "of all parties together, the values of mu^2 add up: it is "
    "{guarantee[cost][mu_squared]:.6g} here."
)
_A_PERSON = (
    "Epsilon and delta bound what is learned about a person from the releases of all parties\n"
    "together, if these have at most {person_columns} columns in total and make the same promise."
)
_CENTRAL = "Prefer that where data may be brought together."
_THIS = "This release is no worse."


def party_unit(document: Document) -> str:
    """Return what two neighbouring cohorts may differ in."""
    alone = document["person_columns"] == len(document["columns"])
    return f"one person's values at {'this party' if alone else 'all parties'}"


def n_rows(document: Document) -> int:
    """Return the number of rows of the values: people, or mixtures of them."""
    mixtures = document["mixtures"]
    return int(document["n_people"] if mixtures is None else mixtures["count"])


def half_range(document: Mapping[str, Any]) -> float:
    """Return half the range of a column in lattice units, in a row or a mixture of unit norm."""
    mixtures = document["mixtures"]
    return float(document["mechanism"]["unit"] * math.sqrt(mixtures["count"] if mixtures else 1))


def render_party_readme(document: Document) -> str:
    """Return README.txt of the party's release with this party.json."""
    mixtures, count = document["mixtures"], len(document["columns"])
    sigma, covered = document["mechanism"]["sigma"], document["person_columns"]
    here, central = product_noise(document), central_noise(document)
    promise = _THIS_PARTY if covered == count else _A_PERSON
    facts = document | {"columns": f"{count} column{'' if count == 1 else 's'}"}
    return _README.format(
        **facts,
        rows=n_rows(document),
        meaning=_ROWS if mixtures is None else _MIXTURES.format(**mixtures),
        unit=half_range(document),
        sigma=sigma,
        relative=sigma / half_range(document),
        promise=promise.format(**document),
        here=here,
        central=central,
        all_columns=covered,
        advice=_CENTRAL if central < here else _THIS,
        values_file=VALUES_FILE,
        columns_file=COLUMNS_FILE,
        party_file=PARTY_FILE,
    )


def product_noise(document: Document) -> float:
    """Return the sd of the noise in the average product of two columns of equal noise.

    The average over n people has the noise's own product, of sd ``s^2 sqrt(rows) / n``, and its
    product with the values, of sd ``s sqrt(2 v / n)`` for values of mean square v = 1/3, which is
    that of a value uniform within its bounds.
    """
    rows, n = n_rows(document), document["n_people"]
    sd = document["mechanism"]["sigma"] / half_range(document)
    return math.hypot(sd**2 * math.sqrt(rows) / n, sd * math.sqrt(2 / (3 * n)))


def central_noise(document: Document) -> float:
    """Return the sd of the noise in an average product that one node releases.

    The Gram matrix of D columns within [-1, 1] changes by at most ``sqrt(2) D`` if a row is
    replaced (docs/maths/gram.md); off the diagonal the noise is smaller by ``sqrt(2)``.
    """
    mu_squared = document["guarantee"]["cost"]["mu_squared"]
    covered = document["person_columns"]
    mu = math.sqrt(mu_squared * covered / len(document["columns"]))
    return float(covered / mu / document["n_people"])


def columns_table(document: Document) -> str:
    """Return columns.tsv: name and bounds of every column."""
    lines = ["name\tlower\tupper"]
    lines += [f"{c['name']}\t{c['lower']!r}\t{c['upper']!r}" for c in document["columns"]]
    return "\n".join(lines) + "\n"
