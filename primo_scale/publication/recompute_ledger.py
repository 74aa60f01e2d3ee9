"""Recomputation of the ledger entry in release.json, which shares no code with the ledger."""

from __future__ import annotations

import math

from primo_scale.publication.document import Document
from primo_scale.publication.recompute_profile import EPSILON_TOLERANCE, close, epsilon_of

_COST = ("mu_squared", "epsilon", "delta")


def ledger_problems(document: Document, charged: float) -> list[str]:
    """Return the contradictions of a ledger entry, given the recomputed mu^2 of its charge."""
    ledger, guarantee = document["ledger"], document["guarantee"]
    (charge,) = ledger["charges"]
    cost = charge["cost"]
    problems = []
    for name, other in (("unit", "privacy"), ("adjacency", "adjacency"), ("delta", "delta")):
        if ledger[name] != guarantee[other]:
            problems.append(f"the account's {name} is {ledger[name]}, not {guarantee[other]}")
    if not close(cost["mu_squared"], charged):
        problems.append(f"the charge has mu^2 {cost['mu_squared']:.12g}, not {charged:.12g}")
    problems += _sums(ledger, cost, guarantee["cost"])
    problems += _epsilons(ledger)
    return problems


def _sums(ledger: Document, cost: Document, whole: Document) -> list[str]:
    before, after = ledger["before"]["cost"], ledger["after"]["cost"]
    problems = []
    for name in _COST:
        if not close(cost[name], whole[name]):
            problems.append(f"the charge's {name} is {cost[name]:.12g}, not {whole[name]:.12g}")
        if not close(before[name] + cost[name], after[name]):
            problems.append(f"{name} rose from {before[name]:.12g} to {after[name]:.12g}")
    return problems


def _epsilons(ledger: Document) -> list[str]:
    problems = []
    delta, budget = ledger["delta"], ledger["budget"]
    epsilons = {
        "before": (_epsilon(ledger["before"]["cost"], delta), ledger["before"]["epsilon"]),
        "after": (_epsilon(ledger["after"]["cost"], delta), ledger["after"]["epsilon"]),
        "budget": (epsilon_of(math.sqrt(budget["mu_squared"]), delta), budget["epsilon"]),
    }
    for name, (found, stated) in epsilons.items():
        if not math.isclose(found, stated, rel_tol=EPSILON_TOLERANCE, abs_tol=1e-12):
            problems.append(f"epsilon {name} is {found:.9g}, stated {stated:.9g}")
    if epsilons["after"][0] > budget["epsilon"] * (1 + EPSILON_TOLERANCE):
        problems.append(
            f"epsilon {epsilons['after'][0]:.9g} exceeds the budget of {budget['epsilon']}"
        )
    return problems


def _epsilon(cost: Document, delta: float) -> float:
    """Return ``eps(mu, delta - sum delta_j) + sum eps_j``."""
    gaussian = epsilon_of(math.sqrt(cost["mu_squared"]), delta - cost["delta"])
    return gaussian + float(cost["epsilon"])
