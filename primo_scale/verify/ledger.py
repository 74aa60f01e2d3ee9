"""Check of a release against the custodian's ledger, which must have paid for this release.

The ledger is a SQLite file with an append-only chain of events, each with a keyed digest of itself
and of the previous event, and with the key that signs releases. This module reads it on its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from primo_scale.errors import InputError
from primo_scale.verify import files, theorems, words
from primo_scale.verify.document import Document, kind_of, read_document
from primo_scale.verify.finding import Finding, finding_of

_FORMAT_VERSION = 2
_LOCK_SECONDS = 60.0
_COST = {"mu_squared": "mu_squared", "epsilon": "approximate_epsilon", "delta": "approximate_delta"}
_ACCOUNT = ("cohort", "unit", "adjacency")


def ledger_findings(directory: Path, ledger_file: Path) -> list[Finding]:
    """Check a private release against the custodian's ledger, which only its owner can read.

    The ledger's chain of events must be intact, its key must have signed the release, and its
    charge must be that of the release. A file that is no ledger raises an InputError.
    """
    form = kind_of(directory)
    document, schema = read_document(directory, form)
    if document is None:
        return [schema]
    if not document["private"]:
        return [Finding(False, "ledger file", f"a {words.NOT_PRIVATE} release has no ledger")]
    key, charges, published, deltas, problems = _read_ledger(ledger_file)
    named, stated = document["signature"]["public_key"], document["ledger"]["charge"]
    signed = [f"the ledger's key is {key}, the release was signed by {named}"] * (key != named)
    findings = [
        finding_of("ledger file", problems, "the chain of events is intact"),
        finding_of("signer", signed, f"the ledger's own key {named}"),
    ]
    if stated not in charges:
        findings.append(Finding(False, "charge", f"charge {stated} is not in the ledger"))
        return [*findings, Finding(False, "account", "the charge is in no account")]
    differences = list(_charge_problems(document, charges[stated]))
    digest = files.sha256_of((directory / form.name).read_bytes())
    if stated not in published:
        differences.append(f"charge {stated} was not published")
    elif digest not in published[stated]:
        differences.append(f"charge {stated} was published with another release.json")
    findings.append(finding_of("charge", differences, "published with this release.json"))
    return [*findings, _check_balance(document, charges, deltas)]


def _read_ledger(
    path: Path,
) -> tuple[str, dict[str, Document], dict[str, list[str]], dict[tuple[str, ...], float], list[str]]:
    """Return what the events of a ledger say, and what is wrong with their chain.

    That is the public key, the charges, oldest first, the digests of release.json by charge, and
    the deltas by account.
    """
    if not path.is_file():
        raise InputError("no ledger here", where=path, remedy="Check --ledger")
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_SECONDS)) as database:
            database.execute("PRAGMA query_only = ON")
            ((key,),) = database.execute("SELECT key FROM secret").fetchall()
            ((signing,),) = database.execute("SELECT key FROM signing").fetchall()
            rows = database.execute(
                "SELECT number, time, kind, body, digest FROM events ORDER BY number"
            ).fetchall()
            last = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
            is_whole = last.fetchall() == [(len(rows),)]
        events = [(kind, json.loads(body)) for _, _, kind, body, _ in rows]
        public_key, format_version = events[0][1]["public_key"], events[0][1]["format_version"]
        problems = list(_chain_problems(key, rows))
        charges = {body["charge"]: body for kind, body in events if kind == "reserved"}
        deltas = {_account(body): body["delta"] for kind, body in events if kind == "budget"}
        published: dict[str, list[str]] = {}
        for kind, body in events:
            if kind == "published":
                published.setdefault(body["charge"], []).append(body["digest"])
        signer = Ed25519PrivateKey.from_private_bytes(signing).public_key().public_bytes_raw()
    except (sqlite3.DatabaseError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"is not a privacy ledger: {error}", where=path) from error
    if format_version != _FORMAT_VERSION:
        raise InputError(
            "the ledger has an unknown format version", where=path, value=format_version
        )
    problems += [] if is_whole else ["an event is missing at the end"]
    if signer.hex() != public_key:
        problems.append("the signing key is not the one that was recorded")
    return public_key, charges, published, deltas, problems


def _account(body: Document) -> tuple[str, ...]:
    return tuple(body[name] for name in _ACCOUNT)


def _chain_problems(key: bytes, rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """Yield a line for each event that was changed or is missing."""
    previous = ""
    for expected, (number, time, kind, body, digest) in enumerate(rows, start=1):
        if number != expected:
            yield f"event {expected}: missing"
        content = b"event\0" + files.canonical_json([previous, time, kind, body])
        if digest != hmac.new(key, content, hashlib.sha256).hexdigest():
            yield f"event {number} ({kind}): changed after it was written"
        previous = digest


def _charge_problems(document: Document, paid: Document) -> Iterator[str]:
    """Yield the differences between a charge and the release that it should have paid for."""
    promise, known = document["guarantee"], f"charge {paid['charge']}"
    cohort = words.UNNAMED if _is_digest(paid["cohort"]) else paid["cohort"]
    found = {
        "epsilon": (paid["epsilon"], promise["epsilon"]),
        "delta": (paid["delta"], promise["delta"]),
        "privacy unit": (paid["unit"], promise["privacy"]),
        "adjacency": (paid["adjacency"], promise["adjacency"]),
        "cohort": (cohort, document["ledger"]["cohort"]),
    }
    for what, (value, expected) in found.items():
        if value != expected:
            yield f"{known} is for {what} {value}, stated is {expected}"
    for name, member in _COST.items():
        if not theorems.close(paid[member], promise["cost"][name]):
            yield f"{known} cost {name} {paid[member]}, not what is stated"


def _check_balance(
    document: Document, charges: dict[str, Document], deltas: dict[tuple[str, ...], float]
) -> Finding:
    """Check that the stated balance is one that the account has had.

    Charges are never removed from an account. The stated spending before this release includes at
    least the charges that precede the release's own, because the statement is made after it, and at
    most all other charges that the account has now.
    """
    before, problems = document["ledger"]["before"], []
    charge = charges[document["ledger"]["charge"]]
    account = _account(charge)
    own = [each for each in charges.values() if _account(each) == account]
    place, others = own.index(charge), [each for each in own if each is not charge]
    for name, member in _COST.items():
        least, most = (math.fsum(each[member] for each in some) for some in (own[:place], others))
        stated = f"{name} {before[name]} is stated as spent before"
        if before[name] > most and not theorems.close(before[name], most):
            problems.append(f"{stated}; the other charges cost {most}")
        if before[name] < least and not theorems.close(before[name], least):
            problems.append(f"{stated}; the earlier charges cost {least}")
    if deltas.get(account) != document["guarantee"]["delta"]:
        problems.append(f"the account's delta is {deltas.get(account)}")
    cohort, unit, adjacency = account
    name = cohort[:12] if _is_digest(cohort) else cohort
    return finding_of("account", problems, f"{name} ({unit} privacy, {adjacency})")


def _is_digest(cohort: str) -> bool:
    """Return whether a cohort has no name, but a keyed digest of its people."""
    return len(cohort) == 64 and set(cohort) <= set("0123456789abcdef")
