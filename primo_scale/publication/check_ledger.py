"""Check of a release against the custodian's ledger, which must have paid for this release."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

from primo_scale.gaussian.calibration import Cost
from primo_scale.ledger.accounts import Balance, Charge, ChargeState, total_cost
from primo_scale.ledger.ledger import Ledger
from primo_scale.publication.document import Document
from primo_scale.publication.finding import Finding, finding_of
from primo_scale.publication.recompute_profile import close
from primo_scale.publication.signed_document import kind_of, read_document
from primo_scale.publication.wording import NOT_PRIVATE, UNNAMED
from primo_scale.storage.files import sha256_of_file


def ledger_findings(directory: Path, ledger_file: Path) -> list[Finding]:
    """Check a private release against the custodian's ledger, which only its owner can read.

    The ledger's chain of events must be intact, its key must have signed the release, and its
    charges must be those of the release. A file that is no ledger raises an InputError.
    """
    kind = kind_of(directory)
    document, schema = read_document(directory, kind)
    if document is None:
        return [schema]
    if not document["private"]:
        return [Finding(False, "ledger file", f"a {NOT_PRIVATE} release has no ledger")]
    digest = sha256_of_file(directory / kind.name)
    with Ledger(ledger_file, create=False) as ledger:
        chain, key, balances = ledger.verify(), ledger.public_key, ledger.balances()
    named = document["signature"]["public_key"]
    signed = (
        [] if key == named else [f"the ledger's key is {key}, the release was signed by {named}"]
    )
    return [
        finding_of("ledger file", chain, "the chain of events is intact"),
        finding_of("signer", signed, f"the ledger's own key {key}"),
        _check_charges(document, balances, digest),
        _check_balance(document, balances),
    ]


def _check_charges(document: Document, balances: list[Balance], digest: str) -> Finding:
    """Check that the ledger has the charge, at its cost, published with this release.json."""
    known = {charge.id: charge for balance in balances for charge in balance.charges}
    (stated,) = document["ledger"]["charges"]
    if stated["id"] in known:
        problems = _charge_problems(document, stated["cost"], known[stated["id"]], digest)
    else:
        problems = [f"charge {stated['id']} is not in the ledger"]
    return finding_of("charge", problems, "published with this release.json")


def _charge_problems(
    document: Document, stated: Document, charge: Charge, digest: str
) -> list[str]:
    request, promise, entry = charge.request, document["guarantee"], document["ledger"]
    found: dict[str, tuple[Any, Any]] = {
        "epsilon": (request.epsilon, promise["epsilon"]),
        "delta": (request.delta, promise["delta"]),
        "privacy unit": (str(request.account.unit), promise["privacy"]),
        "adjacency": (str(request.account.adjacency), promise["adjacency"]),
        "cohort": (request.account.given_name or UNNAMED, entry["cohort"]),
    }
    problems = [
        f"charge {charge.id} is for {what} {paid}, stated is {expected}"
        for what, (paid, expected) in found.items()
        if paid != expected
    ]
    if not all(map(close, astuple(charge.cost), astuple(Cost(**stated)))):
        problems.append(f"charge {charge.id} cost {charge.cost}, not what is stated")
    if charge.state is not ChargeState.PUBLISHED:
        problems.append(f"charge {charge.id} is {charge.state}, not published")
    elif digest not in charge.release_digests:
        problems.append(f"charge {charge.id} was published with another release.json")
    return problems


def _check_balance(document: Document, balances: list[Balance]) -> Finding:
    """Check that the stated balance is one that the account has had.

    Charges are never removed from an account. The stated spending before this release includes at
    least the charges that precede the release's own, because the statement is made after it, and at
    most all other charges that the account has now.
    """
    entry = document["ledger"]
    (stated,) = entry["charges"]
    own = [b for b in balances if any(charge.id == stated["id"] for charge in b.charges)]
    if len(own) != 1:
        return Finding(False, "account", f"the charge is in {len(own)} accounts")
    (balance,) = own
    others = total_cost(c.cost for c in balance.charges if c.id != stated["id"])
    before, problems = Cost(**entry["before"]["cost"]), []
    if not _is_within(before, others):
        problems.append(f"{before} is stated as spent before; the other charges cost {others}")
    least = balance.spent_before(stated["id"])
    if not _is_within(least, before):
        problems.append(f"{before} is stated as spent before; the earlier charges cost {least}")
    if balance.budget.delta != entry["delta"]:
        problems.append(f"the account's delta is {balance.budget.delta}, not {entry['delta']}")
    return finding_of("account", problems, balance.account.description)


def _is_within(small: Cost, large: Cost) -> bool:
    pairs = zip(astuple(small), astuple(large), strict=True)
    return all(a <= b or close(a, b) for a, b in pairs)
